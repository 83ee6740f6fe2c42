"""What a process has read: systemd's answers as data, the files and the notes about starts for real."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nidome.agent.host import Host
from nidome.agent.resources import unit
from nidome.agent.resources.unit import Restart, Unit
from nidome.agent.system import DIRECTORY
from nidome.engine.diff import compare

NAME = "nidome-test-of-restarts.service"
RUNNING = {"ActiveState": "active", "SubState": "running"}


def _shown(start: float, **more: str) -> dict[str, str]:
    return {**RUNNING, "ExecMainStartTimestampMonotonic": str(int(start * 1e6)), **more}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a file that the process reads at its start."""
    path = tmp_path / "config"
    path.write_text("one")
    return path


def _note(host: Host, config: Path, **changes: Any) -> dict[str, Any]:
    """Write down what an agent notes before it asks for a start."""
    inputs = {f"{DIRECTORY}/{NAME}": None, str(config): host.sha256(str(config))}
    note = {"boot": unit._boot(), "start": None, "asked": time.monotonic(), "inputs": inputs, "before": None}
    note.update(changes)
    path = Path(host.state) / "units" / f"{NAME}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(note))
    return note


def _stale(host: Host, config: Path, shown: dict[str, str]) -> list[str]:
    """Return what the next process finds stale."""
    following = Host(host.state)
    following.units[NAME] = shown
    (found,) = unit.observe_restarts([Restart(NAME, (str(config),))], following)
    assert found is not None
    assert compare(Restart(NAME), found).settled == (found["stale"] == [])
    return [Path(p).name for p in found["stale"]]


def test_a_process_is_stale_while_its_input_differs(host: Host, config: Path) -> None:
    """A process is stale exactly while an input differs from what it read: a repaired one is not."""
    note = _note(host, config)
    shown = _shown(note["asked"] + 0.1)
    assert _stale(host, config, shown) == []
    config.write_text("two")
    assert _stale(host, config, shown) == ["config"]
    config.write_text("one")
    assert _stale(host, config, shown) == []
    config.unlink()
    assert _stale(host, config, shown) == ["config"]


def test_a_restart_by_somebody_else_counts(host: Host, config: Path) -> None:
    """After a restart by systemd or a person, only what was written since then makes the process stale."""
    note = _note(host, config, start=1.0)
    config.write_text("two")
    assert note["inputs"][str(config)] != Host(host.state).sha256(str(config))
    assert _stale(host, config, _shown(time.monotonic() + 5)) == []
    assert _stale(host, config, _shown(time.monotonic() - 60)) == ["config"]


def test_a_run_killed_before_the_restart_keeps_what_was_read(host: Host, config: Path) -> None:
    """A run killed after it noted a restart and before systemd did it leaves the old process stale."""
    old = _note(host, config)
    shown = _shown(old["asked"] + 0.01)
    assert _stale(host, config, shown) == []
    config.write_text("two")
    known = json.loads((Path(host.state) / "units" / f"{NAME}.json").read_text())
    _note(host, config, asked=time.monotonic() + 1, before=known)
    assert _stale(host, config, shown) == ["config"]
    config.write_text("one")
    assert _stale(host, config, shown) == []


def test_times_of_another_boot_mean_nothing(host: Host, config: Path) -> None:
    """After the host was started anew, a note from before says nothing of the processes that run now."""
    _note(host, config, boot="another", asked=1.0)
    config.write_text("two")
    assert _stale(host, config, _shown(time.monotonic() + 5)) == []
    assert unit._boot() == unit._boot() != ""


@pytest.mark.parametrize(
    "shown", [{"ActiveState": "failed", "SubState": "failed"}, {"ActiveState": "inactive"}]
)
def test_what_does_not_run_is_not_stale(host: Host, config: Path, shown: dict[str, str]) -> None:
    """A unit that does not run has read nothing: its start is due, not its restart."""
    _note(host, config)
    config.write_text("two")
    assert _stale(host, config, shown) == []


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"start": 1}'])
def test_damaged_notes_fall_back_to_times(host: Host, config: Path, note: str) -> None:
    """Without a usable note, an input is stale where it was written after the process was started."""
    path = Path(host.state) / "units" / f"{NAME}.json"
    path.parent.mkdir()
    path.write_text(note)
    assert _stale(host, config, _shown(time.monotonic() - 60)) == ["config"]
    assert _stale(host, config, _shown(time.monotonic() + 5)) == []


@pytest.mark.parametrize(
    ("shown", "runs"),
    [
        (RUNNING, True),
        ({"ActiveState": "activating", "SubState": "start"}, True),
        ({"ActiveState": "activating", "SubState": "start-pre"}, True),
        ({"ActiveState": "inactive", "SubState": "dead", "Job": "12"}, True),
        ({"ActiveState": "inactive", "SubState": "dead", "Job": "0"}, False),
        ({"ActiveState": "inactive", "SubState": "dead"}, False),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, False),
        ({"ActiveState": "failed", "SubState": "failed"}, False),
        ({"ActiveState": "active", "SubState": "exited"}, False),
        ({}, False),
    ],
)
def test_what_counts_as_running(shown: dict[str, str], *, runs: bool) -> None:
    """A unit counts as running when its process runs or is on its way, not while it waits to be retried."""
    assert unit._runs(shown) is runs


@pytest.mark.parametrize(
    ("shown", "attributes"),
    [
        ({}, []),
        ({"UnitFileState": "disabled"}, []),
        ({"NeedDaemonReload": "yes"}, ["loaded"]),
        ({"ActiveState": "failed"}, ["running"]),
    ],
)
def test_each_state_of_a_unit_counts(
    tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch, shown: dict[str, str], attributes: list[str]
) -> None:
    """A unit file not read by systemd and a unit that does not run are differences; links are looked at."""
    monkeypatch.setattr(unit, "DIRECTORY", str(tmp_path))
    wanted = Unit(NAME, "[Service]\n")
    (tmp_path / NAME).write_text(wanted.text)
    unit._enable(wanted)
    host.units[NAME] = {**RUNNING, **shown}
    change = compare(wanted, unit.observe([wanted], host)[0]).change
    assert [d.attribute for d in change.deltas] == attributes if change else attributes == []


def test_a_unit_is_enabled_by_the_right_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enabling replaces a link that leads elsewhere, disabling removes it, and both can be repeated."""
    monkeypatch.setattr(unit, "DIRECTORY", str(tmp_path))
    wanted, link = Unit(NAME, ""), tmp_path / "multi-user.target.wants" / NAME
    link.parent.mkdir()
    link.symlink_to("/dev/null")
    for _ in range(2):
        unit._enable(wanted)
        assert str(link.readlink()) == f"{tmp_path}/{NAME}" == unit._enabled_by(str(link))
    for _ in range(2):
        unit._enable(Unit(NAME, "", enabled=False))
        assert not link.is_symlink()
