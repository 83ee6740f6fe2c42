"""What a person sees of a run: plain lines, JSON lines, or a live terminal view. All from the same events."""

from __future__ import annotations

import difflib
import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from nidome.cli.filediff import is_hidden
from nidome.events import (
    Diagnostic,
    PlayStarted,
    RunFinished,
    Staged,
    Staging,
    TaskFinished,
    TaskStarted,
    Waited,
    Waiting,
)
from nidome.progress import Progress, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nidome.events import Event, Sink
    from nidome.progress import Item

__all__ = ["VIEWS", "WaitView", "change_lines", "phases", "render_plan", "view"]

_SYMBOLS = {"create": "+", "delete": "-", "update": "~", "restart": "!"}
_SHOWN_LINES = 12
_SHOWN = 160
_SLOW = 3.0


class WaitView:
    """What is under way on each host, told while it takes more than three seconds, and warnings."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._progress = Progress(out)
        self._under_way: dict[str, tuple[Item, ExitStack]] = {}

    def _begin(self, host: str, what: str, total: int = 0) -> Item:
        if host not in self._under_way:
            stack = ExitStack()
            item = stack.enter_context(self._progress.item(f"{host}: {what}", total=total))
            self._under_way[host] = (item, stack)
        return self._under_way[host][0]

    def _end(self, host: str, *, ok: bool = True) -> None:
        if host in self._under_way:
            item, stack = self._under_way.pop(host)
            item.outcome = "done" if ok else "failed"
            stack.close()

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def __call__(self, event: Event) -> None:
        """Show that something has begun or ended."""
        match event:
            case Diagnostic():
                place = f"{event.where}: " if event.where else ""
                self._say(f"{event.severity}[{event.code}]: {place}{event.message}")
                if event.hint:
                    self._say(f"  next:  {event.hint}")
            case Waiting():
                self._begin(event.host, event.what)
            case Staging():
                self._begin(event.host, "sending artifacts", event.size).update(done=event.done)
            case TaskStarted():
                self._begin(event.host, event.task)
            case Waited():
                self._end(event.host, ok=event.ok)
            case TaskFinished():
                self._end(event.host, ok=event.status not in ("failed", "unreachable"))
            case Staged():
                self._end(event.host)
            case _:
                pass


class PlainView(WaitView):
    """A line for each thing that changed, waited long or failed; the recap at the end.

    What takes more than three seconds is told while it does.
    """

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        super().__init__(out)
        self._verbose = verbose

    def __call__(self, event: Event) -> None:
        """Show an event."""
        super().__call__(event)
        match event:
            case Staged():
                self._say(f"{event.host}: sent {event.count} artifacts, {size(event.size)}")
            case PlayStarted() if self._verbose:
                self._say(f"PLAY [{event.play}]")
            case TaskFinished():
                self._task(event)
            case RunFinished():
                self._recap(event)
            case _:
                pass

    def _task(self, event: TaskFinished) -> None:
        if event.status == "ok" and not self._verbose and not (event.waited and event.seconds > _SLOW):
            return
        name = f"HANDLER [{event.task}]" if event.handler else f"[{event.task}]"
        self._say(f"{event.status:<8} {event.host} {name} {event.seconds:.2f} s")
        if event.error:
            self._say(f"  error[{event.error['code']}]: {event.error['message']}")
            where = event.error["where"]
            self._say(f"  where: {where if where.startswith(event.host) else f'{event.host}: {where}'}")
            if event.error["hint"]:
                self._say(f"  next:  {event.error['hint']}")

    def _recap(self, event: RunFinished) -> None:
        for host, counts in event.recap.items():
            self._say(f"{host}  " + "  ".join(f"{name}={count}" for name, count in counts.items()))
        self._say(f"{'done' if event.ok else 'failed'} in {event.seconds:.2f} s ({phases(event.phases)})")


def phases(taken: Mapping[str, float]) -> str:
    """Return how long each phase of a run took, in seconds."""
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items())


class JsonView:
    """One JSON object a line; the first has the type ``run_started``."""

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        del verbose
        self._out = out

    def __call__(self, event: Event) -> None:
        """Write an event."""
        print(json.dumps(event.to_json(), default=str), file=self._out, flush=True)


class TerminalView(PlainView):
    """The plain lines in colour, with what is under way on each host kept live below them."""

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        super().__init__(out, verbose=verbose)
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich
        from rich.status import Status  # noqa: PLC0415 - as above

        self._progress = Progress.silent()
        self._console = Console(file=out, highlight=False)
        self._status = Status("", console=self._console)
        self._working: dict[str, str] = {}

    def _say(self, text: str) -> None:
        style = {"changed": "yellow", "failed": "red", "unreach": "red", "warning": "magenta", "error": "red"}
        chosen = next((s for word, s in style.items() if text.startswith(word)), None)
        self._console.print(text, style=chosen, markup=False, soft_wrap=True)

    def __call__(self, event: Event) -> None:
        """Show an event, and what is being done."""
        if isinstance(event, Waiting | TaskStarted | Staging):
            self._working[event.host] = _doing(event)
            self._status.update("; ".join(f"{h}: {t}" for h, t in self._working.items()))
            self._status.start()
        if isinstance(event, Waited | TaskFinished | Staged):
            self._working.pop(event.host, None)
        if isinstance(event, RunFinished) or not self._working:
            self._status.stop()
        super().__call__(event)


def _doing(event: Waiting | TaskStarted | Staging) -> str:
    if isinstance(event, Staging):
        return f"sending artifacts, {size(event.done)} of {size(event.size)}"
    return event.what if isinstance(event, Waiting) else event.task


VIEWS: dict[str, type[PlainView | JsonView]] = {
    "plain": PlainView,
    "json": JsonView,
    "rich": TerminalView,
}


def view(name: str | None, *, verbose: bool = False, out: TextIO | None = None) -> Sink:
    """Return the view of that name; by default a live one on a terminal, plain lines elsewhere."""
    stream = out or sys.stdout
    chosen = name or ("rich" if stream.isatty() else "plain")
    if chosen == "ansible":
        from nidome.cli.ansible_output import AnsibleView  # noqa: PLC0415 - built upon this module

        return AnsibleView(stream, verbose=verbose)
    return VIEWS[chosen](stream, verbose=verbose)


# Plans.


def render_plan(plan: Mapping[str, Any], counts: tuple[int, int, int]) -> str:
    """Return a plan for people: the same change on several hosts is one group."""
    groups: dict[str, list[str]] = {}
    for host, steps in plan["hosts"].items():
        for step in steps:
            groups.setdefault("\n".join(_step(step)), []).append(host)
    blocks = [
        f"{text.splitlines()[0]}  on {', '.join(hosts)}\n" + "\n".join(text.splitlines()[1:])
        for text, hosts in groups.items()
    ]
    return "\n".join([*blocks, *_waits(plan, blocks), _closing(plan, blocks, counts)])


def _waits(plan: Mapping[str, Any], blocks: Sequence[str]) -> list[str]:
    """Return what does not hold although nothing is to be changed; changes would bring it about."""
    return [] if blocks else [f"  . not so yet: {reason}" for reason in plan["waiting"]]


def _closing(plan: Mapping[str, Any], blocks: Sequence[str], counts: tuple[int, int, int]) -> str:
    if not blocks:
        return "No changes, but not everything is as it must be." if plan["waiting"] else "No changes."
    steps = [step for found in plan["hosts"].values() for step in found]
    added, changed, destroyed = counts
    parts = [f"{added} to add", f"{changed} to change", f"{destroyed} to destroy"]
    parts += [f"{n} unobservable" for n in (sum(len(s["unobservable"]) for s in steps),) if n]
    parts += [f"{n} errors" for n in (sum(len(s["errors"]) for s in steps),) if n]
    return f"Plan: {', '.join(parts)}."


def _step(step: Mapping[str, Any]) -> list[str]:
    lines = [f"{'HANDLER' if step['handler'] else 'TASK'} [{step['task']}]"]
    lines += [line for change in step["changes"] for line in change_lines(change)]
    lines += [f"  ? {reason}" for reason in step["unobservable"]]
    for e in step.get("errors", ()):
        lines += [f"  x {e['where']}: error[{e['code']}]: {e['message']}", f"      next: {e['hint']}"]
    return lines


def change_lines(change: Mapping[str, Any]) -> list[str]:
    """Return one change for people: what is done to which resource, how it differs, and why."""
    lines = [f"  {_SYMBOLS[change['action']]} {change['resource']}"]
    for delta in change["deltas"] if change["action"] != "create" else []:
        lines += _delta(delta)
    return lines + [f"      because {reason}" for reason in change["because"]]


def _delta(delta: Mapping[str, Any]) -> list[str]:
    name, before, after = delta["attribute"], delta["before"], delta["after"]
    if name == "stale":
        return [f"      reads {before} anew"]
    if name in ("content", "text") and isinstance(before, str) and is_hidden(delta):
        return [f"      {name}: hidden, it may hold secrets"]
    if name in ("content", "text") and isinstance(before, str) and isinstance(after, str) and "\n" in after:
        different = [
            d
            for d in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
            if d[:3] not in ("---", "+++") and d[:2] != "@@"
        ]
        more = (
            [f"      … {len(different) - _SHOWN_LINES} more lines"] if len(different) > _SHOWN_LINES else []
        )
        return [f"      {line[:_SHOWN]}" for line in different[:_SHOWN_LINES]] + more
    return [f"      {name}: {_short(before)} -> {_short(after)}"]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
