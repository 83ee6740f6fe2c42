"""The records of the lab page, from logs."""

from __future__ import annotations

import json

import pytest

from nidome.errors import StateError
from nidome.prove.ansiblelog import PlaybookLog, PlayLog, Result, TaskLog
from nidome.prove.labreport import Live, NamedLog, lab_records

LIVE = Live("1b2c", "v1.36.4")
RESTART = "container-engine/containerd : Containerd | restart containerd"


def _log(
    name: str, *, elapsed: float | None = 7.613, failed: int = 0, tasks: tuple[TaskLog, ...] = ()
) -> NamedLog:
    changed = sum(task.changed_on("node1") for task in tasks)
    counts = {"ok": 60, "changed": changed, "unreachable": 0, "failed": failed}
    slowest = (("etcd : Slow", 2.5), ("etcd : Less", 1.0))
    return NamedLog(name, PlaybookLog((PlayLog("P", tasks),), {"node1": counts}, slowest, elapsed))


def _changed(name: str, *, handler: bool = False, host: str = "node1") -> TaskLog:
    return TaskLog(name, handler, (Result(host, "changed"),))


def _records(first: NamedLog, second: NamedLog, tagged: NamedLog) -> dict[str, str]:
    return lab_records(first, second, tagged, host="node1", live=LIVE)


def test_the_records_are_those_of_the_page() -> None:
    """The five files have exactly the page's fields, with what stands in the logs."""
    install = _log("1", elapsed=401.999, tasks=(_changed("etcd : Start etcd"), _changed("node : Start")))
    again = _log("2", elapsed=61.0, tasks=(_changed("etcd : Again"), _changed("x : Handler", handler=True)))
    tagged = _log("t", tasks=(_changed("c : Write"), _changed(RESTART, handler=True)))
    files = _records(install, again, tagged)
    assert files.pop("changed.txt") == "etcd : Again\nx : Handler\n"
    assert {name: json.loads(text) for name, text in files.items()} == {
        "plan.json": {"play_count": 15, "etcd_play": 8, "cni_play": 11, "apps_play": 14},
        "run1.json": {
            "ok": 60, "changed": 2, "failed": 0, "elapsed_sec": 401, "slowest_task": "etcd : Slow",
            "node_uid": "1b2c",
        },
        "run2.json": {"ok": 60, "changed": 2, "failed": 0, "elapsed_sec": 61},
        "report.json": {
            "kubespray": "v2.32.0", "server_version": "v1.36.4", "first_run_sec": 401, "second_run_sec": 61,
            "first_changed": 2, "second_changed": 2, "tags_run_changed": 2, "containerd_restarted": True,
        },
    }  # fmt: skip


def test_nothing_changed_is_an_empty_list() -> None:
    """Where the second run changed nothing, changed.txt is empty."""
    assert _records(_log("1"), _log("2"), _log("t"))["changed.txt"] == ""


@pytest.mark.parametrize(
    "tasks",
    [
        (),
        (TaskLog(RESTART, handler=True, results=(Result("node1", "ok"),)),),
        (_changed(RESTART),),
        (_changed(RESTART, handler=True, host="node2"),),
    ],
)
def test_containerd_was_restarted_only_by_its_handler(tasks: tuple[TaskLog, ...]) -> None:
    """containerd_restarted is true only where the handler of that name says changed for the node."""
    report = json.loads(_records(_log("1"), _log("2"), _log("t", tasks=tasks))["report.json"])
    assert report["containerd_restarted"] is False


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (_log("bad", failed=1), "report-run-failed"),
        (_log("bad", elapsed=None), "report-no-times"),
        (NamedLog("bad", PlaybookLog((), {"node2": {}}, (("x", 1.0),), 1.0)), "report-host-missing"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_cannot_be_reported_is_refused(bad: NamedLog, code: str, place: int) -> None:
    """A failed run, a log without times, or one of other hosts is named, and nothing is reported."""
    logs = [_log("1"), _log("2"), _log("t")]
    logs[place] = bad
    with pytest.raises(StateError) as caught:
        _records(*logs)
    assert (caught.value.code, caught.value.where) == (code, "bad")
