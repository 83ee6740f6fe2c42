"""What stands in a unit file's place: the files are real, systemd's answers are data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.resources import unit
from nidome.agent.resources.unit import Unit
from nidome.engine.diff import compare
from nidome.engine.run import overridden

if TYPE_CHECKING:
    from nidome.agent.host import Host

NAME = "nidome-test-of-units.service"
TEXT = "[Service]\nExecStart=/bin/true\n"
SHOWN = {"ActiveState": "active", "SubState": "running", "NeedDaemonReload": "no", "NRestarts": "0"}


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host) -> Unit:
    """Return a unit that is there as declared, enabled and running."""
    monkeypatch.setattr(unit, "DIRECTORY", str(tmp_path))
    wanted = Unit(NAME, TEXT)
    Path(wanted.path).write_text(TEXT)
    Path(wanted.path).chmod(0o644)
    links = tmp_path / "multi-user.target.wants"
    links.mkdir()
    (links / NAME).symlink_to(wanted.path)
    host.units[NAME] = dict(SHOWN)
    assert _differing(wanted, host) == set()
    return wanted


def _differing(wanted: Unit, host: Host) -> set[str]:
    change = compare(wanted, unit.observe([wanted], host)[0]).change
    return {d.attribute for d in change.deltas} if change else set()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _elsewhere(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.usefixtures("promptly")
@pytest.mark.parametrize(
    ("spoil", "differing"),
    [
        (lambda p: p.chmod(0o666), {"file"}),
        (lambda p: os.chown(p, 12345, 0), {"file"}),
        (_elsewhere, {"file"}),
        (lambda p: p.write_text("[Service]\n"), {"text"}),
        (_pipe, {"file", "text"}),
        (lambda p: (p.parent / "multi-user.target.wants" / NAME).unlink(), {"enabled"}),
    ],
)
def test_what_is_in_a_unit_files_place(wanted: Unit, host: Host, spoil: Any, differing: set[str]) -> None:
    """Another mode, owner, text or kind of file in a unit's place differs, and so does a missing link."""
    spoil(Path(wanted.path))
    assert _differing(wanted, host) == differing


def test_files_that_override_a_unit(
    wanted: Unit, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drop-in of the unit alone is a warning that names it; those for all units are not."""
    own = f"/etc/systemd/system.control/{NAME}.d/50-memory.conf"
    host.units[NAME]["DropInPaths"] = f"/run/systemd/system/service.d/all.conf {own}"
    unread = tmp_path / f"{NAME}.d" / "10-proxy.conf"
    unread.parent.mkdir()
    unread.write_text("[Service]\n")
    monkeypatch.setattr(unit, "_DROP_INS", (str(tmp_path),))
    (state,) = unit.observe([wanted], host)
    (warning,) = overridden("node1", {wanted.id: state, "File:/x": None})
    assert (warning.code, warning.where) == ("unit-overridden", f"node1: Unit:{NAME}")
    assert f"{own}, {unread}" in warning.message
    assert "all.conf" not in warning.message


@pytest.mark.parametrize(
    ("shown", "runs"),
    [
        ({"ActiveState": "activating", "SubState": "auto-restart"}, False),
        ({"ActiveState": "activating", "SubState": "start"}, True),
        ({"ActiveState": "activating", "SubState": "start", "NRestarts": "3"}, False),
        ({"ActiveState": "inactive", "SubState": "dead", "Job": "12"}, True),
        ({"ActiveState": "inactive", "SubState": "dead", "Job": "0"}, False),
        ({"ActiveState": "failed", "SubState": "failed"}, False),
    ],
)
def test_what_counts_as_running(wanted: Unit, host: Host, shown: dict[str, str], *, runs: bool) -> None:
    """A unit on its way up counts as running, one that keeps ending does not, whenever one looks."""
    host.units[NAME].update(shown)
    assert ("running" not in _differing(wanted, host)) == runs
