"""A run as ansible-playbook prints it with the profile_tasks callback, the way people and scripts know it.

Rendered from the run's events. Ansible tells of a task for all hosts together; hosts here work side by side,
each at its own pace, so what a host is ahead is kept until its task's turn. One task, one result a host.
"""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from nidome.cli.filediff import unified
from nidome.cli.views import WaitView
from nidome.events import (
    Diagnostic,
    PlayStarted,
    RunFinished,
    RunStarted,
    Staged,
    Staging,
    TaskFinished,
    TaskStarted,
    Waited,
    Waiting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nidome.events import Event

__all__ = ["AnsibleView"]

_COLUMNS = 79
_LEAST_STARS = 3
_SLOWEST = 20
_COUNTERS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")
_COLOURS = {
    "ok": "0;32",
    "changed": "0;33",
    "skipped": "0;36",
    "failed": "0;31",
    "unreachable": "1;31",
    "rescued": "0;32",
    "ignored": "1;35",
    "warning": "1;35",
    "-": "0;31",
    "+": "0;32",
    "@": "0;36",
}
_WORDS = {"ok": "ok", "changed": "changed", "skipped": "skipping"}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass
class _Task:
    """A task of the play under way: who is still to report, and what has come in before its turn."""

    title: str
    handler: bool
    expected: set[str]
    waiting: list[TaskFinished] = field(default_factory=list)
    begun: bool = False
    seconds: float = 0.0


class AnsibleView:
    """Prints events as the default callback of Ansible does, TASKS RECAP included.

    With ``verbose`` each result is followed by its details as JSON; with ``diff`` it is preceded by what was
    changed, as unified diffs. Warnings, and what
    is waited for long before the first play, go to ``errors``. Colours are used on a terminal only.
    """

    def __init__(
        self, out: TextIO, *, verbose: bool = False, diff: bool = False, errors: TextIO | None = None
    ) -> None:
        self._out = out
        self._errors = errors or sys.stderr
        self._verbose = verbose
        self._diff = diff
        self._colour = out.isatty()
        self._started = 0.0
        self._last = 0.0
        self._total = 0.0
        self._hosts: set[str] = set()
        self._tasks: list[_Task] = []
        self._timed: list[tuple[str, float]] = []
        # Where Ansible tells nothing, what takes long is told beside the output.
        self._waits = WaitView(self._errors)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RunStarted():
                self._started = event.at
            case Diagnostic():
                self._warn(event)
            case Waiting() | Waited() | Staging() | Staged():
                self._waits(event)
            case PlayStarted():
                self._play(event)
            case TaskStarted():
                task = self._task(event.task, handler=event.handler)
                if task is self._tasks[0]:
                    self._begin(task, event.at)
            case TaskFinished():
                task = self._task(event.task, handler=event.handler)
                task.waiting.append(event)
                self._gone(event)
                self._advance()
            case RunFinished():
                self._flush()
                self._recap(event)
            case _:
                pass

    # Plays and tasks.

    def _play(self, event: PlayStarted) -> None:
        self._flush()
        self._banner(f"PLAY [{event.play}]")
        self._hosts = set(event.hosts)
        self._tasks = [_Task(t.task, t.handler, set(t.hosts)) for t in event.tasks]
        if not event.hosts:
            self._say("skipping: no hosts matched", "skipped")

    def _task(self, title: str, *, handler: bool) -> _Task:
        """Return the task of that title, as a new one at the end where nobody announced it."""
        found = next((t for t in self._tasks if (t.title, t.handler) == (title, handler)), None)
        if found is None:
            found = _Task(title, handler, set(self._hosts))
            self._tasks.append(found)
        return found

    def _gone(self, event: TaskFinished) -> None:
        """Expect nothing more of a host that failed, and nothing earlier of one that is further already."""
        failed = event.status in ("failed", "unreachable")
        here = next(n for n, t in enumerate(self._tasks) if event in t.waiting)
        for number, task in enumerate(self._tasks):
            if number < here or (failed and number > here):
                task.expected.discard(event.host)
        if failed:
            self._hosts.discard(event.host)

    def _advance(self) -> None:
        """Print what has its turn: the first task's results as they come, the next once all have reported."""
        while self._tasks:
            task = self._tasks[0]
            for event in task.waiting:
                self._begin(task, event.at - event.seconds)
                self._result(event)
                task.expected.discard(event.host)
                task.seconds = max(task.seconds, event.seconds)
            task.waiting = []
            if task.expected:
                return
            self._close(self._tasks.pop(0))

    def _flush(self) -> None:
        """Print all that is left: nobody will report any more."""
        for task in self._tasks:
            task.expected = set()
        self._advance()

    def _begin(self, task: _Task, at: float) -> None:
        if not task.begun:
            task.begun = True
            self._banner(f"{'RUNNING HANDLER' if task.handler else 'TASK'} [{task.title}]")
            # What hosts did before their turn came is told late: the clock never goes back.
            self._total = max(self._total, at - self._started)
            self._say(_clock(self._started + self._total, self._last, self._total))

    def _close(self, task: _Task) -> None:
        if task.begun:
            self._last = task.seconds
            self._timed.append((task.title, task.seconds))

    def _result(self, event: TaskFinished) -> None:
        if self._diff:
            for change in event.changes:
                self._show(change)
        colour = event.status
        if event.status in ("failed", "unreachable"):
            kind = "UNREACHABLE!" if event.status == "unreachable" else "FAILED!"
            self._say(f"fatal: [{event.host}]: {kind} => {json.dumps(_failure(event))}", colour)
            return
        details = f" => {json.dumps(_details(event))}" if self._verbose else ""
        self._say(f"{_WORDS[event.status]}: [{event.host}]{details}", colour)

    def _show(self, change: Mapping[str, Any]) -> None:
        lines = unified(change)
        for line in lines:
            self._say(line, line[:1] if line[:1] in "-+@" else None)
        if lines:
            self._say("")

    # The end.

    def _recap(self, event: RunFinished) -> None:
        if event.recap and all(c.get("failed") or c.get("unreachable") for c in event.recap.values()):
            self._banner("NO MORE HOSTS LEFT")
        self._banner("PLAY RECAP")
        for host in sorted(event.recap):
            self._say(self._counters(host, event.recap[host]))
        self._banner("TASKS RECAP")
        self._say(_clock(event.at, self._last, max(self._total, event.at - self._started)))
        self._say(_filled("", "="))
        for title, seconds in sorted(self._timed, key=lambda t: -t[1])[:_SLOWEST]:
            self._say(f"{title + ' ':-<70}{f' {seconds:.2f}s':->9}")

    def _counters(self, host: str, counts: Mapping[str, int]) -> str:
        worst = next((n for n in ("failed", "unreachable", "changed") if counts.get(n)), "ok")
        worst = "failed" if worst == "unreachable" else worst
        # Padded by what is seen: colour codes have no width.
        name = self._painted(host, worst) + " " * (26 - len(host))
        words = [self._painted(f"{n}={counts.get(n, 0):<4}", n if counts.get(n) else None) for n in _COUNTERS]
        return f"{name} : {' '.join(words)}"

    # Lines.

    def _warn(self, event: Diagnostic) -> None:
        place = f"{event.where}: " if event.where else ""
        kind = "WARNING" if event.severity == "warning" else "ERROR"
        text = f"[{kind}]: {place}{event.message}" + (f" ({event.hint})" if event.hint else "")
        painted = f"\033[{_COLOURS['warning']}m{text}\033[0m" if self._errors.isatty() else text
        print(painted, file=self._errors, flush=True)

    def _banner(self, text: str) -> None:
        self._say(f"\n{text} {'*' * max(_LEAST_STARS, _COLUMNS - _width(text))}")

    def _painted(self, text: str, colour: str | None) -> str:
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self._colour and colour else text

    def _say(self, text: str, colour: str | None = None) -> None:
        print(self._painted(text, colour), file=self._out, flush=True)


def _failure(event: TaskFinished) -> dict[str, Any]:
    error = event.error or {}
    told = {"changed": bool(event.changes), "msg": error.get("message", "")}
    named = {"code": "code", "resource": "where", "next": "hint"}
    told |= {name: error[key] for name, key in named.items() if error.get(key)}
    return {**told, "unreachable": True} if event.status == "unreachable" else told


def _details(event: TaskFinished) -> dict[str, Any]:
    told: dict[str, Any] = {"changed": event.status == "changed"}
    if event.changes:
        told["changes"] = [f"{c['action']} {c['resource']}" for c in event.changes]
        told["because"] = list(dict.fromkeys(reason for c in event.changes for reason in c["because"]))
    if event.notes:
        told["skip_reason"] = list(event.notes)
    return told


def _width(text: str) -> int:
    """Return how many columns a text takes: wide characters two, marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(1 for c in text if unicodedata.combining(c))


def _clock(at: float, before: float, total: float) -> str:
    """Return the time line of profile_tasks: now, the task before, and all so far."""
    now = time.localtime(at)
    day = f"{_DAYS[now.tm_wday]} {now.tm_mday:02d} {_MONTHS[now.tm_mon - 1]} {now.tm_year}"
    clock = time.strftime("%H:%M:%S %z", now)
    return _filled(f"{day}  {clock} ({_span(before)}){' ' * 7}{_span(total)}", "*")


def _filled(text: str, character: str) -> str:
    text = f"{text} " if text else ""
    return f"{text}{character * max(_LEAST_STARS, _COLUMNS - len(text))} "


def _span(seconds: float) -> str:
    whole = round(seconds * 1000)
    minutes, rest = divmod(whole, 60_000)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
