"""Show what takes long: what it is, how far it is, how long it has taken.

Nothing is shown for what ends within three seconds. After that a terminal gets a live line per item
(rich, imported only then), and anything else a plain line per item every eight seconds or so.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Item", "Progress", "duration", "size"]

QUIET_SECONDS = 3.0
LINE_SECONDS = 8.0
_TICK_SECONDS = 0.25
_UNITS = ("B", "KiB", "MiB", "GiB")
_STEP = 1024
_MINUTE = 60


def size(count: float) -> str:
    """Return a number of bytes for people, such as ``12.3 MiB``."""
    unit = 0
    while count >= _STEP and unit < len(_UNITS) - 1:
        count /= _STEP
        unit += 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{int(count)} B"


def duration(seconds: float) -> str:
    """Return seconds for people, such as ``42 s`` or ``3 min 07 s``."""
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"


class Item:
    """One thing in progress. ``unit`` is ``bytes`` or a plural such as ``packages``; total 0 is unknown.

    ``outcome`` is the word for how it ended, for who knows of a failure that is no exception here.
    """

    def __init__(self, what: str, *, total: int, unit: str, started: float) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.done = 0
        self.note = ""
        self.outcome = "done"
        self.started = started
        self.shown: float | None = None

    def advance(self, count: int = 1) -> None:
        """Say that ``count`` more units are done."""
        self.done += count

    def update(self, *, done: int | None = None, total: int | None = None, note: str | None = None) -> None:
        """Set how far it is, how much there is, or what is happening just now."""
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note

    def far(self) -> str:
        """Return how far it is, "" where that cannot be said."""
        if not (self.done or self.total):
            return self.note
        amount = _amount(self.done, self.total, self.unit)
        return f"{amount}, {self.note}" if self.note else amount


def _amount(done: int, total: int, unit: str) -> str:
    if unit == "bytes":
        return f"{size(done)} of {size(total)}" if total else size(done)
    return f"{done} of {total} {unit}" if total else f"{done} {unit}"


class _View(Protocol):
    def show(self, item: Item, now: float) -> None: ...

    def end(self, item: Item, now: float, outcome: str) -> None: ...

    def close(self) -> None: ...


class _Lines:
    """Plain lines, for a log or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, item: Item, now: float) -> None:
        if item.shown is not None and now - item.shown < LINE_SECONDS:
            return
        item.shown = now
        far = item.far()
        self._say(f"{item.what}: {far + ', ' if far else ''}{duration(now - item.started)}")

    def end(self, item: Item, now: float, outcome: str) -> None:
        if item.shown is not None:
            self._say(f"{item.what}: {outcome} after {duration(now - item.started)}")

    def close(self) -> None:
        """Nothing is held open."""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _Live:
    """Live lines on a terminal; rich is imported when the first item is old enough to be shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rich: RichProgress | None = None
        self._ids: dict[int, TaskID] = {}

    def show(self, item: Item, now: float) -> None:
        rich = self._rich or self._open()
        if id(item) not in self._ids:
            self._ids[id(item)] = rich.add_task(item.what, far="", took="")
        item.shown = now
        rich.update(
            self._ids[id(item)],
            total=item.total or None,
            completed=item.done,
            far=item.far(),
            took=duration(now - item.started),
            refresh=True,
        )

    def end(self, item: Item, now: float, outcome: str) -> None:
        task = self._ids.pop(id(item), None)
        if task is not None and self._rich is not None:
            self._rich.remove_task(task)
            line = f"{item.what}: {outcome} after {duration(now - item.started)}"
            self._rich.print(line, markup=False, highlight=False)
            self._rich.refresh()

    def close(self) -> None:
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def _open(self) -> RichProgress:
        from rich.console import Console  # noqa: PLC0415 - costs 60 ms, and only a long run pays it
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - as above

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[far]}", markup=False),
            TextColumn("{task.fields[took]}", markup=False),
        )
        console = Console(file=self._stream)
        self._rich = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._rich.start()
        return self._rich


class Progress:
    """Collects items and shows those older than three seconds. Safe to use from several threads.

    ``Progress()`` writes to standard error and finds out whether that is a terminal;
    ``Progress.silent()`` shows nothing. ``clock`` is for tests, which then call :meth:`tick`.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or time.monotonic
        self._ticks_itself = clock is None
        self._items: list[Item] = []
        self._lock = threading.Lock()
        self._view: _View = _Live(self._stream) if self._stream.isatty() else _Lines(self._stream)
        self._quiet = False
        self._ticker: threading.Thread | None = None

    @classmethod
    def silent(cls) -> Progress:
        """Return one that never writes."""
        progress = cls()
        progress._quiet = True
        return progress

    @contextmanager
    def item(self, what: str, *, total: int = 0, unit: str = "bytes") -> Iterator[Item]:
        """Show ``what`` while the block runs, once that takes more than three seconds."""
        item = Item(what, total=total, unit=unit, started=self._clock())
        self._begin(item)
        outcome = "failed"
        try:
            yield item
            outcome = item.outcome
        finally:
            self._finish(item, outcome)

    def tick(self) -> None:
        """Show what is old enough by now; called by a thread of its own unless a clock was given."""
        now = self._clock()
        with self._lock:
            for item in self._items:
                if now - item.started > QUIET_SECONDS:
                    self._view.show(item, now)

    def _begin(self, item: Item) -> None:
        if self._quiet:
            return
        with self._lock:
            self._items.append(item)
            if self._ticks_itself and self._ticker is None:
                self._ticker = threading.Thread(target=self._run, name="progress", daemon=True)
                self._ticker.start()

    def _finish(self, item: Item, outcome: str) -> None:
        with self._lock:
            if item not in self._items:
                return
            self._items.remove(item)
            self._view.end(item, self._clock(), outcome)
            if not self._items:
                self._view.close()

    def _run(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            with self._lock:
                if not self._items:
                    self._ticker = None
                    return
            self.tick()
