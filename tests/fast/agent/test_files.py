from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nidome.agent.host import Host
from nidome.agent.resources import directory, file
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.engine.diff import compare

if TYPE_CHECKING:
    from nidome.agent.resources.base import Resource

KINDS: dict[str, Any] = {"File": file, "Directory": directory}


def _differs(resource: Resource, host: Host) -> bool:
    return not compare(resource, KINDS[resource.kind].observe([resource], host)[0]).settled


def _apply(resource: Resource, host: Host) -> None:
    KINDS[resource.kind].apply(resource, host)


def _remove(resource: Resource, host: Host) -> None:
    KINDS[resource.kind].remove(host.ledger.entries[resource.id], host)
    host.ledger.drop(resource.id)


def _snapshot(root: Path) -> dict[str, Any]:
    return {
        str(p.relative_to(root)): (p.stat().st_mode, p.read_bytes() if p.is_file() else None)
        for p in sorted(root.rglob("*"))
        if "state" not in p.parts
    }


@pytest.fixture
def wanted(tmp_path: Path, me: tuple[str, str]) -> File:
    """Return a file that must be so."""
    return File(str(tmp_path / "f"), "wanted\n", "0640", *me)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda _: None,
        lambda p: p.write_text(""),
        lambda p: p.write_text("other"),
        lambda p: (p.write_text("wanted\n"), p.chmod(0o777)),
        lambda p: p.symlink_to("nowhere"),
        lambda p: p.symlink_to("/etc/hostname"),
        os.mkfifo,
        lambda p: os.mknod(p, 0o600 | stat.S_IFSOCK),
    ],
)
@pytest.mark.usefixtures("promptly")
def test_a_file_becomes_what_is_declared(wanted: File, host: Host, prepare: Any) -> None:
    """Whatever is found at a path, one apply makes it the declared file, and then nothing differs."""
    prepare(Path(wanted.path))
    assert _differs(wanted, host)
    _apply(wanted, host)
    assert not _differs(wanted, host)
    assert not Path(wanted.path).is_symlink()
    assert Path(wanted.path).read_text() == "wanted\n"
    assert Path(wanted.path).stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("ownership", ["whole", "create-only"])
def test_a_reset_puts_a_link_back(wanted: File, host: Host, ownership: str) -> None:
    """A link that stood in a file's place before Nidome is there again after a reset; its target stayed."""
    kept = replace(wanted, ownership=ownership)
    target = Path(wanted.path).with_name("target")
    target.write_text("theirs")
    Path(wanted.path).symlink_to("target")
    _apply(kept, host)
    assert not Path(wanted.path).is_symlink()
    _remove(kept, host)
    assert os.readlink(wanted.path) == "target"
    assert target.read_text() == "theirs"


@pytest.mark.usefixtures("promptly")
def test_a_pipe_is_not_the_content_that_is_kept(wanted: File, host: Host) -> None:
    """A create-only file whose place a pipe has taken gets what is declared, and a reset leaves none."""
    rotated = replace(wanted, ownership="create-only")
    os.mkfifo(wanted.path)
    _apply(rotated, host)
    assert Path(wanted.path).read_text() == "wanted\n"
    _remove(rotated, host)
    assert not Path(wanted.path).exists()


def test_a_create_only_file_is_left_to_who_rotates_it(wanted: File, host: Host) -> None:
    """A create-only file is written where it is missing; a later content is kept when its mode is mended."""
    rotated = replace(wanted, ownership="create-only")
    _apply(rotated, host)
    Path(rotated.path).write_text("rotated")
    assert not _differs(rotated, host)
    Path(rotated.path).chmod(0o666)
    assert _differs(rotated, host)
    _apply(rotated, host)
    assert Path(rotated.path).read_text() == "rotated"
    assert not _differs(rotated, host)


@pytest.mark.parametrize("before", [None, b"", b"theirs\n", b"\xff\x00binary"])
def test_a_removed_file_gives_way_to_what_was_there(wanted: File, host: Host, before: bytes | None) -> None:
    """Removing a file that Nidome wrote puts back what stood there before, byte for byte with its mode."""
    path = Path(wanted.path)
    if before is not None:
        path.write_bytes(before)
        path.chmod(0o604)
    earlier = _snapshot(path.parent)
    _apply(wanted, host)
    _apply(replace(wanted, content="newer"), host)
    _remove(wanted, host)
    assert _snapshot(path.parent) == earlier


