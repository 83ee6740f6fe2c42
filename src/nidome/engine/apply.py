"""Carry out a host's plan, step by step, and look again at what each step was to bring about."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nidome.agent.resources.base import encode
from nidome.engine.diff import Change, Difference, compare
from nidome.errors import NidomeError, ResourceError
from nidome.events import TaskFinished, TaskStarted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nidome.agent.resources.base import Resource
    from nidome.engine.plan import HostPlan, Step
    from nidome.engine.transport import AgentConnection
    from nidome.events import Sink

__all__ = ["HostRun", "Recap"]

# Directories are made before what lies in them; a unit is started after the files of its own task.
_ORDER = {"Directory": 0, "Unit": 2, "Condition": 3}
_MIDDLE = 1


@dataclass
class Recap:
    """The counters of one host, as in Ansible's PLAY RECAP: ``ok`` counts changed results too."""

    ok: int = 0
    changed: int = 0
    unreachable: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, status: str) -> None:
        """Count one result."""
        if status in ("ok", "changed"):
            self.ok += 1
        if status != "ok":
            setattr(self, status, getattr(self, status) + 1)

    def to_json(self) -> dict[str, int]:
        """Return the counters as plain data."""
        return {
            "ok": self.ok,
            "changed": self.changed,
            "unreachable": self.unreachable,
            "failed": self.failed,
            "skipped": self.skipped,
        }


@dataclass
class HostRun:
    """The run of one host's plan over one connection. Stops at the first task that fails."""

    plan: HostPlan
    agent: AgentConnection
    sink: Sink
    recap: Recap = field(default_factory=Recap)
    failed: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)
    """How long the parts of the run before its first play took: the time of the tasks that tell of them."""

    def play(self, name: str) -> None:
        """Run the steps of one play; a host that failed does nothing more."""
        for step in self.plan.steps:
            if step.play == name and not self.failed:
                self._step(step)

    def _step(self, step: Step) -> None:
        host, began = self.plan.host.name, time.monotonic()
        if step.settled and not any(self._again(r) for r in step.resources):
            self._finish(step, "ok", began)
            return
        self.sink(TaskStarted(host, step.play, step.title, handler=step.handler is not None))
        changes: list[Change] = []
        try:
            self._do(step, changes)
        except NidomeError as error:
            self.failed = True
            status = "unreachable" if error.family == "transport" else "failed"
            self._finish(step, status, began, changes=changes, error=error.to_json())
            return
        waited = any(d.waiting for d in step.differences)
        self._finish(step, "changed" if changes else "ok", began, changes=changes, waited=waited)

    def _finish(
        self,
        step: Step,
        status: str,
        began: float,
        *,
        changes: Sequence[Change] = (),
        error: dict[str, str] | None = None,
        waited: bool = False,
    ) -> None:
        self.recap.add(status)
        seconds = self.phases.get(step.phase, 0.0) + time.monotonic() - began
        self.sink(
            TaskFinished(
                self.plan.host.name,
                step.play,
                step.title,
                status,
                seconds,
                tuple(c.to_json() for c in changes),
                error,
                handler=step.handler is not None,
                waited=waited,
            )
        )

    def _again(self, resource: Resource) -> bool:
        """Tell whether a condition must be asked once more: it held before this run changed something."""
        return resource.kind == "Condition" and self.recap.changed > 0

    def _do(self, step: Step, changes: list[Change]) -> None:
        """Bring about what the step lacks; add to ``changes`` what was really changed, as it happens."""
        if step.removes:
            self._remove(step, changes)
            return
        found = zip(step.resources, step.differences, strict=True)
        pending = [(r, d) for r, d in found if not d.settled and not self._again(r)]
        pending = self._look_again(pending)
        pending += [(r, Difference()) for r in step.resources if self._again(r)]
        for _, difference in pending:
            if difference.error:
                raise _error(difference.error)
        for rank in sorted({_rank(r) for r, _ in pending}):
            self._bring_about([(r, d) for r, d in pending if _rank(r) == rank], changes)
        if step.handler is not None and step.handler.ready is not None and pending:
            self._bring_about([(step.handler.ready, Difference())], changes)

    def _look_again(self, pending: list[tuple[Resource, Difference]]) -> list[tuple[Resource, Difference]]:
        """Observe anew what could not be seen, and what an earlier step may have settled."""
        stale = [r for r, d in pending if d.unknown or d.error or r.kind == "Restart"]
        if not stale:
            return pending
        states = self.agent.call("observe", resources=[encode(r) for r in stale])
        anew = {r.id: compare(r, state) for r, state in zip(stale, states, strict=True)}
        for resource in stale:
            if anew[resource.id].unknown:
                raise ResourceError(
                    "unobservable", anew[resource.id].unknown, where=resource.id, hint="see `nidome status`"
                )
        merged = []
        for resource, difference in pending:
            now = anew.get(resource.id, difference)
            if now.change and difference.change:
                now = difference
            elif now.change:
                reason = difference.unknown or (difference.error or {}).get("message", "")
                now = Difference(replace(now.change, because=(reason,)))
            merged.append((resource, now))
        return [(r, d) for r, d in merged if not d.settled]

    def _bring_about(self, pending: Sequence[tuple[Resource, Difference]], changes: list[Change]) -> None:
        """Apply resources that are independent of each other; raise the first error after all were tried."""
        results = self.agent.call("apply", resources=[encode(r) for r, _ in pending])
        errors = []
        for (resource, difference), result in zip(pending, results, strict=True):
            left = Difference() if "error" in result else compare(resource, result["observed"])
            if "error" in result:
                errors.append(_error({**result["error"], "where": result["error"]["where"] or resource.id}))
            elif not left.settled:
                errors.append(_not_held(resource, left))
            elif difference.change:
                changes.append(difference.change)
        if errors:
            raise errors[0]

    def _remove(self, step: Step, changes: list[Change]) -> None:
        results = self.agent.call("remove", ids=list(step.removes))
        changes += [c for c, error in zip(step.changes, results, strict=True) if not error]
        for identity, error in zip(step.removes, results, strict=True):
            if error:
                raise _error({**error, "where": error["where"] or identity})


def _rank(resource: Resource) -> int:
    return _ORDER.get(resource.kind, _MIDDLE)


def _error(data: dict[str, str]) -> ResourceError:
    return ResourceError(data["code"], data["message"], where=data["where"], hint=data["hint"])


def _not_held(resource: Resource, left: Difference) -> ResourceError:
    if left.error:
        return _error(left.error)
    deltas = left.change.deltas if left.change else ()
    told = "; ".join(
        f"{d.attribute} is {d.before!r}, not {d.after!r}"
        for d in deltas
        if d.attribute not in ("content", "text")
    )
    return ResourceError(
        "not-held",
        f"what was applied does not hold: {told or left.waiting or left.unknown or 'content differs'}",
        where=resource.id,
        hint="something else on the host may be changing it back",
    )
