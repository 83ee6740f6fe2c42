"""Read the files a person names: whole, bounded, as UTF-8 text, and without waiting for what never comes.

Only regular files are read. Where people hand over a process substitution (``-e @<(…)``, ``--limit @<(…)``, a
vault password), a pipe is read too, for PIPE_SECONDS at most.
"""

from __future__ import annotations

import os
import select
import stat
import time
from typing import TYPE_CHECKING, NoReturn

from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_BYTES", "PIPE_SECONDS", "decode", "fail", "is_executable", "read_bytes", "read_text"]

MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is read: far above any declaration, far below what would hold a machine up."""

PIPE_SECONDS = 60
"""How long the writer of a pipe may take: it may ask a person for a passphrase."""

_CHUNK = 1 << 16
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def fail(code: str, message: str, file: str, line: int = 0, hint: str = "") -> NoReturn:
    """Raise a DeclarationError at ``file:line``."""
    step = hint or "correct it and run again; docs/inventory.md says what the files may hold"
    raise DeclarationError(code, message, where=f"{file}:{line}" if line else file, hint=step)


def is_executable(path: Path) -> bool:
    """Tell whether it is a regular file whose mode lets anybody execute it."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def read_text(path: Path, shown: str = "", *, pipes: bool = False, limit: int = MAX_BYTES) -> str:
    """Return a file's text; ``shown`` is the name it has in errors (the path by default)."""
    return decode(read_bytes(path, shown, pipes=pipes, limit=limit), shown or str(path))


def read_bytes(path: Path, shown: str = "", *, pipes: bool = False, limit: int = MAX_BYTES) -> bytes:
    """Return a file's content, of a pipe only with ``pipes``; an error for everything that is no file."""
    file = shown or str(path)
    try:
        _require_kind(os.stat(path).st_mode, file, pipes=pipes)  # noqa: PTH116 - before it is opened: a device may act on that
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            mode = os.fstat(handle).st_mode
            _require_kind(mode, file, pipes=pipes)
            deadline = time.monotonic() + PIPE_SECONDS if stat.S_ISFIFO(mode) else None
            data = _read(handle, file, limit=limit, deadline=deadline)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        fail("file-unreadable", f"the file cannot be read: {reason}", file)
    if len(data) > limit:
        fail("file-too-large", f"the file is larger than {limit // 1024 // 1024} MiB", file)
    return data


def _require_kind(mode: int, file: str, *, pipes: bool) -> None:
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    hint = "name a file; a pipe is read only as -e @PIPE, as --limit @PIPE or as the vault password"
    fail(
        "file-irregular",
        f"it is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, not a regular file",
        file,
        0,
        hint,
    )


def _read(handle: int, file: str, *, limit: int, deadline: float | None) -> bytes:
    """Read until the end or until it is too much; only a pipe is waited for, and only until its deadline."""
    data = bytearray()
    while len(data) <= limit:
        if (
            deadline is not None
            and not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]
        ):
            hint = "its writer must close it; or name a file"
            fail("pipe-timeout", f"the pipe did not end within {PIPE_SECONDS} s", file, 0, hint)
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            if deadline is not None:
                continue
            fail(
                "file-irregular", "it has no end: reading would wait for more", file, 0, "name a regular file"
            )
        if not chunk:
            break
        data += chunk
    return bytes(data)


def decode(data: bytes, file: str) -> str:
    """Return the text of a file's bytes; an error with the line of the first byte that is no UTF-8 text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fail("not-utf8", "the file is not UTF-8 text", file, line, "save it with the encoding UTF-8")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        hint = "save it with the encoding UTF-8"
        fail("not-utf8", "it holds a NUL, as UTF-16 text and binary files do", file, line, hint)
    return text
