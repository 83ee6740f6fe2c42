"""Runs as ansible-playbook prints them."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fast.cli.streams import BEGAN, runs

from nidome.cli.ansible_output import AnsibleView
from nidome.events import (
    Announced,
    Diagnostic,
    Event,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    from_json,
)
from nidome.prove.ansiblelog import from_events, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


EXPECTED = Path(__file__).parent / "expected" / "demo.txt"
"""As the callbacks of ansible-core 2.18 print it, profile_tasks' lines included."""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _printed(events: Sequence[Event], *, out: io.StringIO | None = None, **options: Any) -> str:
    stream = out or io.StringIO()
    view = AnsibleView(stream, errors=io.StringIO(), **options)
    for event in events:
        view(event)
    return stream.getvalue()


@given(runs(), st.booleans(), st.booleans(), st.booleans())
def test_what_is_printed_says_what_happened(
    events: list[Event],
    verbose: bool,  # noqa: FBT001 - hypothesis gives arguments by position
    diff: bool,  # noqa: FBT001 - as above
    colour: bool,  # noqa: FBT001 - as above
) -> None:
    """Read again, the output of any run has the plays, tasks, results, recap and times of its events."""
    out = _Terminal() if colour else io.StringIO()
    assert parse(_printed(events, out=out, verbose=verbose, diff=diff)) == from_events(events)


@given(runs())
@settings(max_examples=30)
def test_events_are_read_again(events: list[Event]) -> None:
    """An event that was written as JSON and read again is the same."""
    stored = [json.loads(json.dumps(event.to_json())) for event in events]
    assert [from_json(data) for data in stored] == events
    assert from_json({"type": "of_a_later_release"}) is None


_CHANGE = {
    "resource": "File:/etc/x.toml",
    "action": "update",
    "deltas": [
        {"attribute": "content", "before": "a\nb\n", "after": "a\nc\n"},
        {"attribute": "mode", "before": "0600", "after": "0644"},
    ],
    "because": ["x = 1 (all.yml:1, group_vars/all)"],
}
_STARTED = RunStarted("r", "0.1", ("nidome", "playbook"), "/lab", ("node1",), "d", at=BEGAN)


def _play(*tasks: str, hosts: tuple[str, ...] = ("node1",), handlers: tuple[str, ...] = ()) -> PlayStarted:
    announced = (*(Announced(t, False, hosts) for t in tasks), *(Announced(t, True, hosts) for t in handlers))  # noqa: FBT003 - the field's name says it
    return PlayStarted("Demo play", hosts, announced, at=BEGAN)


def _end(**counts: int) -> RunFinished:
    return RunFinished({"node1": counts}, 7.613, {}, ok=True, at=BEGAN + 7.613)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have local times be UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_lines_are_those_of_the_format() -> None:
    """Headings, time lines, results and recaps have the form that scripts for Ansible's output expect."""
    events = (
        _STARTED,
        _play("role : Name", handlers=("role : Restart demo",)),
        TaskFinished("node1", "Demo play", "role : Name", "changed", 1.808, (_CHANGE,), at=BEGAN + 1.829),
        TaskFinished("node1", "Demo play", "role : Restart demo", "ok", 0.25, handler=True, at=BEGAN + 7),
        PlayStarted("Nobody's", (), at=BEGAN + 7.5),
        _end(ok=9, changed=3, skipped=1, ignored=2),
    )
    said = _printed(events)
    assert said == EXPECTED.read_text(encoding="utf-8")
    clocks = [line for line in said.splitlines() if " (0:" in line]
    assert {len(line) for line in clocks} == {80}
    assert {len(line) for line in said.splitlines() if line.startswith("PLAY") or "----" in line} == {79, 80}


def test_the_twenty_slowest_are_listed() -> None:
    """TASKS RECAP has the twenty slowest tasks, the slowest first; a long name keeps its time."""
    titles = [f"role : {'long ' * 20}{n}" for n in range(25)]
    finished = [TaskFinished("node1", "P", t, "ok", float(n), at=BEGAN + n) for n, t in enumerate(titles)]
    said = _printed([_STARTED, _play(*titles), *finished, _end(ok=25)])
    slow = said.partition("=== \n")[2].splitlines()
    assert len(slow) == 20
    assert slow[0] == f"{titles[24]} -- 24.00s"
    assert slow[-1] == f"{titles[5]} --- 5.00s"


def test_diffs_are_shown_before_the_result() -> None:
    """--diff shows what changes in a file and its attributes before the result; of a secret, only that."""
    secret = {"attribute": "content", "before": "***", "after": "***"}
    hidden = {**_CHANGE, "resource": "File:/etc/secret", "deltas": [secret]}
    made = {
        "resource": "File:/etc/new",
        "action": "create",
        "deltas": [{"attribute": "content", "before": None, "after": "one\ntwo"}],
        "because": [],
    }
    finished = TaskFinished("node1", "P", "r : T", "changed", 0.1, (_CHANGE, hidden, made), at=BEGAN)
    said = _printed([_STARTED, _play("r : T"), finished, _end(ok=1)], diff=True)
    assert (
        said.partition("******* \n")[2].partition("PLAY RECAP")[0]
        == """\
--- before: /etc/x.toml
+++ after: /etc/x.toml
@@ -1,2 +1,2 @@
 a
-b
+c
--- before: /etc/x.toml (attributes)
+++ after: /etc/x.toml (attributes)
@@ -1 +1 @@
-mode: 0600
+mode: 0644

[[ The difference of /etc/secret is hidden: it may hold secrets ]]

--- before
+++ after: /etc/new
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file

changed: [node1]

"""
    )
    assert "***" not in said.replace("*****", "").partition("PLAY RECAP")[0].partition("--- before")[2]


