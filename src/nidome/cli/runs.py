"""``nidome runs``: what earlier runs did, when, and why."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from nidome.cli import report
from nidome.cli.tables import duration, stamp, table
from nidome.cli.views import change_lines, phases

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence


__all__ = ["configure", "render_list", "render_run", "run"]

_HEAD = ("RUN", "WHEN", "COMMAND", "STATUS", "TOOK", "CHANGED", "FAILED")
_SHOWN = 20
_RUN = "a run's name, the beginning of it, or: last"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="show runs, the newest first")
    listing.add_argument(
        "-n", "--number", type=int, default=_SHOWN, help="at most N (default: %(default)s, 0: all)"
    )
    show = verbs.add_parser("show", help="show one run: recap, phases, what changed and why, errors")
    show.add_argument("run", metavar="RUN", help=_RUN)
    for verb in (listing, show):
        verb.add_argument("--json", action="store_true", help="print JSON")
    follow = verbs.add_parser("attach", help="follow a run's output to its end, and end as it does")
    follow.add_argument("run", metavar="RUN", nargs="?", default="last", help=_RUN)
    report.configure(verbs.add_parser("report", help="write the records that a lab page asks for"))
    log = verbs.add_parser("log", help="print a run's output as ansible-playbook would have")
    log.add_argument("run", metavar="RUN", nargs="?", default="last", help=_RUN)


def run(args: argparse.Namespace) -> int:
    """Show; return 0, or what the followed run ends with."""
    return {"list": _list, "show": _show, "attach": _attach, "log": _log, "report": report.run}[args.verb](
        args
    )


def _attach(args: argparse.Namespace) -> int:
    from nidome.cli.attach import attach  # noqa: PLC0415 - not needed for --help

    return attach(args.run)


def _log(args: argparse.Namespace) -> int:
    from nidome.cli.attach import replay  # noqa: PLC0415 - not needed for --help
    from nidome.prove.records import find  # noqa: PLC0415 - as above

    record = find(args.run)
    replay(record, sys.stdout)
    sys.stdout.flush()
    record.require_whole()
    return 0


def _list(args: argparse.Namespace) -> int:
    from nidome.prove.records import listing, runs_directory  # noqa: PLC0415 - not needed for --help

    records = listing()[: args.number if args.number > 0 else None]
    if args.json:
        print(json.dumps([record.meta for record in records], indent=1))
    elif records:
        print(render_list([record.meta for record in records]))
    else:
        print(f"no runs are recorded in {runs_directory()}")
    return 0


def _show(args: argparse.Namespace) -> int:
    from nidome.prove.records import find  # noqa: PLC0415 - not needed for --help

    record = find(args.run)
    events = list(record.events())
    print(
        json.dumps({**record.meta, "events": events}, indent=1)
        if args.json
        else render_run(record.meta, events)
    )
    return 0


def render_list(metas: Sequence[dict[str, Any]]) -> str:
    """Return runs as a table."""
    return table(_HEAD, [_row(meta) for meta in metas])


def _row(meta: dict[str, Any]) -> tuple[str, ...]:
    return (
        meta["run"],
        stamp(meta["started"]) if "started" in meta else "",
        command(meta),
        meta["status"],
        duration(meta.get("seconds")),
        _sum(meta, "changed"),
        _sum(meta, "failed", "unreachable"),
    )


def command(meta: dict[str, Any]) -> str:
    """Return the run's command line, the program by its bare name."""
    program, *words = meta.get("command") or [""]
    return shlex.join([program.rpartition("/")[2], *words]) if program else ""


def _sum(meta: dict[str, Any], *names: str) -> str:
    recap = meta.get("recap")
    return (
        "" if recap is None else str(sum(counts.get(name, 0) for counts in recap.values() for name in names))
    )


def render_run(meta: dict[str, Any], events: Iterable[dict[str, Any]]) -> str:
    """Return one run for people: head, recap, phases, changed tasks with their reasons, errors."""
    head = [
        ("run", meta["run"]),
        ("command", command(meta)),
        ("cluster", meta.get("cluster", "")),
        ("when", stamp(meta["started"]) if "started" in meta else ""),
        ("status", meta["status"]),
        ("took", duration(meta.get("seconds"))),
        ("phases", phases(meta.get("phases", {}))),
    ]
    lines = [f"{name + ':':<9} {value}" for name, value in head if value]
    recap = meta.get("recap", {})
    lines += [
        f"{host}  " + "  ".join(f"{n}={c}" for n, c in counts.items()) for host, counts in recap.items()
    ]
    lines += [line for event in events for line in _EVENTS.get(event["type"], _nothing)(event)]
    return "\n".join([*lines, *_error("", meta.get("error"))])


def _nothing(event: dict[str, Any]) -> list[str]:
    del event
    return []


def _task(event: dict[str, Any]) -> list[str]:
    if event["status"] == "ok":
        return []
    kind = "HANDLER" if event["handler"] else "TASK"
    lines = ["", f"{event['status']}  {event['host']}  {kind} [{event['task']}]  {event['seconds']:.2f} s"]
    return [*lines, *_changes(event["changes"]), *_error(event["host"], event.get("error"))]


def _changes(changes: Sequence[dict[str, Any]]) -> list[str]:
    """Return a task's changes; a reason that is the same for all of them is told once."""
    reasons = [change["because"] for change in changes]
    common = reasons[0] if reasons and all(r == reasons[0] for r in reasons) else []
    own = [{**change, "because": []} if common else change for change in changes]
    return [line for change in own for line in change_lines(change)] + [f"      because {r}" for r in common]


def _diagnostic(event: dict[str, Any]) -> list[str]:
    where = f"{event['where']}: " if event["where"] else ""
    return ["", f"{event['severity']}[{event['code']}]: {where}{event['message']}"]


def _error(host: str, error: dict[str, str] | None) -> list[str]:
    if not error:
        return []
    where = ": ".join(word for word in (host, error.get("where", "")) if word)
    lines = [f"  error[{error['code']}]: {error['message']}"]
    lines += [f"  where: {where}"] if where else []
    return lines + ([f"  next:  {error['hint']}"] if error.get("hint") else [])


_EVENTS = {"task_finished": _task, "diagnostic": _diagnostic}
