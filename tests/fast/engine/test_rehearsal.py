"""Dry runs, and runs that begin in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.resources.file import File
from nidome.engine.diff import Change, Difference
from nidome.engine.plan import HostPlan, Step, announced
from nidome.engine.rehearsal import Rehearsal
from nidome.engine.run import begun_at
from nidome.engine.selection import Selection
from nidome.errors import UsageError
from nidome.roles.playbook import CLUSTER, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.events import Event
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import HostContext

FILE = File("/etc/x", "wanted")
ERROR = {"family": "resource", "code": "x-y", "message": "m", "where": "w", "hint": "h"}
STEPS = {
    "ok": Difference(),
    "changed": Difference(Change(FILE.id, "update")),
    "skipped": Difference(unknown="the API is down"),
    "failed": Difference(error=ERROR),
}


def _step(title: str, difference: Difference, **more: Any) -> Step:
    return Step("play", title, (FILE,), (difference,), **more)


@pytest.fixture
def context(declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]) -> HostContext:
    """Return one host that is everything."""
    return context_of(declared())


def test_a_dry_run_tells_the_plan(context: HostContext) -> None:
    """A dry run says changed where something would certainly change, skipped where nothing can be said."""
    events: list[Event] = []
    steps = tuple(_step(name, difference) for name, difference in STEPS.items())
    after = _step("never", STEPS["changed"])
    told = Rehearsal(HostPlan(context.host, (*steps, after)), events.append, {"facts": 2.0})
    told.play("another play")
    assert not events
    told.play("play")
    said = [event.to_json() for event in events]
    assert [(e["task"], e["status"]) for e in said] == [(name, name) for name in STEPS]
    assert said[2]["notes"] == (f"{FILE.id}: the API is down",)
    assert said[3]["error"] == ERROR
    assert told.failed
    assert told.recap.to_json() == {"ok": 2, "changed": 1, "unreachable": 0, "failed": 1, "skipped": 1}


def test_tasks_that_tell_of_phases_have_their_time(context: HostContext) -> None:
    """A task that tells of what every run does first takes as long as that took."""
    events: list[Event] = []
    step = Step("play", "nidome : Gather facts", (), (), phase="facts")
    Rehearsal(HostPlan(context.host, (step,)), events.append, {"facts": 2.0}).play("play")
    assert events[0].to_json()["seconds"] == 2.0


def test_tasks_are_announced_in_an_order_that_is_every_hosts(
    declared: Callable[..., ClusterSpec],
) -> None:
    """Tasks that only some hosts have stand between those that all have, as on these hosts."""
    host = declared().hosts[0]
    plans = [
        HostPlan(host, tuple(_step(title, Difference()) for title in titles))
        for titles in ("ac", "abcd", "ce")
    ]
    assert [task.task for task in announced("play", plans)] == ["a", "b", "c", "e", "d"]


@pytest.mark.parametrize(
    "wanted",
    [
        "kubernetes-apps/ansible : Wait for DNS to answer through its ClusterIP",
        "Wait for DNS to answer through its ClusterIP",
        "Wait for DNS*",
    ],
)
def test_a_run_begins_where_it_is_told_to(context: HostContext, wanted: str) -> None:
    """--start-at-task leaves out what comes before, by title, name or pattern; handlers stay."""
    plays = {"node1": evaluate(CLUSTER, context)}
    begun = begun_at(CLUSTER, plays, Selection(start_at=wanted))["node1"]
    titles = [task.title for play in begun for task in play.tasks]
    assert titles == [
        "kubernetes-apps/ansible : Wait for DNS to answer through its ClusterIP",
        "kubernetes/health : Wait for the components to be healthy",
    ]
    assert [h for p in begun for h in p.handlers] == [h for p in plays["node1"] for h in p.handlers]
    assert not Selection(start_at=wanted).everything


@pytest.mark.parametrize(
    ("wanted", "near"), [("Start contianerd", "Start containerd"), ("kublet", "kubelet")]
)
def test_a_misspelt_task_is_found(context: HostContext, wanted: str, near: str) -> None:
    """A task to begin with that nobody has is an error that names those that are near."""
    with pytest.raises(UsageError) as caught:
        begun_at(CLUSTER, {"node1": evaluate(CLUSTER, context)}, Selection(start_at=wanted))
    assert caught.value.code == "task-unknown"
    assert near in caught.value.hint
