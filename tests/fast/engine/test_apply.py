"""Plans carried out by the real agent, in this process, with its state in a directory of the test."""

from __future__ import annotations

import grp
import json
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from nidome.agent.main import Agent
from nidome.agent.resources.base import encode
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.engine.apply import HostRun, Recap
from nidome.engine.plan import HostPlan, plan_host
from nidome.engine.selection import Selection
from nidome.errors import TransportError
from nidome.events import TaskFinished, TaskStarted
from nidome.roles.base import HostContext, Play, Task
from nidome.roles.playbook import HostPlay

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.engine.transport import AgentConnection
    from nidome.events import Event
    from nidome.model.spec import ClusterSpec

ME = pwd.getpwuid(os.geteuid()).pw_name
MINE = grp.getgrgid(os.getegid()).gr_name
PLAY = Play("play", ("all",), ())


class Direct:
    """The agent without a pipe: requests and answers make their way through JSON as on the wire."""

    def __init__(self, directory: Path) -> None:
        self.agent = Agent("", str(directory / "state"), str(directory / "lock"))
        self.lost_at = ""

    def call(self, operation: str, **arguments: Any) -> Any:
        """Ask for an operation and return its result."""
        if operation == self.lost_at:
            raise TransportError("host-lost", "the connection ended", where="node1")
        answer = getattr(self.agent, operation)(**json.loads(json.dumps(arguments)))
        return json.loads(json.dumps(answer))


class Bench:
    """A host of the test: plans for it, and what a run of them tells."""

    def __init__(self, directory: Path, context: HostContext) -> None:
        self.directory = directory
        self.connection = Direct(directory)
        self.context = context
        self.events: list[Event] = []

    def file(self, name: str, content: str = "x", **more: Any) -> File:
        """Return a file that must be so."""
        return File(str(self.directory / name), content, owner=ME, group=MINE, **more)

    def plan(self, *tasks: Task, removable: tuple[str, ...] = ()) -> HostPlan:
        """Observe and plan."""
        resources = [r for t in tasks for r in t.resources]
        states = self.connection.call("observe", resources=[encode(r) for r in resources])
        observed = {r.id: s for r, s in zip(resources, states, strict=True)}
        return plan_host(self.context, [HostPlay(PLAY, tasks, ())], observed, Selection(), removable)

    def run(self, plan: HostPlan) -> HostRun:
        """Carry a plan out."""
        self.events = []
        made = HostRun(plan, cast("AgentConnection", self.connection), self.events.append)
        made.play(PLAY.name)
        return made

    @property
    def finished(self) -> list[TaskFinished]:
        """The results of tasks, in order."""
        return [e for e in self.events if isinstance(e, TaskFinished)]

    @property
    def changed(self) -> list[str]:
        """The resources that the events say were changed."""
        return [Path(c["resource"]).name for e in self.finished for c in e.changes]


