"""``nidome runs report`` without a cluster: which runs it takes, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from nidome.events import PlayStarted, RunFinished, RunStarted, TaskFinished
from nidome.prove.records import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = Callable[..., tuple[int, str, str]]

_MADE = {"resource": "Unit:kube-apiserver.service", "action": "create", "deltas": [], "because": []}
_WORDS = ("runs", "report", "--format", "kubespray-lab", "-o", "out")
_AT = iter(range(1_780_000_000, 1_790_000_000, 100))


def _run(inventory: Path, *, made: bool = False, ok: bool = True, ended: bool = True, **scope: Any) -> str:
    at = float(next(_AT))
    name = f"20260528T{int(at) % 1_000_000:06d}Z-aaaa"
    recorder = Recorder(name)
    cluster = str(inventory.absolute())
    started = RunStarted(name, "0.1", ("nidome", "playbook"), cluster, ("node1",), "d", at=at)
    recorder(replace(started, playbook="cluster.yml", scope=scope))
    recorder(PlayStarted("P", ("node1",), at=at))
    changes = (_MADE,) if made else ()
    recorder(TaskFinished("node1", "P", "r : T", "changed" if made else "ok", 0.5, changes, at=at + 1))
    if ended:
        counts = {"ok": 1, "changed": int(made), "unreachable": 0, "failed": int(not ok), "skipped": 0}
        recorder(RunFinished({"node1": counts}, 2.0, {}, ok, at=at + 2))
    recorder.close()
    return name


def test_what_is_missing_is_named(nidome: Call, unreachable: Path) -> None:
    """A report says which run is missing and how to make it; other clusters' and dry runs do not count."""
    assert "error[report-no-first]" in nidome(*_WORDS)[2]
    _run(unreachable)
    assert "error[report-no-first]" in nidome(*_WORDS)[2]
    _run(unreachable, made=True)
    assert "error[report-no-second]" in nidome(*_WORDS)[2]
    _run(unreachable, check=True)
    _run(unreachable, limit=["node1"])
    _run(unreachable, ended=False)
    _run(unreachable.parent)
    assert "error[report-no-second]" in nidome(*_WORDS)[2]
    _run(unreachable)
    code, out, err = nidome(*_WORDS)
    assert (code, out) == (1, "")
    assert "error[report-no-tags]" in err
    assert "--tags containerd" in err


def test_the_cluster_is_asked_when_all_runs_are_there(nidome: Call, unreachable: Path, place: Path) -> None:
    """With all three runs the live cluster is asked; where it does not answer nothing is written."""
    _run(unreachable, made=True)
    _run(unreachable)
    _run(unreachable, tags=["containerd"])
    code, _, err = nidome(*_WORDS)
    assert code == 1
    assert "error[host-unreachable]" in err
    assert not (place / "out").exists()


@pytest.mark.usefixtures("unreachable")
def test_logs_are_taken_from_files(nidome: Call, place: Path) -> None:
    """A log that is named is read instead of a record; one that is missing or torn is named."""
    (place / "torn.log").write_text("PLAY [x] ****\n", encoding="utf-8")
    logs = ("--log1", "torn.log", "--log2", "b", "--log-tags", "c")
    code, _, err = nidome(*_WORDS, *logs)
    assert code == 1
    assert "error[log-truncated]" in err
    assert "where: torn.log" in err
    for name in ("none.log", "/dev/zero", "."):
        assert "error[log-unreadable]" in nidome(*_WORDS, "--log1", name, *logs[2:])[2]
