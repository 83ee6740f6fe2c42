from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import nidome
from nidome.errors import StateError
from nidome.events import PlayStarted, RunFinished, RunStarted
from nidome.prove import records
from nidome.prove.records import Recorder, exit_code, find, last_of, listing, new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

STARTED = RunStarted("r", "0.1", ("nidome", "apply"), "/inventory", ("node1",), "digest", at=100.0)
FINISHED = RunFinished({"node1": {"ok": 1, "changed": 0}}, 1.5, {"apply": 1.0}, ok=True)

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {source!r})
from nidome.events import PlayStarted, RunStarted
from nidome.prove.records import Recorder
recorder = Recorder("20260101T000000Z-dead", Path({directory!r}))
recorder(RunStarted("r", "0.1", ("nidome", "apply"), "/inventory", ("node1",), "digest"))
recorder(PlayStarted("play", ("node1",)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def _record(directory: Path, run: str, at: float = 100.0, *, finished: bool = True) -> Recorder:
    recorder = Recorder(run, directory)
    recorder(RunStarted(run, "0.1", ("nidome",), "/inventory", ("node1",), "digest", at=at))
    if finished:
        recorder(FINISHED)
    recorder.close()
    return recorder


def test_a_record_holds_the_run(tmp_path: Path) -> None:
    """A record has command, declaration, every event in order, recap and durations, for its owner alone."""
    recorder = Recorder("20260101T000000Z-aaaa", tmp_path)
    for event in (STARTED, PlayStarted("play", ("node1",)), FINISHED):
        recorder(event)
    recorder.close()
    (record,) = listing(tmp_path)
    assert [e["type"] for e in record.events()] == ["run_started", "play_started", "run_finished"]
    assert (record.meta["status"], record.meta["seconds"]) == ("ok", 1.5)
    assert record.meta["recap"] == {"node1": {"ok": 1, "changed": 0}}
    assert (record.meta["command"], record.meta["declaration"]) == (["nidome", "apply"], "digest")
    assert recorder.path.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in recorder.path.iterdir()}
    assert modes == {"events.jsonl": 0o600, "meta.json": 0o600}
    assert not list(recorder.path.glob(".*"))


def test_a_killed_run_shows_as_killed(tmp_path: Path) -> None:
    """A run that was killed has a record with what it did, and shows as killed."""
    program = KILLED.format(source=str(Path(nidome.__file__).parents[1]), directory=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    (record,) = listing(tmp_path)
    assert record.meta["status"] == "killed"
    assert [e["type"] for e in record.events()] == ["run_started", "play_started"]


def test_a_run_under_way_shows_as_running(tmp_path: Path) -> None:
    """A run whose process lives shows as running; a later process with its number does not count for it."""
    recorder = _record(tmp_path, "20260101T000000Z-aaaa", finished=False)
    assert listing(tmp_path)[0].meta["status"] == "running"
    meta = json.loads((recorder.path / "meta.json").read_text())
    assert meta["pid"] == os.getpid()
    (recorder.path / "meta.json").write_text(json.dumps({**meta, "process": "1"}))
    assert listing(tmp_path)[0].meta["status"] == "killed"


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """A last event that was not written whole is left out, and the others are shown."""
    recorder = _record(tmp_path, "20260101T000000Z-aaaa")
    with (recorder.path / "events.jsonl").open("a") as out:
        out.write('{"type": "task_fini')
    assert [e["type"] for e in listing(tmp_path)[0].events()] == ["run_started", "run_finished"]


def test_an_aborted_run_keeps_its_error(tmp_path: Path) -> None:
    """A run that ends with an error has the error in its record; one that had finished stays as it ended."""
    error = {"code": "host-lost", "message": "gone"}
    for run, finished, status in (
        ("20260101T000000Z-a", False, "aborted"),
        ("20260101T000001Z-b", True, "ok"),
    ):
        recorder = Recorder(run, tmp_path)
        recorder(STARTED)
        if finished:
            recorder(FINISHED)
        recorder.abort(error)
        recorder.close()
        record = find(run, tmp_path)
        assert record.meta["status"] == status
        assert ("error" in record.meta) is not finished


def test_records_are_listed_newest_first(tmp_path: Path) -> None:
    """Records are listed newest first, also those of runs that began within one second."""
    names = ["20260101T000000Z-ffff", "20260101T000000Z-0000", "20260101T000001Z-8888"]
    for number, name in enumerate(names):
        _record(tmp_path, name, at=100.0 + number / 10)
    (tmp_path / "a file").write_text("")
    assert [r.run for r in listing(tmp_path)] == names[::-1]
    assert find("last", tmp_path).run == names[-1]
    assert find("20260101T000000Z-f", tmp_path).run == names[0]
    last = last_of("/inventory", tmp_path)
    assert last is not None
    assert last.run == names[-1]
    assert last_of("/another", tmp_path) is None


def test_an_unknown_run_is_an_error(tmp_path: Path) -> None:
    """A run that nobody recorded is an error with the command that lists those there are."""
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StateError) as raised:
            find("2020", directory)
        assert (raised.value.code, raised.value.hint) == ("run-unknown", "nidome runs list")


def test_the_beginning_of_several_names_is_an_error(tmp_path: Path) -> None:
    """A prefix names a run only where no other run has it; a whole name always does."""
    for name in ("20260101T000000Z-aaaa", "20260101T000000Z-aaaab", "20260102T000000Z-cccc"):
        _record(tmp_path, name)
    assert find("20260102", tmp_path).run == "20260102T000000Z-cccc"
    assert find("20260101T000000Z-aaaa", tmp_path).run == "20260101T000000Z-aaaa"
    with pytest.raises(StateError, match="20260101T000000Z-aaaab") as raised:
        find("20260101", tmp_path)
    assert raised.value.code == "run-ambiguous"


def test_a_run_that_ended_before_its_first_event(tmp_path: Path) -> None:
    """A run that Ctrl-C ended before anything was written down has a record with how it ended."""
    recorder = Recorder("20260101T000000Z-aaaa", tmp_path)
    recorder.abort({"code": "interrupted", "message": "ended by Ctrl-C (SIGINT)"})
    recorder(FINISHED)
    recorder.close()
    meta = find("last", tmp_path).meta
    assert (meta["status"], meta["error"]["code"], exit_code(meta)) == ("aborted", "interrupted", 130)


@pytest.mark.parametrize(
    "meta",
    [None, "", "{", "[]", "{}", "7", '{"status": "ok"}', '{"status": "running", "pid": "x"}',
     '{"status": "ok", "run": "x", "started": "yesterday"}'],
)  # fmt: skip
def test_a_damaged_record_does_not_hide_others(tmp_path: Path, meta: str | None) -> None:
    """A record that cannot be read shows as such among the others."""
    _record(tmp_path, "20260101T000000Z-aaaa")
    (tmp_path / "20260101T000001Z-bbbb").mkdir()
    if meta is not None:
        (tmp_path / "20260101T000001Z-bbbb" / "meta.json").write_text(meta)
    assert [r.meta["status"] for r in listing(tmp_path)] == ["unreadable", "ok"]
    assert list(listing(tmp_path)[0].events()) == []


def test_a_full_disk_does_not_end_the_run(tmp_path: Path) -> None:
    """When the record can no longer be written, the run goes on, and the recorder says why it is torn."""
    recorder = _record(tmp_path, "20260101T000000Z-aaaa", finished=False)
    recorder._events = Path("/dev/full").open("a")  # noqa: SIM115 - closed by the recorder
    recorder(PlayStarted("play", ("node1",)))
    recorder(FINISHED)
    recorder.close()
    assert recorder.lost == "No space left on device"


def test_records_that_cannot_be_begun_are_an_error(tmp_path: Path) -> None:
    """A place where no record can be written is an error before anything is changed."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError) as raised:
        Recorder("run", tmp_path / "file")
    assert raised.value.code == "record-unwritable"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NIDOME_STATE_DIR": "/chosen"}, "/chosen/runs"),
        ({"XDG_STATE_HOME": "/xdg"}, "/xdg/nidome/runs"),
        ({"HOME": "/home/me"}, "/home/me/.local/state/nidome/runs"),
    ],
)
def test_where_records_are(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    """Records are where NIDOME_STATE_DIR says, else in the user's state directory."""
    for name in ("NIDOME_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(records.runs_directory()) == expected


def test_run_ids_are_not_used_twice() -> None:
    """Names of runs differ, also within one second, and sort by time."""
    assert len({new_run_id() for _ in range(50)}) > 40
    assert new_run_id()[:16] <= new_run_id()[:16]


@pytest.mark.parametrize(
    ("name", "value"),
    [("started", "yesterday"), ("pid", "x"), ("recap", 5), ("recap", {"node1": 5}), ("command", [1]),
     ("scope", None), ("phases", {"apply": "long"}), ("seconds", "many"), ("error", "x")],
)  # fmt: skip
def test_a_value_of_another_type_makes_a_record_unreadable(tmp_path: Path, name: str, value: object) -> None:
    """A record with a value that no recorder writes shows as unreadable, under its directory's name."""
    recorder = _record(tmp_path, "20260101T000000Z-aaaa")
    meta = json.loads((recorder.path / "meta.json").read_text())
    (recorder.path / "meta.json").write_text(json.dumps({**meta, name: value}))
    assert listing(tmp_path)[0].meta == {"run": "20260101T000000Z-aaaa", "status": "unreadable"}


@pytest.mark.parametrize(
    "spoil", [lambda e: e[1:], lambda e: [e[0], "{", *e[2:]], lambda _: [], lambda _: ["1"]]
)
def test_a_record_that_lost_events_is_not_whole(
    tmp_path: Path, spoil: Callable[[list[str]], list[str]]
) -> None:
    """Lines that are gone from a record's events, or damaged, are found by their number."""
    recorder = _record(tmp_path, "20260101T000000Z-aaaa")
    find("last", tmp_path).require_whole()
    file = recorder.path / "events.jsonl"
    file.write_text("".join(f"{line}\n" for line in spoil(file.read_text().splitlines())))
    with pytest.raises(StateError) as raised:
        find("last", tmp_path).require_whole()
    assert (raised.value.code, raised.value.where) == ("record-damaged", str(file))
