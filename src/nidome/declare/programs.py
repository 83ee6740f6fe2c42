"""Run a program that a declaration names: a dynamic inventory, a vault password script.

It is bounded in time (NIDOME_PROGRAM_TIMEOUT seconds, 60 by default) and in what it may print. A program that
runs over is ended with everything it started.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from nidome.declare.files import MAX_BYTES, fail
from nidome.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run_program"]

_DEFAULT_SECONDS = 60.0
_CHUNK = 1 << 16
_SHOWN = 300


def run_program(path: Path, *words: str, interactive: bool = False) -> bytes:
    """Return what a program prints; an error with its name where it fails, hangs or prints too much.

    With ``interactive`` it keeps the terminal, so that it can ask a person.
    """
    seconds = _seconds()
    # A session of its own makes it killable as a whole; one that asks a person needs the terminal it has.
    try:
        process = subprocess.Popen(
            [str(path.absolute()), *words],
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "give it a first line such as #!/bin/sh; if it is no program: chmod -x"
        fail("program-failed", f"the program cannot be started: {reason}", str(path), 0, hint)
    try:
        out, err = _collect(process, time.monotonic() + seconds, str(path))
    finally:
        _end(process, group=not interactive)
    if process.returncode:
        said = _last_line(err)
        message = f"the program ended with {process.returncode}{': ' + said if said else ''}"
        fail("program-failed", message, str(path), 0, f"run it by hand: {' '.join([str(path), *words])}")
    return out


def _seconds() -> float:
    given = os.environ.get("NIDOME_PROGRAM_TIMEOUT", "")
    try:
        seconds = float(given or _DEFAULT_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 24 * 3600:
        raise UsageError(
            "program-timeout-invalid",
            f"'{given}' is not a number of seconds",
            where="NIDOME_PROGRAM_TIMEOUT",
            hint="set it to a number such as 120, or unset it",
        )
    return seconds


def _collect(process: subprocess.Popen[bytes], deadline: float, file: str) -> tuple[bytes, bytes]:
    """Read both outputs until they are closed and the program has ended."""
    found: dict[object, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in filter(None, (process.stdout, process.stderr)):
            found[stream] = bytearray()
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                _too_slow(file)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                found[key.fileobj] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                if len(found[key.fileobj]) > MAX_BYTES:
                    message = f"the program printed more than {MAX_BYTES // 1024 // 1024} MiB"
                    fail("program-output", message, file, 0, "make it print less")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _too_slow(file)
    return bytes(found[process.stdout]), bytes(found.get(process.stderr, b""))


def _too_slow(file: str) -> NoReturn:
    hint = "run it by hand; if it needs longer: NIDOME_PROGRAM_TIMEOUT=SECONDS"
    fail("program-timeout", f"the program did not end within {_seconds():g} s", file, 0, hint)


def _end(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """Leave nothing behind: neither the program, nor in a group of its own what it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        process.wait()
    for stream in filter(None, (process.stdout, process.stderr)):
        stream.close()


def _last_line(err: bytes) -> str:
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return "".join(c if c.isprintable() else "?" for c in lines[-1][:_SHOWN]) if lines else ""
