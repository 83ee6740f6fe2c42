from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.errors import MachineError
from nidome.machines import record
from nidome.machines.record import Record, parse

if TYPE_CHECKING:
    from pathlib import Path

RECORD = Record(
    name="n1",
    os="debian:12",
    address="10.61.0.2",
    label="nd0-2",
    token="0123456789ab-01234567",  # noqa: S106 - a cgroup's name, no secret
    rootfs="/cache/rootfs/debian-12-abc",
    blobs="",
    created="2026-11-30T16:00:00Z",
    complete=True,
)


def test_round_trip(tmp_path: Path) -> None:
    """A host's state file gives back what was written, and is readable for root only."""
    record.write(tmp_path, RECORD)
    assert record.read(tmp_path) == RECORD
    assert (tmp_path / record.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [record.FILE_NAME]


def test_missing(tmp_path: Path) -> None:
    """A directory without a state file holds no host."""
    assert record.read(tmp_path) is None
    assert record.read(tmp_path / "nothing") is None


@given(
    st.text()
    | st.dictionaries(st.sampled_from([*asdict(RECORD), "format"]), st.integers() | st.text()).map(json.dumps)
)
def test_damaged(text: str) -> None:
    """A state file that was damaged gives an error that names it and the way out, whatever is in it."""
    with pytest.raises(MachineError) as caught:
        parse(text, "/var/lib/nidome/machines/n1/machine.json")
    assert caught.value.code == "machine-state-unreadable"
    assert caught.value.where.endswith("machine.json")
    assert "rm" in caught.value.hint


def test_listing_survives_damage(tmp_path: Path) -> None:
    """One damaged or half-made host does not hide the others."""
    for name, text in (("a", "{"), ("b", json.dumps({"format": 1, **asdict(RECORD), "name": "b"}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / record.FILE_NAME).write_text(text, encoding="utf-8")
    (tmp_path / "c").mkdir()
    record.write(tmp_path / "c", RECORD.with_complete(complete=False))
    assert [known.name for known in record.all_in(tmp_path)] == ["b"]
    assert [known.complete for known in record.all_in(tmp_path, half=True)] == [True, False]
    assert record.all_in(tmp_path / "nothing") == []