@pytest.fixture
def bench(
    tmp_path: Path, declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> Bench:
    """Return a host of the test."""
    (tmp_path / "state").mkdir()
    return Bench(tmp_path, context_of(declared()))


def test_the_plan_is_the_run(bench: Bench) -> None:
    """What is reported as changed is exactly what was planned, and the second run changes nothing."""
    tasks = (
        Task("a", "one", (Directory(str(bench.directory / "d"), owner=ME, group=MINE), bench.file("d/f"))),
        Task("b", "two", (bench.file("g"),)),
    )
    plan = bench.plan(*tasks)
    planned = [c.resource for s in plan.steps for c in s.changes]
    done = bench.run(plan)
    assert [c["resource"] for e in bench.finished for c in e.changes] == planned
    assert done.recap == Recap(ok=2, changed=2)
    second = bench.run(bench.plan(*tasks))
    assert (second.recap, bench.changed) == (Recap(ok=2), [])
    assert not [e for e in bench.events if isinstance(e, TaskStarted)]


def test_a_failed_task_tells_what_it_changed(bench: Bench) -> None:
    """A task that fails half-way reports the changes that it did make, and nothing after it is begun."""
    (bench.directory / "taken").mkdir()
    tasks = (
        Task("a", "half", (bench.file("f"), bench.file("no/parent"), bench.file("g"))),
        Task("b", "never", (bench.file("h"),)),
    )
    done = bench.run(bench.plan(*tasks))
    assert (done.failed, done.recap) == (True, Recap(failed=1))
    assert bench.changed == ["f", "g"]
    assert [e.status for e in bench.finished] == ["failed"]
    error = bench.finished[0].error
    assert error is not None
    assert (error["code"], error["where"].startswith("File:")) == ("host-refused", True)
    assert not (bench.directory / "h").exists()
    (bench.directory / "no").mkdir()
    bench.run(bench.plan(*tasks))
    assert bench.changed == ["parent", "h"]


def test_a_lost_host_is_unreachable(bench: Bench) -> None:
    """A host whose connection ends is told as unreachable, and does nothing more."""
    plan = bench.plan(Task("a", "one", (bench.file("f"),)), Task("b", "two", (bench.file("g"),)))
    bench.connection.lost_at = "apply"
    done = bench.run(plan)
    assert (done.failed, done.recap) == (True, Recap(unreachable=1))
    assert [e.status for e in bench.finished] == ["unreachable"]


def test_what_does_not_hold_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that something else undoes at once is an error, and is not reported as changed."""
    plan = bench.plan(Task("a", "one", (bench.file("f"),)))
    monkeypatch.setattr(
        "nidome.agent.resources.file.apply", lambda resource, _: Path(resource.path).write_text("-")
    )
    done = bench.run(plan)
    assert done.failed
    assert bench.changed == []
    error = bench.finished[0].error
    assert error is not None
    assert error["code"] == "not-held"


def test_what_mends_itself_needs_no_change(bench: Bench) -> None:
    """What an earlier task brought about is not an error any more when its turn comes."""
    (bench.directory / "d").mkdir()
    (bench.directory / "d" / "f").mkdir()
    wanted = bench.file("d/f")
    plan = bench.plan(Task("a", "one", (wanted,)))
    assert plan.steps[0].errors
    (bench.directory / "d" / "f").rmdir()
    done = bench.run(plan)
    assert (done.recap, bench.changed) == (Recap(ok=1, changed=1), ["f"])
    assert bench.finished[0].changes[0]["because"]


def test_an_error_that_stays_fails_its_task(bench: Bench) -> None:
    """What was found to be wrong and still is fails its task with the host's own error."""
    (bench.directory / "f").mkdir()
    done = bench.run(bench.plan(Task("a", "one", (bench.file("f"),))))
    assert done.failed
    error = bench.finished[0].error
    assert error is not None
    assert error["code"] == "host-refused"


def test_what_stays_unobservable_fails_its_task(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be observed when its turn comes is an error with its reason, never a guess."""
    (bench.directory / "store").write_text("")
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
    wanted = KubeObject(
        manifest, ("https://127.0.0.1:1", "/ca", "/c", "/k"), "u.service", str(bench.directory / "store")
    )
    monkeypatch.setattr(bench.connection.agent.host, "comes_up", lambda _: False)
    monkeypatch.setattr(bench.connection.agent.host, "show_units", lambda _: None)
    plan = bench.plan(Task("a", "one", (wanted,)))
    assert plan.steps[0].unknown
    done = bench.run(plan)
    assert done.failed
    error = bench.finished[0].error
    assert error is not None
    assert error["code"] == "unobservable"
    assert "u.service is not running" in error["message"]


def test_removal_reports_what_is_gone(bench: Bench) -> None:
    """Removing what is undeclared reports each thing that is gone, and only those."""
    first = bench.plan(Task("a", "one", (bench.file("f"), bench.file("g"))))
    bench.run(first)
    ledger = tuple(e["id"] for e in bench.connection.call("ledger"))
    keep = Task("a", "one", (bench.file("f"),))
    done = bench.run(bench.plan(keep, removable=ledger))
    assert (done.recap, bench.changed) == (Recap(ok=2, changed=1), ["g"])
    assert bench.finished[-1].changes[0]["action"] == "delete"
    assert sorted(p.name for p in bench.directory.iterdir() if p.is_file()) == ["f"]


@pytest.mark.parametrize(
    ("statuses", "recap"),
    [
        (["ok", "ok"], Recap(ok=2)),
        (["ok", "changed"], Recap(ok=2, changed=1)),
        (["changed", "failed"], Recap(ok=1, changed=1, failed=1)),
        (["ok", "unreachable"], Recap(ok=1, unreachable=1)),
        (["skipped"], Recap(skipped=1)),
    ],
)
def test_the_recap_counts_as_ansible_does(statuses: list[str], recap: Recap) -> None:
    """The recap counts changed results as ok too, as Ansible's PLAY RECAP does."""
    counted = Recap()
    for status in statuses:
        counted.add(status)
    assert counted == recap
