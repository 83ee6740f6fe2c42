"""Runs that go on without their terminal: a process of its own; its output is kept in the run's record."""

from __future__ import annotations

import io
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.errors import StateError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import TextIO

    from _typeshed import ReadableBuffer as Buffer

__all__ = ["OUTPUT", "Background", "Launch", "add_detach", "launch", "leave"]

OUTPUT = "output.log"
"""What a run in the background prints, in its record's directory."""


class Background:
    """The process in the background; whoever started it waits for :meth:`arrived`."""

    def __init__(self, signal_end: int) -> None:
        self._signal_end = signal_end

    def arrived(self) -> None:
        """Say that the run has begun and can be followed: its starter may go."""
        os.write(self._signal_end, b"+")
        os.close(self._signal_end)


class _Output(io.FileIO):
    """The kept output: once it cannot be written any more, the run goes on without it."""

    def write(self, data: Buffer, /) -> int:
        """Write; what a full disk does not take is dropped."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def _stream(handle: int) -> TextIO:
    output = io.BufferedWriter(_Output(handle, "w", closefd=False))
    return io.TextIOWrapper(output, encoding="utf-8", errors="replace", line_buffering=True)


@dataclass(frozen=True)
class Launch:
    """A run about to begin under this name; ``gone`` where it does so in another process."""

    run: str
    background: Background | None = None
    gone: bool = False

    def arrived(self) -> None:
        """Say that the run has begun, where somebody waits for that."""
        if self.background is not None:
            self.background.arrived()


def add_detach(parser: argparse.ArgumentParser) -> None:
    """Add the option that has a run go on in the background."""
    parser.add_argument(
        "--detach", action="store_true", help="go on in the background; see: nidome runs attach"
    )


def launch(args: argparse.Namespace) -> Launch:
    """Give the run a name, and with ``--detach`` a process of its own; the one that stays says how to follow.

    To be called when all that a person may be asked has been asked.
    """
    from nidome.prove.records import new_run_id, runs_directory  # noqa: PLC0415 - not needed for --help

    run = new_run_id()
    if not args.detach:
        return Launch(run)
    background = leave(runs_directory() / run)
    if background is None:
        print(f"run {run} goes on in the background; follow it with: nidome runs attach {run}")
    return Launch(run, background, gone=background is None)


def leave(record: Path) -> Background | None:
    """Go on in a process without a terminal; return it there, and None in the one that was called.

    That one returns when the run has begun. Raises StateError where it ended before.
    """
    output = _output(record)
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _become_own_session(output)
        return Background(write)
    os.close(write)
    os.close(output)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as begun:
        if begun.read(1) != b"+":
            raise _ended(record)
    return None


def _output(record: Path) -> int:
    try:
        record.mkdir(parents=True, mode=0o700, exist_ok=True)
        return os.open(record / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except OSError as error:
        raise StateError(
            "record-unwritable",
            f"the run's output cannot be kept: {error.strerror}",
            where=str(record),
            hint="free space, or point NIDOME_STATE_DIR elsewhere",
        ) from None


def _become_own_session(output: int) -> None:
    """Leave terminal, session and process group: what ends those ends this no more."""
    os.setsid()
    # The first child of a session could get a terminal again; its own child cannot.
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.stdout, sys.stderr = _stream(1), _stream(2)


def _ended(record: Path) -> StateError:
    try:
        said = (record / OUTPUT).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        said = ""
    return StateError(
        "run-not-begun",
        said or "the run ended before it began",
        where=str(record / OUTPUT),
        hint="run it without --detach",
    )
