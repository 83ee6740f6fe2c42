"""``nidome runs attach``: follow a run's output from its beginning to its end, and end as it ended."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from nidome.cli.ansible_output import AnsibleView
from nidome.cli.background import OUTPUT
from nidome.cli.views import view
from nidome.errors import NidomeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

    from nidome.events import Event
    from nidome.prove.records import Record

__all__ = ["attach", "replay"]

_SECONDS = 0.1
_INTERRUPTED = 130


def attach(run: str) -> int:
    """Show what a run printed and prints; return its exit code, 130 where the looking on was interrupted."""
    from nidome.prove.records import exit_code, find  # noqa: PLC0415 - not needed for --help

    record = find(run)
    kept = record.path / OUTPUT
    try:
        _copy(kept, record) if kept.exists() else _render(record)
    except KeyboardInterrupt:
        print(f"\nthe run goes on; look on again with: nidome runs attach {record.run}", file=sys.stderr)
        return _INTERRUPTED
    meta = find(record.run).meta
    if meta["status"] == "killed":
        print(f"the run was killed; nidome runs show {record.run} tells how far it got", file=sys.stderr)
    return exit_code(meta)


def _copy(path: Path, record: Record) -> None:
    """Copy the kept output as it grows."""
    from nidome.prove.records import lives  # noqa: PLC0415 - not needed for --help

    for line in _lines(path, lambda: lives(record.meta)):
        sys.stdout.write(line)
        sys.stdout.flush()


def _render(record: Record) -> None:
    """Show the events of a run that has its output elsewhere: the way its own command would."""
    from nidome.events import RunStarted  # noqa: PLC0415 - not needed for --help

    if not (record.path / "events.jsonl").exists():
        record.require_whole()
    show: Callable[..., None] | None = None
    for line in _lines(record.path / "events.jsonl", lambda: _running(record)):
        event = _event(line)
        if isinstance(event, RunStarted):
            show = view("ansible" if event.command[1:2] == ("playbook",) else None)
        if event is not None and show is not None:
            show(event)
    if record.meta["status"] in ("ok", "failed"):
        sys.stdout.flush()
        record.require_whole()
    meta = record.meta
    if meta.get("error"):
        error = meta["error"]
        told = NidomeError(
            error["code"], error["message"], where=error.get("where", ""), hint=error.get("hint", "")
        )
        print(told.render(), file=sys.stderr)


def _event(line: str) -> Event | None:
    """Return the event of a record's line; None for one that is damaged, or of a later release."""
    from nidome.events import from_json  # noqa: PLC0415 - not needed for --help

    try:
        data = json.loads(line)
        return from_json(data) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        return None


def _lines(path: Path, goes_on: Callable[[], bool]) -> Iterator[str]:
    """Give the lines of a file that a run writes, until that goes on no more and all is read.

    A last line without an end is given when nothing will be added to it any more, unless it is torn JSON.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as source:
        begun = ""
        while True:
            ended = not goes_on()
            while piece := source.readline():
                begun += piece
                if begun.endswith("\n"):
                    yield begun
                    begun = ""
            if ended:
                break
            time.sleep(_SECONDS)
        if begun and path.name == OUTPUT:
            yield begun


def _running(record: Record) -> bool:
    from nidome.prove.records import find  # noqa: PLC0415 - not needed for --help

    record.meta.update(find(record.run).meta)
    return bool(record.meta["status"] == "running")


def replay(record: Record, out: TextIO, errors: TextIO | None = None) -> None:
    """Print a recorded run the way ansible-playbook would have; its warnings to ``errors``."""
    show = AnsibleView(out, errors=errors)
    for data in record.events():
        event = _event(json.dumps(data))
        if event is not None:
            show(event)
