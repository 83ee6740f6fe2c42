"""Reads what ansible-playbook printed, and what Nidome prints in its way: plays, results, recaps, times.

Real logs are read too: with colours, with the line ends that a terminal writes, with warnings and errors
between the lines, retries, loops, delegated tasks, failures that were ignored, and several runs after each
other (the last one counts). A log that ends before its PLAY RECAP is an error: nothing can be said of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nidome.errors import StateError
from nidome.events import PlayStarted, RunFinished, RunStarted, TaskFinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nidome.events import Event

__all__ = ["COUNTERS", "PlayLog", "PlaybookLog", "Result", "TaskLog", "from_events", "parse"]

COUNTERS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")
_SLOWEST = 20

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STARS = r" \*{3,}\s*"
_PLAY = re.compile(rf"PLAY (?:\[(?P<name>.*)\]){_STARS}")
_TASK = re.compile(rf"(?P<kind>TASK|RUNNING HANDLER|CLEANUP TASK) \[(?P<name>.*)\]{_STARS}")
_PLAY_RECAP = re.compile(rf"PLAY RECAP{_STARS}")
_TASKS_RECAP = re.compile(rf"TASKS RECAP{_STARS}")
_RESULT = re.compile(
    r"(?P<word>ok|changed|skipping): \[(?P<host>[^\]]+?)(?: -> (?P<to>[^\]]+))?\](?P<rest>.*)"
)
_FATAL = re.compile(
    r"(?:fatal|failed): \[(?P<host>[^\]]+?)(?: -> (?P<to>[^\]]+))?\]"
    r"(?:: (?P<kind>FAILED|UNREACHABLE)!)?(?P<rest>.*)"
)
_RETRY = re.compile(r"FAILED - RETRYING: \[(?P<host>[^\]]+)\]: .*\((?P<left>\d+) retries left\)\.")
_INCLUDED = re.compile(r"included: .+ for (?P<hosts>\S+(?:, \S+)*)(?: => \(item=.*)?")
_ITEM = re.compile(r"\s*\(item=(?P<item>.*?)\)\s*(?:=> .*)?")
_COUNTS = re.compile(r"(?P<host>\S.*?)\s+: (?P<counts>ok=\d+\s.*)")
_COUNT = re.compile(r"(\w+)=([0-9]{1,9})\b")
_TIMES = re.compile(
    r"\w+ \d{2} \w+ \d{4}\s+\d{2}:\d{2}:\d{2} [+-]\d{4} "
    r"\([\d:.]+\)\s+(?P<total>[0-9]{1,6}:[0-9]{2}:[0-9]{2}\.[0-9]{3}) \*+\s*"
)
_SLOW = re.compile(r"(?P<name>.+?) -{3,} ?(?P<seconds>[0-9]{1,9}\.[0-9]{2})s\s*")
_STATUS = {"ok": "ok", "changed": "changed", "skipping": "skipped"}


@dataclass(frozen=True)
class Result:
    """What one host made of a task: ``status`` is ok, changed, skipped, failed or unreachable.

    ``item`` is the element of a loop, "" for a task without one; ``delegated`` the host that did it instead;
    ``ignored`` says of a failure that it was passed over; ``retries`` is how often it was tried again.
    """

    host: str
    status: str
    item: str = ""
    delegated: str = ""
    ignored: bool = False
    retries: int = 0


@dataclass(frozen=True)
class TaskLog:
    """A task or handler by the name in its heading, with its results in the order in which they came."""

    name: str
    handler: bool = False
    results: tuple[Result, ...] = ()

    def changed_on(self, host: str) -> bool:
        """Tell whether any result of the host, an element of a loop among them, was a change."""
        return any(r.host == host and r.status == "changed" for r in self.results)


@dataclass(frozen=True)
class PlayLog:
    """A play by the name in its heading, with its tasks in order."""

    name: str
    tasks: tuple[TaskLog, ...] = ()


@dataclass(frozen=True)
class PlaybookLog:
    """A run of a playbook: ``recap`` has each host's counters, ``slowest`` the tasks with their seconds.

    ``elapsed`` is the cumulative time in the heading of TASKS RECAP, in seconds; without the profile_tasks
    callback it is None, and ``slowest`` is empty.
    """

    plays: tuple[PlayLog, ...]
    recap: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    slowest: tuple[tuple[str, float], ...] = ()
    elapsed: float | None = None

    def tasks(self) -> Iterator[TaskLog]:
        """Give every task of every play in order."""
        return (task for play in self.plays for task in play.tasks)

    def changed(self, host: str) -> tuple[str, ...]:
        """Return the headings of the tasks and handlers that changed something on a host, in order."""
        return tuple(task.name for task in self.tasks() if task.changed_on(host))


def parse(text: str, *, where: str = "") -> PlaybookLog:
    """Return what a log says; StateError ``log-empty`` or ``log-truncated`` where it does not say it all.

    ``where`` names the log in the error.
    """
    reader = _Reader(where)
    for line in _COLOUR.sub("", text).replace("\r\n", "\n").split("\n"):
        reader.read(line.rpartition("\r")[2])
    return reader.end()


@dataclass
class _Task:
    name: str
    handler: bool
    results: list[Result] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)


class _Reader:
    """Goes through the lines of a log, and knows in which part of it it is."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._clear()

    def _clear(self) -> None:
        self._plays: list[tuple[str, list[_Task]]] = []
        self._recap: dict[str, dict[str, int]] = {}
        self._slowest: list[tuple[str, float]] = []
        self._elapsed: float | None = None
        self._part = "plays"
        self._profiled = False

    def read(self, line: str) -> None:
        """Take one line in."""
        if _PLAY_RECAP.fullmatch(line):
            self._part = "recap"
        elif _TASKS_RECAP.fullmatch(line):
            self._part = "times"
        elif found := _PLAY.fullmatch(line):
            if self._part != "plays":  # another run's log in the same file
                self._clear()
            self._plays.append((found["name"], []))
        elif found := _TASK.fullmatch(line):
            # A playbook of Ansible's without a play's heading cannot be: this is the middle of a log.
            if not self._plays:
                raise self._truncated("it begins in the middle of a run")
            self._plays[-1][1].append(_Task(found["name"], found["kind"] == "RUNNING HANDLER"))
        else:
            {"plays": self._in_plays, "recap": self._in_recap, "times": self._in_times}[self._part](line)

    def _in_plays(self, line: str) -> None:
        if not self._plays or not self._plays[-1][1]:
            return
        task = self._plays[-1][1][-1]
        if _TIMES.fullmatch(line):
            self._profiled = True
        elif line == "...ignoring" and task.results:
            task.results[-1] = replace(task.results[-1], ignored=True)
        elif found := _RETRY.fullmatch(line):
            task.retries[found["host"]] = task.retries.get(found["host"], 0) + 1
        elif found := _RESULT.fullmatch(line):
            task.results.append(self._result(task, found, _STATUS[found["word"]]))
        elif found := _INCLUDED.fullmatch(line):
            task.results += [Result(host, "ok") for host in found["hosts"].split(", ")]
        elif found := _FATAL.fullmatch(line):
            status = "unreachable" if found["kind"] == "UNREACHABLE" else "failed"
            task.results.append(self._result(task, found, status))

    def _result(self, task: _Task, found: re.Match[str], status: str) -> Result:
        item = _ITEM.match(found["rest"].removeprefix(" =>"))
        return Result(
            found["host"],
            status,
            item["item"] if item else "",
            found["to"] or "",
            retries=task.retries.get(found["host"], 0),
        )

    def _in_recap(self, line: str) -> None:
        found = _COUNTS.fullmatch(line)
        if found:
            counts = {name: int(count) for name, count in _COUNT.findall(found["counts"])}
            self._recap[found["host"]] = {name: counts.get(name, 0) for name in COUNTERS}

    def _in_times(self, line: str) -> None:
        if found := _TIMES.fullmatch(line):
            self._elapsed = _seconds(found["total"])
        elif found := _SLOW.fullmatch(line):
            self._slowest.append((found["name"], float(found["seconds"])))

    def end(self) -> PlaybookLog:
        """Return what was read."""
        if not self._plays:
            raise StateError(
                "log-empty",
                "this is no output of a playbook: it has no PLAY",
                where=self._where,
                hint="keep the whole output: nidome playbook -i INVENTORY cluster.yml | tee FILE",
            )
        if self._part == "plays":
            raise self._truncated("it ends before PLAY RECAP")
        if self._profiled and self._elapsed is None:
            raise self._truncated("it ends before the time of TASKS RECAP")
        plays = tuple(
            PlayLog(name, tuple(TaskLog(t.name, t.handler, tuple(t.results)) for t in tasks))
            for name, tasks in self._plays
        )
        return PlaybookLog(plays, self._recap, tuple(self._slowest), self._elapsed)

    def _truncated(self, how: str) -> StateError:
        hint = "the run was interrupted, or the output was not kept whole: run it again"
        return StateError("log-truncated", f"the log is not whole: {how}", where=self._where, hint=hint)


