"""Remove from every host what Nidome made there, by the host's own ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nidome.agent.host import STATE
from nidome.engine.apply import Recap
from nidome.engine.diff import Change
from nidome.engine.session import Session
from nidome.errors import NidomeError, ResourceError
from nidome.events import PlayStarted, RunFinished, TaskFinished, TaskStarted
from nidome.roles.listing import listing
from nidome.roles.playbook import CLUSTER, RESET, first_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nidome.engine.transport import AgentConnection
    from nidome.events import Sink
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["GONE_WITH_DATA", "STAGES", "Group", "groups", "reset", "titles", "unaccounted_for"]

PLAY = RESET[-1].name
LEDGER_TITLE = "reset : Remove the ledger"
LEDGER = f"{STATE}/ledger.jsonl"

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Remove configuration", ("File",)),
    ("Remove certificates and keys", ("Certificate", "EncryptionKeys", "KeyPair", "Token")),
    ("Restore kernel parameters", ("Sysctl",)),
    ("Unload kernel modules", ("KernelModule",)),
    ("Remove programs", ("Binary",)),
    ("Remove directories and data", ("Directory",)),
    # Last: what a component left behind is removed by programs of these.
    ("Remove packages", ("Package",)),
)
"""What is removed after the units, in order: a title and the resource kinds."""

GONE_WITH_DATA = ("Image", "KubeObject", "NodeTaints")
"""Kinds that live in a component's data and go with it."""


@dataclass(frozen=True)
class Group:
    """Ledger ids that are removed together, in this order, under a name people read."""

    title: str
    ids: tuple[str, ...]


def groups(ledger: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return what is to be removed: units in reverse order of their start, then the rest, newest first.

    Reverse order stops the API server before its store; the other way round it would wait for the store.
    """
    newest = [entry for entry in reversed(ledger) if entry["kind"] not in GONE_WITH_DATA]
    found = [_unit(entry) for entry in newest if entry["kind"] == "Unit"]
    for title, kinds in STAGES:
        ids = tuple(entry["id"] for entry in newest if entry["kind"] in kinds)
        if ids:
            found.append(Group(f"reset : {title}", ids))
    return found


def titles(spec: ClusterSpec, hosts: Sequence[HostSpec]) -> list[str]:
    """Return the tasks of a reset of hosts that have what is declared, and nothing else, without asking them.

    The reset itself goes by each host's own ledger.
    """
    made = [r for play in listing(CLUSTER, spec, hosts) for task in play.tasks for r in task.resources]
    found = groups([{"id": r.id, "kind": r.kind, "key": r.key} for r in made])
    return list(dict.fromkeys([*(group.title for group in found), LEDGER_TITLE]))


def _unit(entry: Mapping[str, Any]) -> Group:
    return Group(f"reset : Stop and remove {entry['key'].rpartition('.')[0]}", (entry["id"],))


def unaccounted_for(found: Mapping[str, Sequence[Any]]) -> ResourceError | None:
    """Return the error of a ledger that does not tell all that Nidome made on a host, None where it does.

    A reset would leave that behind, and with the ledger take away the last trace of it.
    """
    if found["lines"]:
        return ResourceError(
            "ledger-damaged",
            f"lines that are no entries: {', '.join(map(str, found['lines']))}",
            where=LEDGER,
            hint="put a copy of the file in its place; or remove by hand what they name, then the lines",
        )
    if found["units"]:
        names = " ".join(found["units"])
        return ResourceError(
            "ledger-lost",
            f"Nidome made {names} on this host, and its ledger has no entry of them",
            where=LEDGER,
            hint=f"put a copy of the file in its place; or, on the host: systemctl disable --now {names}, "
            "remove their files in /etc/systemd/system, then run this again",
        )
    return None


@dataclass
class _HostReset:
    """The reset of one host: goes on after a failure; the ledger is kept then, for the next reset."""

    host: HostSpec
    agent: AgentConnection
    sink: Sink
    check: bool = False
    recap: Recap = field(default_factory=Recap)

    @property
    def clean(self) -> bool:
        return not self.recap.failed and not self.recap.unreachable

    def run(self) -> None:
        try:
            lost = unaccounted_for(self.agent.call("unaccounted"))
            if lost is not None:
                self._finish("reset : Check the ledger", "failed", time.monotonic(), error=lost.to_json())
                return
            for group in groups(self.agent.call("ledger")):
                self._remove(group)
            if self.clean:
                self._task(LEDGER_TITLE, self._purge)
        except NidomeError as error:
            # Only a lost connection gets here: nothing more can be asked of this host.
            self._finish("reset : Connection", "unreachable", time.monotonic(), error=error.to_json())

    def _purge(self) -> tuple[Change, ...]:
        if not self.check:
            self.agent.call("purge")
        return ()

    def _remove(self, group: Group) -> None:
        def work() -> tuple[Change, ...]:
            errors = [] if self.check else self.agent.call("remove", ids=list(group.ids))
            for identity, error in zip(group.ids, errors, strict=not self.check):
                if error:
                    where = error["where"] or identity
                    raise ResourceError(error["code"], error["message"], where=where, hint=error["hint"])
            return tuple(Change(identity, "delete") for identity in group.ids)

        self._task(group.title, work)

    def _task(self, title: str, work: Any) -> None:
        began = time.monotonic()
        self.sink(TaskStarted(self.host.name, PLAY, title))
        try:
            changes = work()
        except ResourceError as error:
            self._finish(title, "failed", began, error=error.to_json())
            return
        self._finish(title, "changed" if changes else "ok", began, changes=changes)

    def _finish(
        self,
        title: str,
        status: str,
        began: float,
        *,
        changes: Sequence[Change] = (),
        error: dict[str, str] | None = None,
    ) -> None:
        self.recap.add(status)
        seconds = time.monotonic() - began
        told = tuple(change.to_json() for change in changes)
        self.sink(TaskFinished(self.host.name, PLAY, title, status, seconds, told, error))


def reset(
    spec: ClusterSpec, sink: Sink, *, hosts: Sequence[HostSpec] | None = None, check: bool = False
) -> bool:
    """Remove all that Nidome made on the hosts of a cluster; return whether every host is clean.

    Takes the run lock of every host. Killed at any point, the next one goes on where it stopped. ``hosts``
    (None: all) are those that are meant; with ``check`` it is told what would be removed, and nothing is.
    """
    began = time.monotonic()
    with Session(spec.hosts if hosts is None else hosts, sink) as session:
        if not check:
            session.lock()
        connected = time.monotonic()
        firsts = first_hosts(spec)
        for play in RESET:
            names = tuple(h.name for h in session.hosts if play.concerns(h, firsts))
            sink(PlayStarted(play.name, names))
        runs = {h.name: _HostReset(h, session.agents[h.name], sink, check) for h in session.hosts}
        session.each_host(lambda host: runs[host.name].run())
    ended = time.monotonic()
    ok = all(run.clean for run in runs.values())
    recap = {name: run.recap.to_json() for name, run in runs.items()}
    sink(RunFinished(recap, ended - began, {"connect": connected - began, "remove": ended - connected}, ok))
    return ok
