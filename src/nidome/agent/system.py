"""Small operations on the host: run a program, write a file whole or not at all, hash, name owners."""

from __future__ import annotations

import contextlib
import errno
import functools
import grp
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from typing import IO, Iterator, List, Optional, Sequence, Tuple

from nidome.errors import ResourceError

__all__ = [
    "DIRECTORY",
    "TEMPORARY",
    "identity",
    "mode_of",
    "open_file",
    "owner_of",
    "read_text",
    "replaced",
    "run",
    "sha256_file",
    "state_of",
    "sweep",
    "sweep_work",
    "work_directory",
    "write_whole",
]

TEMPORARY = ".nidome-tmp"
"""Suffix of files under construction; a name so marked belongs to nobody once no agent runs."""

RUN = "/run"
WORK = "nidome-work-"
DIRECTORY = "/etc/systemd/system"
"""Where unit files of this host's own are."""

_CHUNK = 1 << 20


def run(
    arguments: Sequence[str], *, check: bool = True, stdin: Optional[bytes] = None, timeout: float = 120
) -> str:
    """Run a program without a shell and return its output; raise ResourceError with its last words."""
    try:
        done = subprocess.run(list(arguments), input=stdin, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError:
        raise ResourceError(
            "program-missing",
            f"the program '{arguments[0]}' is not on this host",
            hint="run `nidome apply` again",
        ) from None
    except subprocess.TimeoutExpired:
        raise ResourceError(
            "program-timeout",
            f"'{' '.join(arguments[:3])}' took over {timeout:.0f} s",
            hint="see what it waits for on the host, then run this again",
        ) from None
    if check and done.returncode != 0:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-3:]
        raise ResourceError(
            "program-failed",
            f"'{' '.join(arguments[:4])}' exited {done.returncode}: {' / '.join(words)}",
            hint="try it on the host, then run this again",
        )
    return done.stdout.decode(errors="replace")


@contextlib.contextmanager
def replaced(path: str, mode: int, owner: str = "root", group: str = "root") -> Iterator[IO[bytes]]:
    """Give a file to write to that takes the place of ``path`` when the block ends without an error.

    The temporary name follows from ``path``, so that one left by a kill is overwritten by the next run.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}{TEMPORARY}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            os.fchmod(out.fileno(), mode)
            uid, gid = identity(owner, group)
            if (uid, gid) != (os.geteuid(), os.getegid()):
                os.fchown(out.fileno(), uid, gid)
            yield out
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def identity(owner: str, group: str) -> Tuple[int, int]:
    """Return the numbers of a user and a group of this host; raise ResourceError where there is none."""
    try:
        return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    except KeyError:
        raise ResourceError(
            "owner-unknown",
            f"the host has no user {owner} or no group {group}",
            hint="create them on the host, or declare another owner",
        ) from None


def write_whole(path: str, content: bytes, mode: int, *, durable: bool = False) -> None:
    """Write a file that is there whole or not at all; ``durable`` survives a power cut too."""
    with replaced(path, mode) as out:
        out.write(content)
        if durable:
            out.flush()
            os.fsync(out.fileno())


def sweep(directories: Sequence[str]) -> None:
    """Remove files under construction that a killed run left in these directories."""
    for directory in directories:
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                if name.endswith(TEMPORARY):
                    os.unlink(os.path.join(directory, name))


@contextlib.contextmanager
def work_directory() -> Iterator[str]:
    """Give a directory in memory that only root reads, for keys under construction."""
    path = tempfile.mkdtemp(prefix=f"{WORK}{os.getpid()}-", dir=RUN)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sweep_work() -> None:
    """Remove what killed agents left in memory: keys under construction, and their own code."""
    for name in os.listdir(RUN):
        found = re.match(r"nidome-(?:work|agent)-(\d+)-", name)
        if found and not os.path.exists(f"/proc/{found.group(1)}"):
            shutil.rmtree(os.path.join(RUN, name), ignore_errors=True)


def sha256_file(path: str) -> str:
    """Return the sha256 of a file's content in hex."""
    digest = hashlib.sha256()
    with open_file(path) as source:
        while True:
            block = source.read(_CHUNK)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def _open_now(path: str, flags: int) -> int:
    # Something may have put a pipe in a file's place: opening that would wait for a writer for ever.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def open_file(path: str) -> IO[bytes]:
    """Open a file for reading; a pipe, a socket or a device reads as empty instead of waiting."""
    try:
        source = open(path, "rb", opener=_open_now)  # noqa: SIM115 - closed by the caller
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return open(os.devnull, "rb")  # a socket
    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        source.close()
        return open(os.devnull, "rb")
    return source


_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)
"""No such file; ENODEV is a cgroup or a device that went between the opening and the reading."""


def read_text(path: str) -> Optional[str]:
    """Return a file's text, or None where there is no such file."""
    try:
        with open_file(path) as source:
            return source.read().decode(errors="replace")
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def state_of(path: str) -> str:
    """Return a path's mode and owner in a word each; what is no plain file is called what it is."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    if stat.S_ISLNK(status.st_mode):
        return f"a link to {os.readlink(path)}"
    if not stat.S_ISREG(status.st_mode):
        return "no file"
    return f"{mode_of(status)} {':'.join(owner_of(status))}"


def mode_of(status: os.stat_result) -> str:
    """Return permission bits the way people write them, such as ``0640``."""
    return f"{stat.S_IMODE(status.st_mode):04o}"


@functools.lru_cache(maxsize=256)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@functools.lru_cache(maxsize=256)
def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner_of(status: os.stat_result) -> List[str]:
    """Return the user and group a file belongs to, by name."""
    return [_user(status.st_uid), _group(status.st_gid)]
