from __future__ import annotations

import io
import subprocess
import sys

import pytest

from nidome.progress import Progress, duration, size


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still until it is set."""
    return Clock()


@pytest.fixture
def stream() -> io.StringIO:
    """Return what is written to, which is no terminal."""
    return io.StringIO()


def test_short_work_is_not_shown(clock: Clock, stream: io.StringIO) -> None:
    """What ends within three seconds leaves no line."""
    progress = Progress(stream, clock=clock)
    with progress.item("fetch"):
        clock.now += 2.9
        progress.tick()
    assert stream.getvalue() == ""


def test_long_work(clock: Clock, stream: io.StringIO) -> None:
    """Longer work says what it is, how far it is, how long it has taken, and that it is done."""
    progress = Progress(stream, clock=clock)
    with progress.item("download kubelet", total=4 << 20) as item:
        item.advance(1 << 20)
        clock.now += 3.5
        progress.tick()
        clock.now += 70
    assert stream.getvalue().splitlines() == [
        "download kubelet: 1.0 MiB of 4.0 MiB, 3 s",
        "download kubelet: done after 1 min 13 s",
    ]


def test_lines_are_rare(clock: Clock, stream: io.StringIO) -> None:
    """Without a terminal an item has at most one line in eight seconds, however often it moves."""
    progress = Progress(stream, clock=clock)
    with progress.item("build", total=100, unit="packages") as item:
        for _ in range(200):
            clock.now += 0.1
            item.advance()
            progress.tick()
        lines = stream.getvalue().splitlines()
    assert [line.rpartition(", ")[2] for line in lines] == ["3 s", "11 s", "19 s"]


def fail(progress: Progress, clock: Clock) -> None:
    """Do four seconds of work that come to nothing."""
    with progress.item("build") as item:
        item.update(note="linking")
        clock.now += 4
        progress.tick()
        item.advance(1 // 0)


def test_failure(clock: Clock, stream: io.StringIO) -> None:
    """Work that fails after it was shown is said to have failed."""
    progress = Progress(stream, clock=clock)
    with pytest.raises(ZeroDivisionError):
        fail(progress, clock)
    assert stream.getvalue().splitlines() == ["build: linking, 4 s", "build: failed after 4 s"]


def test_several_items(clock: Clock, stream: io.StringIO) -> None:
    """Items that run at the same time have lines of their own."""
    progress = Progress(stream, clock=clock)
    with progress.item("a"):
        clock.now += 2
        with progress.item("b"):
            clock.now += 2
            progress.tick()
            clock.now += 2
            progress.tick()
    assert [line.partition(":")[0] for line in stream.getvalue().splitlines()] == ["a", "b", "b", "a"]


def test_silent() -> None:
    """A silent one accepts everything and needs no thread."""
    progress = Progress.silent()
    with progress.item("x") as item:
        item.advance()
        progress.tick()
    assert progress._ticker is None


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the live view is used; brackets in a name are text, not markup."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    progress = Progress(stream, clock=clock)
    with progress.item("fetch [red]x", total=10, unit="files") as item:
        item.advance(4)
        clock.now += 5
        progress.tick()
    assert "fetch [red]x" in stream.getvalue()
    assert "4 of 10 files" in stream.getvalue()
    assert "fetch [red]x: done after 5 s" in stream.getvalue()


def test_rich_is_not_imported_for_short_work() -> None:
    """Making and using a progress view does not import rich while nothing takes long."""
    code = (
        "import sys\nfrom nidome.progress import Progress\n"
        "with Progress().item('x') as item: item.advance()\n"
        "print('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 43, "8192.0 GiB")],
)
def test_size(count: int, text: str) -> None:
    """Bytes are given in the largest unit that is not more than they are."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (754, "12 min 34 s")]
)
def test_duration(seconds: float, text: str) -> None:
    """Seconds are given in whole seconds, with minutes from one minute on."""
    assert duration(seconds) == text
