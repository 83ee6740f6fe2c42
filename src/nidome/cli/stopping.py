"""Ctrl-C and SIGTERM: both end a command the same way, with a word, a next step and the shell's exit code."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NoReturn

from nidome.errors import StateError

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Terminated", "heed_termination", "stopped"]

_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that a command ended by."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: whatever cleans up after Ctrl-C does so after this."""


def heed_termination() -> None:
    """Have SIGTERM raise Terminated in the main thread."""
    signal.signal(signal.SIGTERM, _raise)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise Terminated


def stopped(stop: KeyboardInterrupt, hint: str) -> StateError:
    """Return what is told of a command that a signal has ended; its exit code is 130 or 143."""
    if isinstance(stop, Terminated):
        error = StateError("terminated", "ended by SIGTERM", hint=hint)
        error.exit_code = _BY_SIGNAL + signal.SIGTERM
    else:
        error = StateError("interrupted", "ended by Ctrl-C (SIGINT)", hint=hint)
        error.exit_code = _BY_SIGNAL + signal.SIGINT
    return error
