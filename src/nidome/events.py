"""The typed events of a run. Everything printed, stored or shown is rendered from these.

An event is data: ``to_json`` gives it with its ``type``, ``from_json`` reads it again. Readers ignore keys
and types that they do not know.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Announced",
    "Diagnostic",
    "Event",
    "PlanReady",
    "PlayStarted",
    "RunFinished",
    "RunStarted",
    "Sink",
    "Staged",
    "Staging",
    "TaskFinished",
    "TaskStarted",
    "Waited",
    "Waiting",
    "from_json",
]


@dataclass(frozen=True)
class Event:
    """What all events have: when it happened, in seconds since the epoch."""

    at: float = field(default_factory=time.time, kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain data with its type in snake case."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return {"type": name, **dataclasses.asdict(self)}


Sink = Callable[[Event], None]
"""Where events go. A sink must not raise."""


@dataclass(frozen=True)
class RunStarted(Event):
    """The first event: what runs, over which hosts, from which declaration."""

    run: str
    version: str
    command: tuple[str, ...]
    cluster: str
    hosts: tuple[str, ...]
    declaration: str
    schema: int = 1
    playbook: str = ""
    """The playbook, by its file's name: ``cluster.yml``."""
    scope: dict[str, Any] = field(default_factory=dict)
    """How the run was narrowed: ``tags``, ``skip_tags``, ``limit``, ``start_at_task``, ``check``."""


@dataclass(frozen=True)
class Diagnostic(Event):
    """Something a person should know: ``severity`` is ``warning`` or ``error``, ``code`` is stable."""

    severity: str
    code: str
    message: str
    where: str = ""
    hint: str = ""


@dataclass(frozen=True)
class PlanReady(Event):
    """The plan, as its JSON document, before anything is changed."""

    plan: dict[str, Any]


@dataclass(frozen=True)
class Waiting(Event):
    """The run waits for a host, before any task: ``what`` says for what."""

    host: str
    what: str


@dataclass(frozen=True)
class Waited(Event):
    """What the run last waited for on this host has come, or has failed."""

    host: str
    ok: bool = True


@dataclass(frozen=True)
class Staging(Event):
    """Artifacts are being sent to a host: bytes that are there of bytes in all."""

    host: str
    done: int
    size: int


@dataclass(frozen=True)
class Staged(Event):
    """Artifacts were sent to a host: how many and how many bytes."""

    host: str
    count: int
    size: int


@dataclass(frozen=True)
class Announced:
    """A task or handler that a play is going to run, on these hosts."""

    task: str
    handler: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class PlayStarted(Event):
    """A play begins on its hosts, none where it concerns nobody; its tasks in order, where they are known."""

    play: str
    hosts: tuple[str, ...]
    tasks: tuple[Announced, ...] = ()


@dataclass(frozen=True)
class TaskStarted(Event):
    """A task begins on a host that has something to do or to wait for."""

    host: str
    play: str
    task: str
    handler: bool = False


@dataclass(frozen=True)
class TaskFinished(Event):
    """A task's result on a host: ``status`` is ok, changed, failed, skipped or unreachable.

    ``notes`` says of a skipped task why nothing can be said about it.
    """

    host: str
    play: str
    task: str
    status: str
    seconds: float
    changes: tuple[dict[str, Any], ...] = ()
    error: dict[str, str] | None = None
    handler: bool = False
    waited: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunFinished(Event):
    """The last event: per host the counters of the recap, and whether all went well."""

    recap: dict[str, dict[str, int]]
    seconds: float
    phases: dict[str, float]
    ok: bool


_TYPES: dict[str, type[Event]] = {
    "diagnostic": Diagnostic,
    "plan_ready": PlanReady,
    "play_started": PlayStarted,
    "run_finished": RunFinished,
    "run_started": RunStarted,
    "staged": Staged,
    "staging": Staging,
    "task_finished": TaskFinished,
    "task_started": TaskStarted,
    "waited": Waited,
    "waiting": Waiting,
}


def from_json(data: dict[str, Any]) -> Event | None:
    """Return the event that plain data tells of; None for a type that this release does not know.

    ValueError where the data lacks what an event of its type must have.
    """
    kind = _TYPES.get(data.get("type", ""))
    if kind is None:
        return None
    try:
        return _made(kind, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a whole event: {error}") from None


def _made(kind: type[Event], data: dict[str, Any]) -> Event:
    known = {each.name for each in dataclasses.fields(kind)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known
    }
    if kind is PlayStarted:
        tasks = values.get("tasks", ())
        values["tasks"] = tuple(Announced(t["task"], t["handler"], tuple(t["hosts"])) for t in tasks)
    return kind(**values)