def test_prior_content_survives_a_kill_before_the_write(wanted: File, host: Host, again: Host) -> None:
    """A run killed after the ledger entry and before the file still gives back the earlier content."""
    path = Path(wanted.path)
    path.write_text("theirs")
    host.ledger.add("File", wanted.path, prior=file._prior(wanted.path))
    resumed = Host(again.state)
    _apply(wanted, resumed)
    _remove(wanted, resumed)
    assert path.read_text() == "theirs"


def test_a_secret_is_observed_without_its_text(wanted: File, host: Host) -> None:
    """The content of a secret file leaves the host neither when it is equal nor when it differs."""
    secret = replace(wanted, secrets=("wanted",))
    Path(secret.path).write_text("an earlier secret")
    found = file.observe([secret, wanted], host)
    assert "an earlier secret" not in str(found[0])
    assert "an earlier secret" in str(found[1])


@given(content=st.text(max_size=200), mode=st.integers(0o400, 0o777))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_any_content_and_mode_holds(
    tmp_path: Path, host: Host, me: tuple[str, str], content: str, mode: int
) -> None:
    """Any text with any mode is written exactly, and the second look finds nothing to do."""
    wanted = File(str(tmp_path / "any"), content, f"{mode:04o}", *me)
    _apply(wanted, host)
    assert not _differs(wanted, host)
    assert Path(wanted.path).read_bytes() == content.encode()


def test_directories_are_made_with_their_parents(tmp_path: Path, host: Host, me: tuple[str, str]) -> None:
    """Missing parents of a directory are made with it, and removed with it while they hold nothing else."""
    wanted = Directory(str(tmp_path / "a/b/c"), "0750", *me)
    assert _differs(wanted, host)
    _apply(wanted, host)
    assert not _differs(wanted, host)
    assert [e["key"] for e in host.ledger.made()] == [str(tmp_path / p) for p in ("a", "a/b", "a/b/c")]
    for entry in reversed(host.ledger.made()):
        directory.remove(entry, host)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("owned", [True, False])
def test_only_an_owned_directory_goes_with_its_content(
    tmp_path: Path, host: Host, me: tuple[str, str], *, owned: bool
) -> None:
    """What components left in an owned directory goes with it; another one stays while it is not empty."""
    wanted = Directory(str(tmp_path / "d"), "0755", *me, owned=owned)
    _apply(wanted, host)
    (tmp_path / "d" / "theirs").write_text("")
    _remove(wanted, host)
    assert (tmp_path / "d").exists() != owned


def test_a_directory_that_was_there_is_given_back(tmp_path: Path, host: Host, me: tuple[str, str]) -> None:
    """A directory that stood there before keeps its content at a reset, and gets its mode back."""
    path = tmp_path / "d"
    path.mkdir(mode=0o711)
    path.chmod(0o711)
    (path / "theirs").write_text("kept")
    earlier = _snapshot(tmp_path)
    wanted = Directory(str(path), "0700", *me, owned=True)
    _apply(wanted, host)
    assert not _differs(wanted, host)
    path.chmod(0o777)
    _apply(wanted, Host(host.state))
    _remove(wanted, Host(host.state))
    assert _snapshot(tmp_path) == earlier


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path, host: Host) -> None:
    """A file where a directory must be is told as such; it is not taken for the directory."""
    (tmp_path / "d").write_text("")
    (found,) = directory.observe([Directory(str(tmp_path / "d"))], host)
    assert found is not None
    assert found["$error"]["code"] == "not-a-directory"


def test_a_kill_between_ledger_and_directory_is_resumed(
    tmp_path: Path, host: Host, me: tuple[str, str]
) -> None:
    """A directory that a killed run only announced is made by the next run, and is Nidome's own."""
    wanted = Directory(str(tmp_path / "d"), "0755", *me, owned=True)
    host.ledger.add("Directory", wanted.path, data={"owned": True})
    resumed = Host(host.state)
    _apply(wanted, resumed)
    (tmp_path / "d" / "content").write_text("")
    _remove(wanted, resumed)
    assert not os.path.exists(wanted.path)


def test_somebody_elses_file_is_left(wanted: File, host: Host) -> None:
    """An unclaimed file is kept as declared where Nidome made it, and left alone where somebody else did."""
    ours = replace(wanted, ownership="unclaimed")
    Path(ours.path).write_text("theirs")
    assert not _differs(ours, host)
    _apply(ours, host)
    assert Path(ours.path).read_text() == "theirs"
    Path(ours.path).unlink()
    assert _differs(ours, host)
    _apply(ours, host)
    Path(ours.path).write_text("drifted")
    assert _differs(ours, host)
    _apply(ours, host)
    assert Path(ours.path).read_text() == "wanted\n"
    _remove(ours, host)
    assert not Path(ours.path).exists()
