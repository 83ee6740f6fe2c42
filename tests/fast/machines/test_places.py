from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from nidome.errors import MachineError
from nidome.machines.places import (
    cache_root,
    locked,
    machines_root,
    make_readable_directories,
    readable_errors,
    remove_empty,
    remove_tree,
    write_atomic,
)


def test_default_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts live under /var/lib/nidome/machines and root file systems in the user's cache."""
    for name in ("NIDOME_MACHINES_DIR", "NIDOME_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert machines_root() == Path("/var/lib/nidome/machines")
    assert cache_root() == Path("/home/u/.cache/nidome")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_root() == Path("/x/nidome")
    monkeypatch.setenv("NIDOME_CACHE_DIR", "/own")
    monkeypatch.setenv("NIDOME_MACHINES_DIR", "/moved")
    assert (cache_root(), machines_root()) == (Path("/own"), Path("/moved"))


@pytest.mark.parametrize("odd", ["/a:b", "/a,b", "/a b", "/a\\b", '/a"b', "/a%b"])
def test_odd_paths(monkeypatch: pytest.MonkeyPatch, odd: str) -> None:
    """A directory whose name would be taken apart by mount is refused by name."""
    monkeypatch.setenv("NIDOME_MACHINES_DIR", odd)
    with pytest.raises(MachineError) as caught:
        machines_root()
    assert (caught.value.code, caught.value.where) == ("path-unsuitable", odd)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EROFS, "directory-read-only"),
        (errno.EACCES, "permission-denied"),
        (errno.EIO, "machine-io-failed"),
    ],
)
def test_system_errors(number: int, code: str) -> None:
    """What the operating system refuses becomes an error with a code, the file and a next step."""
    with pytest.raises(MachineError) as caught, readable_errors(Path("/p")):
        raise OSError(number, os.strerror(number), "/p/file")
    assert (caught.value.code, caught.value.where) == (code, "/p/file")
    assert caught.value.hint


def test_lock_excludes(tmp_path: Path) -> None:
    """Two runs never hold the lock of one directory at once, and it leaves no file."""
    with locked(tmp_path) as first, locked(tmp_path, wait=False) as second:
        assert first
        assert not second
    with locked(tmp_path, wait=False) as third:
        assert third
    assert list(tmp_path.iterdir()) == []


def test_lock_of_removed_directory(tmp_path: Path) -> None:
    """Who waited for a directory that was removed meanwhile gets the lock of the new one, not of the old."""
    directory = tmp_path / "d"
    entered = threading.Event()

    def wait() -> None:
        with locked(directory, create=True):
            (directory / "mine").touch()
            entered.set()

    with locked(directory, create=True):
        waiter = threading.Thread(target=wait)
        waiter.start()
        directory.rmdir()
    waiter.join(10)
    assert entered.is_set()
    assert (directory / "mine").exists()


def test_lock_of_missing_directory(tmp_path: Path) -> None:
    """The lock of a directory that does not exist is an error where it must not be made."""
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none"):
        pass


def test_atomic_write(tmp_path: Path) -> None:
    """A file is replaced as a whole and has its mode whatever the umask is."""
    target = tmp_path / "f"
    before = os.umask(0o077)
    try:
        write_atomic(target, "one", 0o644)
        write_atomic(target, "two", 0o644)
        make_readable_directories(tmp_path / "a/b")
    finally:
        os.umask(before)
    assert target.read_text(encoding="utf-8") == "two"
    assert target.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o755
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "f"]


def test_remove_while_written(tmp_path: Path) -> None:
    """A tree is removed completely also while a late writer still adds to it."""
    directory = tmp_path / "tree"
    (directory / "sub").mkdir(parents=True)
    stop = threading.Event()

    def write() -> None:
        for number in range(200):
            if stop.is_set():
                return
            try:
                (directory / "sub" / str(number)).touch()
            except FileNotFoundError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    remove_tree(directory)
    stop.set()
    writer.join(10)
    assert not directory.exists()
    remove_tree(directory)


def test_remove_empty(tmp_path: Path) -> None:
    """A directory that others still use is kept."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").touch()
    remove_empty(tmp_path / "d")
    assert (tmp_path / "d").is_dir()
    (tmp_path / "d/file").unlink()
    remove_empty(tmp_path / "d")
    remove_empty(tmp_path / "d")
    assert not (tmp_path / "d").exists()