def _seconds(text: str) -> float:
    hours, minutes, rest = text.split(":")
    return round(int(hours) * 3600 + int(minutes) * 60 + float(rest), 3)


# The same from a run's own events, without any text in between: what a log must say.


def from_events(events: Iterable[Event]) -> PlaybookLog:
    """Return what the log of a run must say, by the run's events."""
    plays: list[tuple[PlayStarted, dict[tuple[str, bool], list[TaskFinished]]]] = []
    finished: RunFinished | None = None
    began = 0.0
    for event in events:
        if isinstance(event, RunStarted):
            began = event.at
        elif isinstance(event, PlayStarted):
            plays.append((event, {(task.task, task.handler): [] for task in event.tasks}))
        elif isinstance(event, TaskFinished) and plays:
            plays[-1][1].setdefault((event.task, event.handler), []).append(event)
        elif isinstance(event, RunFinished):
            finished = event
    logs = tuple(_play_log(play, tasks) for play, tasks in plays)
    timed = [
        (task, max(r.seconds for r in results))
        for _, tasks in plays
        for (task, _), results in tasks.items()
        if results
    ]
    slowest = sorted(timed, key=lambda t: -t[1])[:_SLOWEST]
    recap: Mapping[str, Any] = finished.recap if finished else {}
    return PlaybookLog(
        logs,
        {host: {name: counts.get(name, 0) for name in COUNTERS} for host, counts in recap.items()},
        tuple((task, float(f"{seconds:.2f}")) for task, seconds in slowest),
        round(finished.at - began, 3) if finished else None,
    )


def _play_log(play: PlayStarted, tasks: Mapping[tuple[str, bool], list[TaskFinished]]) -> PlayLog:
    found = (
        TaskLog(name, handler, tuple(Result(r.host, r.status) for r in results))
        for (name, handler), results in tasks.items()
        if results
    )
    return PlayLog(play.play, tuple(found))
