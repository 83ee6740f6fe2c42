"""Units that keep ending: systemd starts them again each time, so every look finds them on their way up."""

from __future__ import annotations

import time
from typing import Dict

__all__ = ["STEADY_SECONDS", "keeps_ending", "restarts", "seconds_up"]

_TOLERATED = 3

STEADY_SECONDS = 10.0
"""A process that has lived so long did not fail at its start."""


def restarts(shown: Dict[str, str]) -> int:
    """Return how often systemd has restarted a unit by itself; ``shown`` is what ``systemctl show`` says."""
    return int(shown.get("NRestarts") or 0)


def seconds_up(shown: Dict[str, str]) -> float:
    """Return how long ago the unit's main process was started, 0 where it never was."""
    started = int(shown.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    return time.monotonic() - started if started else 0.0


def keeps_ending(shown: Dict[str, str]) -> bool:
    """Tell whether a unit was restarted so often that its next start is no reason to wait for it."""
    return restarts(shown) >= _TOLERATED
