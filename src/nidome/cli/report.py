"""``nidome runs report``: the records that a lab page asks for, from its runs' logs and the live cluster."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.cli.attach import replay
from nidome.errors import DeclarationError, StateError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec
    from nidome.prove.labreport import Live, NamedLog
    from nidome.prove.records import Record

__all__ = ["configure", "run"]

_RUN_AGAIN = "nidome playbook -i INVENTORY cluster.yml"
_NO_FIRST = "no recorded run made this cluster"
_LARGEST_LOG = 256 * 1024 * 1024
_LOGS = ("log1", "log2", "log_tags")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    parser.add_argument("--format", choices=("kubespray-lab",), required=True, help="which page's records")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where they are written"
    )
    logs = ("the first run", "the second run", "the run with a tag")
    for name, what in zip(_LOGS, logs, strict=True):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(
            option, type=Path, metavar="FILE", help=f"output of {what} (default: from the run records)"
        )
    parser.add_argument("--host", help="the node (default: the first control-plane host)")


def run(args: argparse.Namespace) -> int:
    """Write the records; return 0."""
    from nidome.prove.labreport import lab_records  # noqa: PLC0415 - not needed for --help

    spec, warnings = common.declared(args)
    common.warn(warnings)
    host = args.host or spec.control_plane[0].name
    logs = _logs(args, spec)
    files = lab_records(*logs, host=host, live=_live(spec, host))
    _make(args.output)
    for name, text in files.items():
        common.write_file(args.output / name, text)
        print(f"written: {args.output / name}")
    return 0


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "file-unwritable",
            f"cannot write: {error.strerror}",
            where=str(directory),
            hint="name a directory of yours",
        ) from None


def _logs(args: argparse.Namespace, spec: ClusterSpec) -> list[NamedLog]:
    """Return the three logs: those that are named, and the others from the records."""
    given = [getattr(args, name) for name in _LOGS]
    records: Sequence[Record | None] = [None] * len(given)
    if None in given:
        records = _records(
            spec, tags=args.log_tags is None, first=args.log1 is None, second=args.log2 is None
        )
    return [
        _from_file(path) if path else _from_record(record)
        for path, record in zip(given, records, strict=True)
        if path or record
    ]


def _from_file(path: Path) -> NamedLog:
    from nidome.declare.files import read_bytes  # noqa: PLC0415 - not needed for --help
    from nidome.prove.ansiblelog import parse  # noqa: PLC0415 - as above
    from nidome.prove.labreport import NamedLog  # noqa: PLC0415 - as above

    try:
        text = read_bytes(path, pipes=True, limit=_LARGEST_LOG).decode(errors="replace")
    except DeclarationError as error:
        raise UsageError(
            "log-unreadable",
            f"cannot read the log: {error.message}",
            where=str(path),
            hint="name the file that the run's output was kept in",
        ) from None
    return NamedLog(str(path), parse(text, where=str(path)))


def _from_record(record: Record | None) -> NamedLog:
    from nidome.prove.ansiblelog import parse  # noqa: PLC0415 - not needed for --help
    from nidome.prove.labreport import NamedLog  # noqa: PLC0415 - as above

    if record is None:
        raise StateError("report-no-first", _NO_FIRST, where=_runs(), hint=_RUN_AGAIN)
    printed = io.StringIO()
    replay(record, printed, errors=io.StringIO())
    return NamedLog(f"run {record.run}", parse(printed.getvalue(), where=f"run {record.run}"))


def _records(spec: ClusterSpec, *, first: bool, second: bool, tags: bool) -> Sequence[Record | None]:
    """Return the run that made the cluster, the next whole one, and the newest with tags after that."""
    from nidome.prove.records import listing  # noqa: PLC0415 - not needed for --help

    mine = [r for r in reversed(listing()) if r.meta.get("cluster") == common.cluster_name(spec)]
    ended = [r for r in mine if r.meta["status"] in ("ok", "failed")]
    applied = [
        r for r in ended if r.meta.get("playbook") == "cluster.yml" and not r.meta["scope"].get("check")
    ]
    whole = [r for r in applied if not r.meta["scope"]]
    built = next((r for r in reversed(whole) if _built(r)), None)
    if built is None and first:
        raise StateError("report-no-first", _NO_FIRST, where=_runs(), hint=_RUN_AGAIN)
    after = [r for r in whole if built and mine.index(r) > mine.index(built)]
    again = after[0] if after else None
    if again is None and second:
        message = "there is no second run of the whole playbook yet"
        raise StateError("report-no-second", message, where=_runs(), hint=_RUN_AGAIN)
    since = mine.index(again) if again else -1
    tagged = [r for r in applied if r.meta["scope"].get("tags") and mine.index(r) > since]
    if not tagged and tags:
        message = "no run with tags has followed the second run yet"
        hint = f"{_RUN_AGAIN} --tags containerd"
        raise StateError("report-no-tags", message, where=_runs(), hint=hint)
    return [built, again, tagged[-1] if tagged else None]


def _built(record: Record) -> bool:
    from nidome.prove.labreport import build_of  # noqa: PLC0415 - not needed for --help

    changes = [c for e in record.events() if e["type"] == "task_finished" for c in e["changes"]]
    return build_of(changes)


def _runs() -> str:
    from nidome.prove.records import runs_directory  # noqa: PLC0415 - not needed for --help

    return str(runs_directory())


def _live(spec: ClusterSpec, host: str) -> Live:
    """Ask the cluster for what is in no log."""
    from nidome.prove.labreport import Live  # noqa: PLC0415 - not needed for --help

    node = json.loads(_kubectl(spec, "get", "node", host, "-o", "json"))
    version = json.loads(_kubectl(spec, "get", "--raw", "/version"))
    return Live(node["metadata"]["uid"], version["gitVersion"])


def _kubectl(spec: ClusterSpec, *words: str) -> str:
    from nidome.cli.kubectl import lend, program  # noqa: PLC0415 - not needed for --help

    handle = lend(common.administrator(spec))
    environment = {**os.environ, "KUBECONFIG": f"/proc/self/fd/{handle}"}
    command = ["kubectl", "--request-timeout=30s", *words]
    try:
        done = subprocess.run(
            command,
            executable=program(spec),
            pass_fds=(handle,),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(handle)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["kubectl said nothing"]
        raise StateError("report-no-answer", said[0], where=" ".join(command), hint="nidome status")
    return done.stdout
