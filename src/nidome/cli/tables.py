"""Plain tables and times for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ago", "duration", "stamp", "table"]

_STEPS = ((86400, "d"), (3600, "h"), (60, "min"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "") -> str:
    """Return rows under a head in columns as wide as what they hold."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )
    return "\n".join((indent + line).rstrip() for line in padded)


def stamp(at: float) -> str:
    """Return seconds since the epoch as a UTC time."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))


def ago(seconds: float) -> str:
    """Return how long something has been, in its largest unit."""
    whole = max(0, int(seconds))
    for size, name in _STEPS:
        if whole >= size:
            return f"{whole // size} {name}"
    return f"{whole} s"


def duration(seconds: float | None) -> str:
    """Return how long something took, "" where it has not ended."""
    return "" if seconds is None else f"{seconds:.1f} s"
