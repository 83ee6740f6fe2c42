"""Logs of ansible-playbook itself, and what becomes of logs on their way through terminals and editors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.errors import StateError
from nidome.prove.ansiblelog import PlaybookLog, Result, parse

LOGS = Path(__file__).parent / "logs"
# With the lines that the profile_tasks callback adds, as ansible-core 2.18 prints them.
PROFILED = (LOGS / "profiled.log").read_text(encoding="utf-8")


def _log(name: str) -> PlaybookLog:
    return parse((LOGS / f"ansible-{name}.log").read_text(encoding="utf-8"))


def _results(log: PlaybookLog, task: str) -> list[Result]:
    return [r for t in log.tasks() if t.name == task for r in t.results]


def test_a_real_log() -> None:
    """A log of ansible-playbook's gives its plays, tasks, handlers, loops, retries and ignored failures."""
    log = _log("full")
    assert [play.name for play in log.plays] == ["Demo play", "Empty", "With always", "Far"]
    assert [t.name for t in log.tasks()][:3] == ["demo : Echo", "demo : Change", "demo : Loop"]
    assert [(r.host, r.item, r.status) for r in _results(log, "demo : Loop")] == [
        (host, item, "changed") for host in ("node1", "node2") for item in ("a", "b")
    ]
    assert _results(log, "demo : Delegated")[0] == Result("node1", "changed", delegated="localhost")
    assert _results(log, "demo : Ignored") == [
        Result(host, "failed", ignored=True) for host in ("node1", "node2")
    ]
    assert _results(log, "demo : Retry")[1] == Result("node2", "failed", ignored=True, retries=2)
    assert _results(log, "Reach") == [Result("node3", "unreachable")]
    restart = next(t for t in log.tasks() if t.handler)
    assert restart.name == "demo : Restart demo"
    assert restart.changed_on("node1")
    assert log.recap["node1"] == {
        "ok": 7, "changed": 6, "unreachable": 0, "failed": 0, "skipped": 3, "rescued": 0, "ignored": 1,
    }  # fmt: skip
    assert (log.elapsed, log.slowest) == (None, ())


def test_changed_tasks_are_named_once() -> None:
    """A looped task that changed something is one changed task, as in the recap."""
    log = _log("full")
    assert log.changed("node1") == (
        "demo : Change", "demo : Loop", "demo : Delegated", "demo : Restart demo", "Plain task",
    )  # fmt: skip


def test_a_failure_that_counts() -> None:
    """A failure that was not ignored is one, and what a fatal line that was ignored says does not count."""
    failed = _log("fail")
    assert _results(failed, "demo : Failing") == [Result("node1", "skipped"), Result("node2", "failed")]
    assert failed.recap["node2"]["failed"] == 1


def test_colours_say_nothing() -> None:
    """A log with a terminal's colours says what one without them says."""
    log = _log("col")
    assert _results(log, "demo : Change") == [Result("node1", "changed"), Result("node2", "ok")]
    assert log.recap["node1"]["changed"] == 6


def test_details_of_verbose_runs_are_passed_over() -> None:
    """With -v, results with their details as JSON and diffs are read as the results that they are."""
    log = _log("v")
    assert _results(log, "demo : Change") == [Result("node1", "changed")]
    looped = [(r.item, r.status) for r in _results(log, "demo : Loop")]
    assert looped == [(item, "skipped") for item in ("a", "b", "")]


def test_times_of_profile_tasks() -> None:
    """The last time in the heading of TASKS RECAP is the run's time, and the list gives the slowest tasks."""
    log = parse(PROFILED)
    assert log.elapsed == 3727.613
    assert log.slowest[0] == ("demo : Retry", 2.33)
    assert log.slowest[1] == (
        "demo : A name that is longer than all the columns which the callback has for it",
        0.31,
    )
    assert _results(log, "demo : Retry") == [Result("node2", "changed", retries=1)]
    assert _results(log, "demo : Include") == [Result("node1", "ok"), Result("node2", "ok")]


@pytest.mark.parametrize(
    "damage", [lambda t: t.replace("\n", "\r\n"), lambda t: f"$ ansible-playbook\n{t}$ exit\n"]
)
def test_logs_that_were_kept_by_other_means(damage: object) -> None:
    """Line ends of terminals, and what stands around a log, change nothing."""
    assert callable(damage)
    assert parse(damage(PROFILED)) == parse(PROFILED)


def test_the_last_of_several_runs_counts() -> None:
    """Where a log was appended to, the last run in it is read."""
    both = (LOGS / "ansible-fail.log").read_text(encoding="utf-8") + PROFILED
    assert parse(both) == parse(PROFILED)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "log-empty"),
        ("hello\n", "log-empty"),
        (PROFILED.partition("PLAY RECAP")[0], "log-truncated"),
        (PROFILED.partition("TASKS RECAP")[0], "log-truncated"),
        (PROFILED.partition("=====")[0].rpartition("Monday")[0], "log-truncated"),
        (PROFILED.partition("****\n")[2], "log-truncated"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(text: str, code: str) -> None:
    """A log that is no playbook's, or ends too early, is an error that names it, and is never guessed at."""
    with pytest.raises(StateError) as caught:
        parse(text, where="cluster-1.log")
    assert (caught.value.code, caught.value.where) == (code, "cluster-1.log")


_PIECES = st.sampled_from(
    [*PROFILED.splitlines(), "node1 : ok=1 changed=x failed", "changed: [", "fatal: [a]: FAILED!"]
)


@given(st.lists(_PIECES | st.text(max_size=60), max_size=40).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever a file holds, it is read as a log or refused with an error, never a traceback."""
    try:
        parse(text)
    except StateError as error:
        assert error.code in ("log-empty", "log-truncated")  # noqa: PT017 - either is right
