"""Run records: every run leaves its command, declaration, plan, events, recap and durations.

A record is a directory ``<state>/runs/<run>`` on the control machine: ``events.jsonl``, one event a line as
they happened, and ``meta.json`` from the first event on, so that a killed run has a record too.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from nidome.errors import StateError
from nidome.events import RunFinished, RunStarted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nidome.events import Event

__all__ = [
    "Record",
    "Recorder",
    "exit_code",
    "find",
    "last_of",
    "listing",
    "lives",
    "new_run_id",
    "playbook_exit_code",
    "runs_directory",
]


_ENDED = ("Z", "X")
_FAILED = 2
_UNREACHABLE = 4
_BY_SIGNAL = {"interrupted": 130, "terminated": 143}


_NAMED = 5


def runs_directory() -> Path:
    """Return where records are: ``$NIDOME_STATE_DIR/runs``, else under XDG_STATE_HOME or ~/.local/state."""
    chosen = os.environ.get("NIDOME_STATE_DIR")
    if chosen:
        return Path(chosen) / "runs"
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "nidome" / "runs"


def new_run_id() -> str:
    """Return a name for a run that sorts by time and is not used twice."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"


def _private(path: Path, flag: int) -> TextIO:
    """Open a file of a record to write to: whatever it says, others than its owner need not read it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8")


class Recorder:
    """A sink that writes a record as the run goes, for its owner alone. Events hold no secrets."""

    def __init__(self, run: str, directory: Path | None = None) -> None:
        self.path = (directory or runs_directory()) / run
        try:
            # A run in the background has its output there already.
            self.path.mkdir(parents=True, mode=0o700, exist_ok=True)
            self._events = _private(self.path / "events.jsonl", os.O_APPEND)
        except OSError as error:
            raise StateError(
                "record-unwritable",
                f"no run record can be written: {error.strerror}",
                where=str(self.path),
                hint="free space, or point NIDOME_STATE_DIR elsewhere",
            ) from None
        self._meta: dict[str, Any] = {"run": run, "status": "running"}
        self._count = 0
        self.lost = ""
        """Why the record is not whole, "" while it is: a run is not given up for its record."""

    def __call__(self, event: Event) -> None:
        """Write an event down; once that fails, nothing more is written."""
        if self.lost:
            return
        try:
            self._record(event)
        except OSError as error:
            self.lost = error.strerror or str(error)

    def _record(self, event: Event) -> None:
        self._events.write(json.dumps(event.to_json(), default=str) + "\n")
        self._events.flush()
        self._count += 1
        if isinstance(event, RunStarted):
            started = {
                "command": event.command,
                "cluster": event.cluster,
                "hosts": event.hosts,
                "declaration": event.declaration,
                "playbook": event.playbook,
                "scope": event.scope,
            }
            process = {"pid": os.getpid(), "process": _process(os.getpid())}
            self._write({**started, "started": event.at, "version": event.version, **process})
        if isinstance(event, RunFinished):
            # A run that was ended from outside has a recap too, and is no less aborted.
            ended = "ok" if event.ok else "failed"
            self._write(
                {
                    "status": ended if self._meta["status"] == "running" else self._meta["status"],
                    "recap": event.recap,
                    "seconds": event.seconds,
                    "phases": event.phases,
                    "events": self._count,
                }
            )

    def _write(self, news: dict[str, Any]) -> None:
        self._meta.update(news)
        temporary = self.path / ".meta.json"
        with _private(temporary, os.O_TRUNC) as out:
            out.write(json.dumps(self._meta, indent=1, default=str) + "\n")
        temporary.replace(self.path / "meta.json")

    def abort(self, error: dict[str, str]) -> None:
        """Say that the run ended before it could finish."""
        if self._meta["status"] == "running":
            try:
                self._write({"status": "aborted", "error": error})
            except OSError as failure:
                self.lost = failure.strerror or str(failure)

    def close(self) -> None:
        """Close the file of events."""
        with contextlib.suppress(OSError):
            self._events.close()


@dataclass(frozen=True)
class Record:
    """A stored run."""

    run: str
    path: Path
    meta: dict[str, Any]

    def events(self) -> Iterator[dict[str, Any]]:
        """Give the events in order; a torn last line of a killed run is left out."""
        try:
            text = (self.path / "events.jsonl").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                return
            if not isinstance(event, dict) or "type" not in event:
                return
            yield event

    def require_whole(self) -> None:
        """Raise StateError where events of the record are missing or damaged: what it tells is not all."""
        try:
            lines = (self.path / "events.jsonl").read_bytes().splitlines()
        except OSError:
            lines = []
        seen, told = len(list(self.events())), self.meta.get("events", len(lines))
        # A run that was killed may have left its last event half-written.
        torn = int(self.meta["status"] in ("running", "killed"))
        if not lines or seen < len(lines) - torn or len(lines) != told:
            raise StateError(
                "record-damaged",
                f"of the run's {max(told, len(lines))} events {seen} can be read",
                where=str(self.path / "events.jsonl"),
                hint="what is shown is not the whole run; run `nidome plan` to see what is left to do",
            )


def exit_code(meta: Mapping[str, Any]) -> int:
    """Return what a run ended with, or would have: a playbook's as in Ansible, else 0 or 1.

    0 when all went well, 2 where a host failed, 4 where one was out of reach, 130 and 143 where Ctrl-C or
    SIGTERM ended it, 1 for every other end.
    """
    if meta["status"] == "ok":
        return 0
    if meta["status"] == "aborted":
        return _BY_SIGNAL.get(meta.get("error", {}).get("code", ""), 1)
    if meta["status"] != "failed" or meta.get("command", [])[1:2] != ["playbook"]:
        return 1
    return playbook_exit_code(meta["recap"])


def playbook_exit_code(recap: Mapping[str, Mapping[str, int]]) -> int:
    """Return what ansible-playbook ends with after such a recap."""
    if any(counts.get("unreachable") for counts in recap.values()):
        return _UNREACHABLE
    return _FAILED if any(counts.get("failed") for counts in recap.values()) else 0


def listing(directory: Path | None = None) -> list[Record]:
    """Return all records, newest first."""
    root = directory or runs_directory()
    paths = [p for p in root.iterdir() if p.is_dir()] if root.is_dir() else []
    records = [Record(path.name, path, _meta(path)) for path in paths]
    return sorted(records, key=_when, reverse=True)


def _when(record: Record) -> tuple[str, float, str]:
    """Return what records are ordered by: ids tell seconds, the time of the first event tells more."""
    return record.run.partition("-")[0], float(record.meta.get("started") or 0), record.run


def _meta(path: Path) -> dict[str, Any]:
    meta: dict[str, Any] | None
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        meta = None
    if meta is None or not _is_meta(meta):
        return {"run": path.name, "status": "unreadable"}
    meta["run"] = path.name
    if meta["status"] == "running" and _process(meta.get("pid", 0)) != meta.get("process", ""):
        meta["status"] = "killed"
    return meta


_NUMBER = (int, float)
_SHAPE: dict[str, tuple[type, ...]] = {
    "cluster": (str,),
    "command": (list,),
    "hosts": (list,),
    "pid": (int,),
    "process": (str,),
    "scope": (dict,),
    "started": _NUMBER,
    "status": (str,),
}
"""What each record's meta.json has, and the types of its values."""
_UNBEGUN: dict[str, tuple[type, ...]] = {"status": (str,), "error": (dict,)}
_END: dict[str, tuple[type, ...]] = {"recap": (dict,), "seconds": _NUMBER, "phases": (dict,)}
"""What that of a run has beside them that came to its end."""


