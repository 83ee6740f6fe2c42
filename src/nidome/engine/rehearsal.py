"""A dry run: a host's plan told as if it were carried out. The host is asked for nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nidome.engine.apply import Recap
from nidome.events import TaskFinished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nidome.engine.plan import HostPlan, Step
    from nidome.events import Sink

__all__ = ["Rehearsal"]


@dataclass
class Rehearsal:
    """One host's plan, told play by play: changed where something would certainly change.

    A task of which nothing can be said beforehand is skipped, with the reason; one that would fail fails,
    and ends the host's part.
    """

    plan: HostPlan
    sink: Sink
    phases: Mapping[str, float]
    recap: Recap = field(default_factory=Recap)
    failed: bool = False

    def play(self, name: str) -> None:
        """Tell of the steps of one play."""
        for step in self.plan.steps:
            if step.play == name and not self.failed:
                self._tell(step)

    def _tell(self, step: Step) -> None:
        status = _status(step)
        self.failed = status == "failed"
        self.recap.add(status)
        self.sink(
            TaskFinished(
                self.plan.host.name,
                step.play,
                step.title,
                status,
                self.phases.get(step.phase, 0.0),
                tuple(change.to_json() for change in step.changes),
                step.errors[0] if self.failed else None,
                handler=step.handler is not None,
                notes=step.unknown,
            )
        )


def _status(step: Step) -> str:
    if step.errors:
        return "failed"
    if step.changes:
        return "changed"
    return "skipped" if step.unknown else "ok"
