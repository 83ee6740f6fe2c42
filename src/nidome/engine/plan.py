"""The plan: every task and handler of every host with what it will change, before anything is changed.

The plan is the run: applying executes these steps and nothing else. Pure; hosts were observed before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome import __version__
from nidome.agent.system import DIRECTORY
from nidome.engine.diff import Change, Delta, Difference, compare
from nidome.engine.masking import masked
from nidome.events import Announced
from nidome.model.spec import because, plain_value
from nidome.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nidome.agent.resources.base import Observed, Resource
    from nidome.engine.selection import Selection
    from nidome.model.spec import ClusterSpec, HostSpec
    from nidome.provenance import Origin
    from nidome.roles.base import Handler, HostContext, Play, Task
    from nidome.roles.playbook import HostPlay

__all__ = [
    "FORMAT_VERSION",
    "PARTLY_KEY",
    "VERSION_KEY",
    "HostPlan",
    "Plan",
    "Step",
    "announced",
    "changed_inputs",
    "due",
    "plan_host",
    "seen_by",
]

FORMAT_VERSION = "1.0"
VERSION_KEY = "nidome"
"""Under which the version that applied them is kept beside the declared values."""
PARTLY_KEY = "partly"
"""Under which values are kept that runs of only some tasks have applied since: by task, by field."""
REMOVAL = "nidome : Remove what is no longer declared"


@dataclass(frozen=True)
class Step:
    """A task or a handler on one host, its resources, and how each differs from what was found."""

    play: str
    title: str
    resources: tuple[Resource, ...]
    differences: tuple[Difference, ...]
    tags: tuple[str, ...] = ()
    handler: Handler | None = None
    removes: tuple[str, ...] = ()
    phase: str = ""

    @property
    def changes(self) -> tuple[Change, ...]:
        """What will certainly be changed."""
        removed = tuple(Change(identity, "delete") for identity in self.removes)
        return tuple(d.change for d in self.differences if d.change) + removed

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why nothing can be said, for each resource of which nothing can."""
        return tuple(
            f"{r.id}: {d.unknown}" for r, d in zip(self.resources, self.differences, strict=True) if d.unknown
        )

    @property
    def errors(self) -> tuple[dict[str, str], ...]:
        """What was found to be wrong in a way that applying cannot mend."""
        return tuple(d.error for d in self.differences if d.error)

    @property
    def waiting(self) -> tuple[str, ...]:
        """What conditions still lack: waiting for it changes nothing."""
        return tuple(
            f"{r.id}: {d.waiting}" for r, d in zip(self.resources, self.differences, strict=True) if d.waiting
        )

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do or to wait for."""
        return not self.removes and all(d.settled for d in self.differences)

    def to_json(self) -> dict[str, Any]:
        """Return the step as plain data."""
        return {
            "play": self.play,
            "task": self.title,
            "tags": list(self.tags),
            "handler": self.handler is not None,
            "changes": [c.to_json() for c in self.changes],
            "unobservable": list(self.unknown),
            "errors": list(self.errors),
        }


@dataclass(frozen=True)
class HostPlan:
    """The steps of one host in order."""

    host: HostSpec
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plan:
    """The plans of all hosts; ``secrets`` are texts that its document must not show."""

    cluster: str
    declaration: str
    hosts: tuple[HostPlan, ...]
    secrets: frozenset[str] = frozenset()

    @property
    def steps(self) -> Iterator[tuple[str, Step]]:
        """Every step with its host's name."""
        return ((h.host.name, step) for h in self.hosts for step in h.steps)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many resources are added, changed and destroyed."""
        actions = [c.action for _, step in self.steps for c in step.changes]
        return (
            actions.count("create"),
            len(actions) - actions.count("create") - actions.count("delete"),
            actions.count("delete"),
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be observed, with the host."""
        return tuple(f"{host}: {reason}" for host, step in self.steps for reason in step.unknown)

    @property
    def waiting(self) -> tuple[str, ...]:
        """What does not hold yet, with the host; on a cluster that has nothing to change, what is wrong."""
        return tuple(f"{host}: {reason}" for host, step in self.steps for reason in step.waiting)

    @property
    def errors(self) -> tuple[tuple[str, dict[str, str]], ...]:
        """What applying will fail at, with the host."""
        return tuple((host, error) for host, step in self.steps for error in step.errors)

    @property
    def empty(self) -> bool:
        """Whether nothing will be changed, nothing is unknown and nothing is wrong."""
        return not any(step.changes or step.unknown or step.errors for _, step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as its JSON document: per host the steps that change, fail or cannot say."""
        hosts = {
            h.host.name: [s.to_json() for s in h.steps if s.changes or s.unknown or s.errors]
            for h in self.hosts
        }
        return {
            "format_version": FORMAT_VERSION,
            "cluster": self.cluster,
            "declaration": self.declaration,
            "waiting": masked(list(self.waiting), self.secrets),
            "hosts": masked(hosts, self.secrets),
        }


def changed_inputs(resource: Resource, difference: Difference) -> list[tuple[str, str | None]]:
    """Return the files whose content a change replaces, with the new sha256 where it is known beforehand."""
    change = difference.change
    if change is None:
        return []
    paths = resource.paths
    if change.action != "create":
        paths = resource.rewrites({d.attribute for d in change.deltas})
    digest = resource.desired().get("sha256")
    return [(path, digest) for path in paths]


def due(handler: Handler, observed: Observed, changed: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return the inputs because of which a handler must run, given what was found and what changes."""
    if not observed or not observed.get("$running"):
        return []
    stale = set(observed["stale"])
    in_force = observed["$in_force"]
    for path, digest in changed:
        if path not in _inputs(handler):
            continue
        if digest is not None and in_force.get(path) == digest:
            stale.discard(path)
        else:
            stale.add(path)
    return sorted(stale)


def announced(play: str, hosts: Sequence[HostPlan]) -> tuple[Announced, ...]:
    """Return a play's tasks and handlers in an order that is every host's own, each with its hosts."""
    order: list[tuple[str, bool]] = []
    owners: dict[tuple[str, bool], list[str]] = {}
    for host in hosts:
        place = 0
        for step in host.steps:
            key = (step.title, step.handler is not None)
            if step.play != play:
                continue
            if key not in order:
                order.insert(place, key)
            place = order.index(key) + 1
            owners.setdefault(key, []).append(host.host.name)
    return tuple(Announced(title, handler, tuple(owners[title, handler])) for title, handler in order)


class _HostPlanner:
    """Collects the steps of one host, and which handlers they make due."""

    def __init__(self, context: HostContext, observed: Mapping[str, Observed], selection: Selection) -> None:
        self._context = context
        self._observed = observed
        self._selection = selection
        self._changed: list[tuple[str, str | None]] = []
        self._doubtful: dict[str, str] = {}
        self._handlers: dict[str, tuple[Handler, int]] = {}
        self.steps: list[Step] = []

    def play(self, mine: HostPlay) -> None:
        """Add a play's tasks, then the handlers that are due after it."""
        for task in mine.tasks:
            if self._selection.takes(task.tags):
                self._task(mine.play, task)
        for handler in mine.handlers:
            self._handlers.setdefault(handler.unit, (handler, -1))
        self._flush(mine.play)

    def _task(self, play: Play, task: Task) -> None:
        differences = []
        for resource in task.resources:
            difference = self._dependent(resource, compare(resource, self._observed[resource.id]))
            self._changed += changed_inputs(resource, difference)
            if difference.unknown:
                self._doubtful.update(dict.fromkeys(resource.paths, resource.id))
            differences.append(self._explained(difference, task))
        found = tuple(differences)
        self.steps.append(Step(play.name, task.title, task.resources, found, task.tags, phase=task.phase))

    def _dependent(self, resource: Resource, difference: Difference) -> Difference:
        """Say that nothing is known of a resource made from files that an earlier step makes anew."""
        changed = {path for path, _ in self._changed} | set(self._doubtful)
        anew = [path for path in resource.reads if path in changed]
        if not anew or not difference.settled:
            return difference
        return Difference(unknown=f"it depends on {', '.join(anew)}, made anew by this plan")

    def _explained(self, difference: Difference, task: Task) -> Difference:
        if difference.change is None:
            return difference
        reasons = self._reasons(task, difference.change)
        return replace(difference, change=replace(difference.change, because=reasons))

    def _reasons(self, task: Task, change: Change) -> tuple[str, ...]:
        """Say which declared values moved since the last apply; else Nidome itself did, or the host.

        What no apply has known yet (at a first install, or a newer Nidome's) moved where somebody wrote it.
        """
        declared = self._context.facts.get("declared") or {}
        declared = {**declared, **declared.get(PARTLY_KEY, {}).get(task.title, {})}
        spec, host = self._context.spec, self._context.host
        moved = [
            n
            for n in task.fields
            if (_plain(spec, host, n) != declared[n] if n in declared else not _is_default(spec, host, n))
        ]
        if moved:
            return _cited(spec, host, moved)
        if declared.get(VERSION_KEY, __version__) != __version__:
            return (f"Nidome {__version__} asks for it, Nidome {declared[VERSION_KEY]} was applied last",)
        return (
            "missing on the host"
            if change.action == "create"
            else "differs on the host from what was declared",
        )

    def _flush(self, play: Play) -> None:
        for unit, (handler, seen) in list(self._handlers.items()):
            observed = self._observed.get(handler.restart.id)
            own = seen < 0
            news = self._changed[max(seen, 0) :]
            self._handlers[unit] = (handler, len(self._changed))
            if not own and not any(path in _inputs(handler) for path, _ in news):
                continue
            stale = due(handler, observed, news)
            touched = [p for p, _ in news if p in stale]
            if stale and (touched or self._selection.takes(handler.tags)):
                self._restart(play, handler, Difference(_restarted(handler, stale)))
            elif not stale and observed and observed.get("$running"):
                self._perhaps(play, handler)

    def _perhaps(self, play: Play, handler: Handler) -> None:
        """Add a handler whose inputs may or may not change, once."""
        doubtful = [p for p in _inputs(handler) if p in self._doubtful]
        if doubtful:
            reason = f"it depends on {', '.join(doubtful)}, of which nothing can be said yet"
            self._restart(play, handler, Difference(unknown=reason))
        for path in doubtful:
            del self._doubtful[path]

    def _restart(self, play: Play, handler: Handler, difference: Difference) -> None:
        self.steps.append(
            Step(play.name, handler.title, (handler.restart,), (difference,), handler.tags, handler)
        )

    def removals(self, play: str, declared: set[str], ledger: Sequence[str]) -> None:
        """Add what the ledger has and nobody declares any more, newest first."""
        gone = tuple(identity for identity in reversed(ledger) if identity not in declared)
        if gone:
            self.steps.append(Step(play, REMOVAL, (), (), removes=gone))


def _inputs(handler: Handler) -> tuple[str, ...]:
    return (*handler.inputs, f"{DIRECTORY}/{handler.unit}")


def _restarted(handler: Handler, stale: Sequence[str]) -> Change:
    deltas = tuple(Delta("stale", path, None) for path in stale)
    return Change(handler.restart.id, "restart", deltas, tuple(f"{path} changed" for path in stale))


def seen_by(tasks: Sequence[Task], values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values that tasks were made from, by their titles: what :data:`PARTLY_KEY` keeps."""
    return {task.title: {name: values[name] for name in task.fields} for task in tasks if task.fields}


def _plain(spec: ClusterSpec, host: HostSpec, name: str) -> Any:
    return plain_value(host if hasattr(host, name) else spec, name)


def _is_default(spec: ClusterSpec, host: HostSpec, name: str) -> bool:
    origin: Origin = getattr(host if hasattr(host, name) else spec, name).origin
    return origin == DEFAULT


def _cited(spec: ClusterSpec, host: HostSpec, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for name in names for line in because(host if hasattr(host, name) else spec, name))


def plan_host(
    context: HostContext,
    plays: Sequence[HostPlay],
    observed: Mapping[str, Observed],
    selection: Selection,
    removable: Sequence[str],
) -> HostPlan:
    """Return what one host needs: steps in the order in which they will run.

    ``observed`` maps resource ids; ``removable`` are the ledger's ids, oldest first, that may be removed
    when nobody declares them.
    """
    planner = _HostPlanner(context, observed, selection)
    for play in plays:
        planner.play(play)
    if selection.everything and plays:
        planner.removals(plays[-1].play.name, set(observed), removable)
    return HostPlan(context.host, tuple(planner.steps))