def _is_meta(meta: Any) -> bool:
    """Tell whether it is what a recorder writes; what reads records need not ask again."""
    if not isinstance(meta, dict):
        return False
    # A run that a signal ended before its first event was down has an end, and no beginning.
    begun = meta.get("status") != "aborted" or "started" in meta
    if not _shaped(meta, _SHAPE if begun else _UNBEGUN):
        return False
    if meta["status"] in ("ok", "failed") and not _shaped(meta, _END):
        return False
    counts = meta.get("recap", {}).values() if isinstance(meta.get("recap", {}), dict) else [None]
    error = meta.get("error", {"code": "", "message": ""})
    return (
        all(isinstance(word, str) for word in (*meta.get("command", ()), *meta.get("hosts", ())))
        and all(isinstance(c, dict) and all(isinstance(n, int) for n in c.values()) for c in counts)
        and all(isinstance(n, _NUMBER) for n in meta.get("phases", {}).values())
        and isinstance(error, dict)
        and {"code", "message"} <= error.keys()
    )


def _shaped(meta: Mapping[str, Any], shape: Mapping[str, tuple[type, ...]]) -> bool:
    return all(isinstance(meta.get(name), types) for name, types in shape.items())


def _process(pid: int) -> str:
    """Return when a process was started (in ticks, see proc(5)): a later one with its id is another.

    "gone" where there is none, also where it has ended and nobody has taken note of it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return "gone"
    return "gone" if fields[0] in _ENDED else fields[19]


def lives(meta: Mapping[str, Any]) -> bool:
    """Tell whether the process of a run is still there: it says its last words after the record's end."""
    return bool(meta.get("process")) and _process(meta.get("pid", 0)) == meta["process"]


def find(run: str, directory: Path | None = None) -> Record:
    """Return a record by its id, a prefix of it, or ``last``."""
    records = listing(directory)
    found = records[:1] if run == "last" else [r for r in records if r.run.startswith(run)]
    if not found:
        raise StateError(
            "run-unknown",
            f"no record of a run '{run}'",
            where=str(directory or runs_directory()),
            hint="nidome runs list",
        )
    exact = [r for r in found if r.run == run]
    if len(found) > 1 and not exact:
        raise StateError(
            "run-ambiguous",
            f"'{run}' is the beginning of {len(found)} runs: {', '.join(r.run for r in found[:_NAMED])}",
            where=str(directory or runs_directory()),
            hint="give more of its name; nidome runs list",
        )
    return (exact or found)[0]


def last_of(cluster: str, directory: Path | None = None) -> Record | None:
    """Return the newest record of a run over a cluster, by the inventory it was declared in."""
    return next((r for r in listing(directory) if r.meta.get("cluster") == cluster), None)
