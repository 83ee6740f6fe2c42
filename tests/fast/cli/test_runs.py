from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from nidome.events import RunFinished, RunStarted, TaskFinished
from nidome.prove.records import Recorder, last_of, listing, runs_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHANGE = {
    "resource": "File:/etc/containerd/config.toml",
    "action": "update",
    "deltas": [{"attribute": "mode", "before": "0600", "after": "0644"}],
    "because": ["containerd_debug_level = debug (group_vars/all/containerd.yml:12)"],
}
_ERROR = {
    "code": "not-held",
    "message": "what was applied does not hold",
    "where": "Unit:x",
    "hint": "look",
    "family": "resource",
}
_RECAP = {"node1": {"ok": 3, "changed": 1, "unreachable": 0, "failed": 1, "skipped": 0}}


def _record(run: str, *, cluster: str = "/lab", finished: bool = True, at: float = 1_780_000_000.0) -> None:
    recorder = Recorder(run)
    recorder(
        RunStarted(run, "0.1.0", ("/usr/bin/nidome", "apply", "-t", "a b"), cluster, ("node1",), "abc", at=at)
    )
    recorder(TaskFinished("node1", "P", "role : Same", "ok", 0.1))
    recorder(
        TaskFinished(
            "node1", "P", "role : Write", "changed", 0.2, (_CHANGE, {**_CHANGE, "resource": "File:/b"})
        )
    )
    recorder(TaskFinished("node1", "P", "role : Start", "failed", 0.3, (), _ERROR))
    if finished:
        recorder(RunFinished(_RECAP, 1.5, {"connect": 0.25, "apply": 1.0}, ok=False))
    recorder.close()


@pytest.mark.usefixtures("place")
def test_list(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Runs are listed, the newest first: when, which command, how it ended, how long, how much changed."""
    _record("20260528T100000Z-aaaa")
    _record("20260528T110000Z-bbbb")
    code, out, _ = nidome("runs", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "RUN",
        "20260528T110000Z-bbbb",
        "20260528T100000Z-aaaa",
    ]
    assert "2026-05-28 20:26:40Z  nidome apply -t 'a b'  failed  1.5 s  1        1" in out
    assert [m["run"] for m in json.loads(nidome("runs", "list", "--json", "-n", "1")[1])] == [
        "20260528T110000Z-bbbb"
    ]


def test_list_of_nothing(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Where nothing was recorded, that and the place are said."""
    code, out, _ = nidome("runs", "list")
    assert (code, out) == (0, f"no runs are recorded in {runs_directory()}\n")


@pytest.mark.usefixtures("place")
def test_show(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """One run is shown with phases, recap, each change with its reason, each error with its next step."""
    _record("20260528T100000Z-aaaa")
    code, out, _ = nidome("runs", "show", "last")
    assert code == 0
    assert "phases:   connect 0.25, apply 1.00" in out
    assert "node1  ok=3  changed=1  unreachable=0  failed=1  skipped=0" in out
    assert "role : Same" not in out
    assert "role : Write]  0.20 s\n  ~ File:/etc/containerd/config.toml\n      mode: 0600 -> 0644" in out
    assert out.count("because containerd_debug_level = debug (group_vars/all/containerd.yml:12)") == 1
    assert "  error[not-held]: what was applied does not hold\n  where: node1: Unit:x\n  next:  look" in out
    assert out == nidome("runs", "show", "20260528T10")[1]
    document = json.loads(nidome("runs", "show", "last", "--json")[1])
    assert [e["type"] for e in document["events"]][0::4] == ["run_started", "run_finished"]


@pytest.mark.usefixtures("place")
def test_killed_run(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A run that was killed is told as killed and shown as far as it came (a torn last event is left out)."""
    _record("20260528T100000Z-aaaa", finished=False)
    record = listing()[0]
    meta = json.loads((record.path / "meta.json").read_text(encoding="utf-8"))
    # No process has this id: it is above what the kernel gives.
    (record.path / "meta.json").write_text(json.dumps({**meta, "pid": 2**30}), encoding="utf-8")
    with (record.path / "events.jsonl").open("a", encoding="utf-8") as out:
        out.write('{"type": "task_fin')
    code, shown, _ = nidome("runs", "show", "last")
    assert code == 0
    assert "status:   killed" in shown
    assert "failed  node1  TASK [role : Start]" in shown


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '"x"'])
def test_spoilt_record(text: str | None, place: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A record that cannot be read is listed as unreadable and does not hide the others."""
    _record("20260528T100000Z-aaaa")
    spoilt = place / "state" / "runs" / "20260528T120000Z-cccc"
    spoilt.mkdir()
    if text is not None:
        (spoilt / "meta.json").write_text(text, encoding="utf-8")
    code, out, err = nidome("runs", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "20260528T120000Z-cccc",
        "20260528T100000Z-aaaa",
    ]
    assert "unreadable" in out
    assert nidome("runs", "show", "last")[0] == 0


@pytest.mark.usefixtures("place")
def test_last_of_a_cluster() -> None:
    """The last run of a cluster is that of its own inventory, not of another one."""
    _record("20260528T100000Z-aaaa", cluster="/one")
    _record("20260528T110000Z-bbbb", cluster="/two")
    found = last_of("/one")
    assert found is not None
    assert found.run == "20260528T100000Z-aaaa"
    assert last_of("/three") is None


@pytest.mark.usefixtures("place")
def test_a_damaged_log_is_not_shown_as_a_whole_one(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """What is left of a record whose events are damaged or gone is shown, and the exit code is 1."""
    _record("20260528T100000Z-aaaa")
    file = listing()[0].path / "events.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert nidome("runs", "log")[0] == 0
    file.write_text("".join(lines[:1] + lines[3:]), encoding="utf-8")
    code, out, err = nidome("runs", "log")
    assert code == 1
    assert "PLAY RECAP" in out
    assert err.startswith("error[record-damaged]")
    file.unlink()
    for verb in ("log", "attach"):
        code, _, err = nidome("runs", verb)
        assert (code, err.partition(":")[0]) == (1, "error[record-damaged]")