def test_a_failure_says_what_to_do() -> None:
    """A failed host is `fatal` with message and next step as JSON on one line, and the run ends for all."""
    error = {
        "code": "not-held",
        "message": "it does\nnot hold",
        "where": "Unit:x",
        "hint": "look",
        "family": "",
    }
    finished = TaskFinished("node1", "P", "r : T", "failed", 0.1, (), error, at=BEGAN)
    said = _printed([_STARTED, _play("r : T"), finished, _end(failed=1)])
    line = next(line for line in said.splitlines() if line.startswith("fatal"))
    head, _, told = line.partition(" => ")
    assert head == "fatal: [node1]: FAILED!"
    assert json.loads(told) == {
        "changed": False,
        "msg": "it does\nnot hold",
        "code": "not-held",
        "resource": "Unit:x",
        "next": "look",
    }
    assert "\nNO MORE HOSTS LEFT ****" in said


def test_hosts_at_their_own_pace_are_told_task_by_task() -> None:
    """What a host is ahead of the others is told when all have come to that task."""
    hosts = ("node1", "node2")
    done = [
        TaskFinished(host, "P", task, "ok", 0.1, at=BEGAN)
        for host, task in (("node1", "r : A"), ("node1", "r : B"), ("node2", "r : A"), ("node2", "r : B"))
    ]
    early = _printed([_STARTED, _play("r : A", "r : B", hosts=hosts), *done[:2]])
    assert "r : B" not in early
    assert "ok: [node1]" in early
    whole = _printed([_STARTED, _play("r : A", "r : B", hosts=hosts), *done])
    assert re.findall(r"TASK \[.*?\]|ok: .*", whole) == [
        "TASK [r : A]", "ok: [node1]", "ok: [node2]", "TASK [r : B]", "ok: [node1]", "ok: [node2]",
    ]  # fmt: skip


def test_a_task_is_announced_when_it_begins() -> None:
    """The heading of a task that takes long stands there while it does."""
    said = _printed([_STARTED, _play("r : Slow"), TaskStarted("node1", "P", "r : Slow", at=BEGAN + 1)])
    assert "TASK [r : Slow] ***" in said


def test_warnings_go_to_the_errors() -> None:
    """What the declaration's reader has to say is a `[WARNING]` on standard error."""
    errors = io.StringIO()
    out = io.StringIO()
    AnsibleView(out, errors=errors)(Diagnostic("warning", "c", "nobody reads x", "all.yml:1", "remove it"))
    assert errors.getvalue() == "[WARNING]: all.yml:1: nobody reads x (remove it)\n"
    assert out.getvalue() == ""


# The real one, on the same plays.

_TASKS = (
    ("Same", "ok"),
    ("Write", "changed"),
    ("Unseen", "skipped"),
    ("書き込み", "changed"),
    ("x" * 90, "ok"),
)
_HOW = {"ok": "changed_when: false", "changed": "changed_when: true", "skipped": "when: false"}


def _ansible(directory: Path, *, colour: bool) -> str:
    tasks = [f"    - {{name: 'r : {n}', set_fact: {{a: 1}}, {_HOW[s]}}}" for n, s in _TASKS]
    tasks[1] = tasks[1][:-1] + ", notify: 'r : Restart x'}"
    lines = ["- name: Demo play", "  hosts: all", "  gather_facts: false", "  tasks:", *tasks, "  handlers:"]
    lines += ["    - {name: 'r : Restart x', set_fact: {b: 1}, changed_when: true}"]
    lines += ["- {name: Empty, hosts: nobody, gather_facts: false}"]
    (directory / "demo.yml").write_text("\n".join(lines), encoding="utf-8")
    (directory / "inv.ini").write_text("node1 ansible_connection=local\n[nobody]\n", encoding="utf-8")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    environment = {**os.environ, "ANSIBLE_FORCE_COLOR": str(int(colour)), "ANSIBLE_HOME": str(directory)}
    environment |= {
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": str(int(not colour)),
    }
    done = subprocess.run(
        [program, "-i", "inv.ini", "demo.yml"], cwd=directory, env=environment, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("colour", [False, True])
def test_output_is_what_ansible_prints(tmp_path: Path, *, colour: bool) -> None:
    """Apart from the lines of profile_tasks, a run's output is byte for byte what ansible-playbook prints."""
    titles = tuple(f"r : {name}" for name, _ in _TASKS)
    finished = [TaskFinished("node1", "P", f"r : {n}", s, 0.1, at=BEGAN) for n, s in _TASKS]
    events = [
        _STARTED,
        _play(*titles, handlers=("r : Restart x",)),
        *finished,
        TaskFinished("node1", "P", "r : Restart x", "changed", 0.1, handler=True, at=BEGAN),
        PlayStarted("Empty", (), at=BEGAN),
        _end(ok=5, changed=3, skipped=1),
    ]
    ours = _printed(events, out=_Terminal() if colour else io.StringIO()).partition("\nTASKS RECAP")[0]
    ours = "".join(line for line in ours.splitlines(keepends=True) if " (0:00:" not in line)
    assert ours.splitlines() == _ansible(tmp_path, colour=colour).rstrip("\n").splitlines()
