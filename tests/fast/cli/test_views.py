"""What a person sees of a run, whatever the view."""

from __future__ import annotations

import io
import json
import time

import pytest

from nidome.cli.views import VIEWS, WaitView
from nidome.events import (
    Diagnostic,
    Event,
    RunFinished,
    Staged,
    Staging,
    TaskFinished,
    TaskStarted,
    Waited,
    Waiting,
)

_ERROR = {
    "family": "resource",
    "code": "not-held",
    "message": "it does not hold",
    "where": "File:/x",
    "hint": "look",
}
_RUN: tuple[Event, ...] = (
    Diagnostic("warning", "variable-unknown", "nobody reads it", "a.yml:3"),
    Staging("node1", 0, 2048),
    Staged("node1", 1, 2048),
    TaskStarted("node1", "a play", "role : Write"),
    TaskFinished("node1", "a play", "role : Write", "changed", 0.5),
    TaskFinished("node1", "a play", "role : Quiet", "ok", 0.1),
    TaskStarted("node1", "a play", "role : Fail"),
    TaskFinished("node1", "a play", "role : Fail", "failed", 0.5, error=_ERROR),
    RunFinished({"node1": {"ok": 2, "changed": 1, "failed": 1}}, 1.5, {"apply": 1.0}, ok=False),
)


@pytest.mark.parametrize("name", ["plain", "rich"])
def test_people_see_what_changed_and_what_failed(name: str) -> None:
    """Both views for people show changes, warnings, errors with place and next step, and the recap."""
    out = io.StringIO()
    show = VIEWS[name](out)
    for event in _RUN:
        show(event)
    said = out.getvalue()
    for part in (
        "variable-unknown",
        "a.yml:3",
        "sent 1 artifacts, 2.0 KiB",
        "role : Write",
        "not-held",
        "File:/x",
        "look",
    ):
        assert part in said
    assert "changed=1" in said
    assert "Quiet" not in said


def test_json_lines() -> None:
    """The JSON view is one object a line, each with its type, and nothing else."""
    out = io.StringIO()
    show = VIEWS["json"](out)
    for event in _RUN:
        show(event)
    kinds = [json.loads(line)["type"] for line in out.getvalue().splitlines()]
    assert kinds[0] == "diagnostic"
    assert kinds[-1] == "run_finished"
    assert len(kinds) == len(_RUN)


@pytest.mark.parametrize(
    ("begun", "ended"),
    [
        (
            TaskStarted("node1", "a play", "role : Wait for something"),
            TaskFinished("node1", "a play", "role : Wait for something", "ok", 4.0, waited=True),
        ),
        (Waiting("node1", "Wait for something"), Waited("node1")),
    ],
    ids=["task", "before any task"],
)
def test_what_takes_long_is_told_while_it_does(begun: Event, ended: Event) -> None:
    """What takes more than three seconds on a host is told before it ends, with how long it has taken."""
    out = io.StringIO()
    show = VIEWS["plain"](out)
    show(begun)
    deadline = time.monotonic() + 15
    while "Wait for something" not in out.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    show(ended)
    assert "done after" in out.getvalue()


def test_a_plan_tells_only_what_it_waits_for() -> None:
    """The view of a plan under way shows warnings and no result: the plan itself is what is printed."""
    out = io.StringIO()
    show = WaitView(out)
    for event in _RUN:
        show(event)
    assert out.getvalue() == "warning[variable-unknown]: a.yml:3: nobody reads it\n"
