"""Keep a template within bounds: loop steps, sizes, processor time and memory.

What can be counted is counted (steps, sizes), so that the message says what was too much. What cannot (a
regular expression, a filter that builds a text) is ended by the kernel: a timer of processor time, which only
works in the main thread, and a limit on the address space.
"""

from __future__ import annotations

import resource
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.declare.templating.problems import OutOfBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["MAX_ITEMS", "MAX_STEPS", "MAX_TEXT", "OPERATIONS", "Guard", "check_text", "guarded", "unrolled"]

MAX_STEPS = 200_000
"""Rounds of all loops and calls of all macros of one value."""

MAX_TEXT = 4 * 1024 * 1024
"""Characters of a text."""

MAX_ITEMS = 200_000
"""Items of a list."""

_MAX_BITS = 65_536  # of a number
_SECONDS = 2.0  # of processor time for one value
_MEMORY = 1024**3  # on top of what the process has


def _wrong(what: str, most: int) -> OutOfBounds:
    return OutOfBounds(f"the template makes {what}: more than {most:,}", "write the value itself")


def check_text(text: str) -> str:
    """Return the text; OutOfBounds where it is longer than any value."""
    if len(text) > MAX_TEXT:
        raise _wrong("a very long text", MAX_TEXT)
    return text


def unrolled(items: Iterable[Any]) -> list[Any]:
    """Return the items as a list; OutOfBounds where there are too many."""
    found: list[Any] = []
    for item in items:
        if len(found) == MAX_ITEMS:
            raise _wrong("a very long list", MAX_ITEMS)
        found.append(item)
    return found


def _times(left: Any, right: Any) -> Any:
    for part, count in ((left, right), (right, left)):
        if isinstance(part, str | bytes | list | tuple) and isinstance(count, int):
            if len(part) * count > MAX_ITEMS:
                raise _wrong("a very long repetition", MAX_ITEMS)
            return left * right
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    return left * right


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * max(right, 0))
    return left**right


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str) and len(left) + len(right) > MAX_TEXT:
        raise _wrong("a very long text", MAX_TEXT)
    if isinstance(left, list) and isinstance(right, list) and len(left) + len(right) > MAX_ITEMS:
        raise _wrong("a very long list", MAX_ITEMS)
    return left + right


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise _wrong("a very large number, in bits", _MAX_BITS)


OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {"*": _times, "**": _power, "+": _plus}
"""The operators whose results can be far larger than what they are given."""


class Guard:
    """Limits of processor time and memory, set up once; ``value`` is entered for each value."""

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed

    @contextmanager
    def value(self) -> Iterator[None]:
        """Limit what runs inside; OutOfBounds where a limit is met."""
        if self._timed:
            # Again and again: what runs may catch the first one.
            signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS, _SECONDS / 5)
        try:
            yield
        except MemoryError:
            hint = "write the value itself"
            raise OutOfBounds("the template needs more memory than any value has", hint) from None
        finally:
            if self._timed:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def guarded() -> Iterator[Guard]:
    """Set up the limits for all values that are rendered inside."""
    timed = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGVTALRM, _too_long) if timed else None
    try:
        with _memory():
            yield Guard(timed=timed)
    finally:
        if timed:
            signal.signal(signal.SIGVTALRM, before)


def _too_long(_signal: int, _frame: object) -> None:
    hint = "write the value itself"
    raise OutOfBounds(f"the template needs more than {_SECONDS:g} seconds of processor time", hint)


@contextmanager
def _memory() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    present = _address_space()
    most = present + _MEMORY
    if not present or (soft != resource.RLIM_INFINITY and soft < most):
        yield
        return
    with suppress(
        OSError, ValueError
    ):  # a system that has no such limit: what can be counted is counted still
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Return the bytes of this process's address space, 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 0
    return pages * resource.getpagesize()
