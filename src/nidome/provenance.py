"""Where a value came from.

A :class:`Sourced` value travels with its :class:`Origin` from the file it was written in to the planned
change it causes, so that ``because``, ``why`` and every error's file:line have one source.
Standard library only, Python 3.9: plans that hosts see carry origins too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["DEFAULT", "Origin", "Sourced"]

T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """The layer a value was taken from, with file and line where it was written.

    ``layer`` is a word such as ``default``, ``group_vars/all``, ``host_vars/node1`` or ``command line``;
    ``line`` counts from 1, 0 where there is no line.
    """

    layer: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """Return ``file:line`` where there is a file, else the layer."""
        if not self.file:
            return self.layer
        return f"{self.file}:{self.line}" if self.line else self.file


DEFAULT = Origin("default")


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value with its origin, and the names of the variables that its template has used, if it was one.

    ``secrets`` are texts in it that were encrypted: it is never shown then.
    """

    value: T
    origin: Origin = DEFAULT
    uses: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
