"""Measuring: repeat, take the median, and hold it against a target."""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Figure", "peak_memory", "table", "timed"]


@dataclass
class Figure:
    """One line of the table: the samples, and the target as people wrote it."""

    name: str
    unit: str
    target: str = ""
    samples: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        return {
            "name": self.name,
            "unit": self.unit,
            "target": self.target,
            "median": self.median,
            "samples": self.samples,
            "note": self.note,
        }

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        spread = f"{min(self.samples):.2f}–{max(self.samples):.2f}"
        return f"| {self.name} | {self.median:.2f} {self.unit} | {spread} | {len(self.samples)} | {self.target} | {self.note} |"


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_memory(command: Sequence[str], **options: Any) -> float:
    """Run a command and return its own peak resident memory in MB, as GNU time's %M counts it."""
    script = "import resource,subprocess,sys; s=subprocess.call(sys.argv[1:],stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(s)"
    import sys  # noqa: PLC0415 - the interpreter's path only

    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=True, **options
    )
    return int(done.stdout.split()[-1]) / 1000


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    head = ["| figure | median | spread | runs | target | note |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *(f.row() for f in figures)])
