"""Directories, locks and atomic files of the disposable hosts.

Locks are ``flock`` on the directories themselves: they need no lock file, so nothing is left when the last
host goes, and the kernel drops them when a process is killed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "cache_root",
    "locked",
    "machines_root",
    "make_readable_directories",
    "mountable",
    "readable_errors",
    "remove_empty",
    "remove_tree",
    "write_atomic",
    "write_json",
]

_TREE_TRIES = 100
_TREE_PAUSE_SECONDS = 0.02
_DEFAULT_ROOT = Path("/var/lib/nidome/machines")

# What the operating system's error number means here: code, message, next step.
_MOVE = "move the hosts or the cache: NIDOME_MACHINES_DIR=DIR, NIDOME_CACHE_DIR=DIR"
_AS_ROOT = "run it as root: sudo nidome machines ..."
_MEANINGS: Mapping[int, tuple[str, str, str]] = {
    errno.ENOSPC: ("disk-full", "no space is left", f"free some space, or {_MOVE}"),
    errno.EDQUOT: ("disk-full", "the quota is used up", f"free some space, or {_MOVE}"),
    errno.EROFS: ("directory-read-only", "the file system is read-only", _MOVE),
    errno.EACCES: ("permission-denied", "permission denied", _AS_ROOT),
    errno.EPERM: ("permission-denied", "permission denied", _AS_ROOT),
    errno.ENOTDIR: ("directory-invalid", "a part of the path is no directory", _MOVE),
    errno.EEXIST: ("directory-invalid", "there is a file where a directory must be", _MOVE),
}

# They mean something in mount options and nspawn's arguments.
_UNSUITABLE = frozenset(":,\\ \t\n\"'%")


def machines_root() -> Path:
    """Return the directory that holds the state of all hosts (``NIDOME_MACHINES_DIR`` moves it)."""
    return mountable(Path(os.environ.get("NIDOME_MACHINES_DIR") or _DEFAULT_ROOT).absolute())


def cache_root() -> Path:
    """Return the cache directory: ``NIDOME_CACHE_DIR``, else ``nidome`` under the XDG cache directory."""
    own = os.environ.get("NIDOME_CACHE_DIR")
    if own:
        return mountable(Path(own).absolute())
    base = os.environ.get("XDG_CACHE_HOME")
    return mountable((Path(base) if base else Path.home() / ".cache").absolute() / "nidome")


def mountable(path: Path) -> Path:
    """Return ``path`` if it can be mounted; raise MachineError ``path-unsuitable`` if not."""
    odd = sorted(_UNSUITABLE.intersection(str(path)))
    if not odd:
        return path
    raise MachineError(
        "path-unsuitable",
        f"hosts can't use a path with {', '.join(map(repr, odd))} in it",
        where=str(path),
        hint=_MOVE,
    )


@contextmanager
def readable_errors(place: Path) -> Iterator[None]:
    """Turn the operating system's errors in the block into a MachineError that names the file."""
    try:
        yield
    except OSError as error:
        code, message, hint = _MEANINGS.get(
            error.errno or 0,
            ("machine-io-failed", error.strerror or str(error), "see the path named above"),
        )
        raise MachineError(code, message, where=str(error.filename or place), hint=hint) from error


@contextmanager
def locked(directory: Path, *, create: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold the exclusive lock of ``directory``; yield False if it is held elsewhere and ``wait`` is off.

    ``create`` makes the directory (root only) when it is missing, also when it is removed by the holder
    one waits for. Without it a missing directory raises FileNotFoundError.
    """
    descriptor = _lock(directory, create=create, wait=wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(directory: Path, *, create: bool, wait: bool) -> int | None:
    while True:
        try:
            if create:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, FileExistsError):
            # Somebody removes it just now; "exists" is what mkdir says when it goes between its two looks.
            if create and (directory.is_dir() or not directory.exists()):
                continue
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _still_there(directory, descriptor):
            return descriptor
        os.close(descriptor)


def _still_there(directory: Path, descriptor: int) -> bool:
    """Whether the path still names what was opened (the holder before may have removed it)."""
    try:
        now = directory.stat()
    except FileNotFoundError:
        return False
    then = os.fstat(descriptor)
    return stat.S_ISDIR(now.st_mode) and (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino)


def write_atomic(path: Path, text: str, mode: int = 0o600) -> None:
    """Write ``text`` so that readers and crashes see either the old file or the whole new one."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write ``value`` as JSON, atomically."""
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def make_readable_directories(directory: Path) -> None:
    """Make ``directory`` and its missing parents open to read, whatever the umask is."""
    if not directory.is_dir():
        make_readable_directories(directory.parent)
        directory.mkdir()
        directory.chmod(0o755)


def remove_tree(directory: Path) -> None:
    """Remove ``directory`` with all in it, also while a program that a killed run left still writes there."""
    for _ in range(_TREE_TRIES):
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            if not directory.exists():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
        time.sleep(_TREE_PAUSE_SECONDS)
    shutil.rmtree(directory)


def remove_empty(directory: Path) -> None:
    """Remove ``directory`` if it is there and empty."""
    with suppress(FileNotFoundError):
        try:
            directory.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EBUSY):
                raise
