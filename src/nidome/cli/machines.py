"""``nidome machines``: disposable systemd hosts."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nidome import machines
from nidome.errors import MachineError, NidomeError, UsageError
from nidome.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    create = verbs.add_parser("create", help="make hosts and wait until they answer over ssh")
    create.add_argument("names", nargs="+", metavar="NAME")
    create.add_argument(
        "--os", default=machines.DEFAULT_OS, help=f"{', '.join(machines.RELEASES)} (%(default)s)"
    )
    create.add_argument(
        "--blobs", type=Path, metavar="DIR", help=f"show DIR read-only at {machines.BLOBS_IN_GUEST}"
    )
    listing = verbs.add_parser("list", help="show all hosts")
    listing.add_argument("--json", action="store_true", help="print JSON")
    ssh = verbs.add_parser("ssh", help="run a command, or a shell, on a host")
    ssh.add_argument("name", metavar="NAME")
    ssh.add_argument("remote", nargs="...", metavar="COMMAND")
    start = verbs.add_parser("start", help="power hosts on")
    start.add_argument("names", nargs="+", metavar="NAME")
    stop = verbs.add_parser("stop", help="power hosts off; disk and address stay")
    stop.add_argument("names", nargs="+", metavar="NAME")
    stop.add_argument("--force", action="store_true", help="pull the plug")
    rm = verbs.add_parser("rm", help="remove hosts without a trace")
    rm.add_argument("names", nargs="*", metavar="NAME")
    rm.add_argument("--all", action="store_true", help="remove every host")
    verbs.add_parser("check", help="say what this machine lacks for hosts")


def run(args: argparse.Namespace) -> int:
    """Run the verb; return its exit code."""
    # An ordinary end (a CI job's time is up) must clean up like Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return _VERBS[args.verb](args)


def _create(args: argparse.Namespace) -> int:
    for machine in machines.create_many(args.names, os=args.os, blobs=args.blobs, progress=Progress()):
        print(f"{machine.name}  {machine.os}  {machine.address}")
    return 0


def _list(args: argparse.Namespace) -> int:
    found = machines.listing()
    if args.json:
        print(json.dumps([_as_json(machine) for machine in found], indent=2))
        return 0
    rows = [("NAME", "OS", "ADDRESS", "POWER", "CREATED")]
    rows += [(m.name, m.os, m.address, "on" if m.running else "off", m.created) for m in found]
    # Being made or removed just now, or left so by a run that was killed: rm and create sweep those.
    rows += [
        (name, "", "", "incomplete", "") for name in machines.names() if name not in {m.name for m in found}
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _as_json(machine: machines.Machine) -> dict[str, object]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in vars(machine).items()}


def _ssh(args: argparse.Namespace) -> int:
    machine = machines.get(args.name)
    if not machine.running:
        raise MachineError(
            "machine-off",
            f"host {args.name!r} is powered off",
            where=args.name,
            hint=f"nidome machines start {args.name}",
        )
    command = machines.ssh_arguments(machine) + args.remote
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606 - an argument list without a shell is the safe form


def _start(args: argparse.Namespace) -> int:
    return _each(args.names, machines.start)


def _stop(args: argparse.Namespace) -> int:
    return _each(args.names, lambda name: machines.stop(name, force=args.force))


def _rm(args: argparse.Namespace) -> int:
    if bool(args.names) == args.all:
        raise UsageError(
            "machine-names-or-all",
            "either names or --all is wanted",
            where="nidome machines rm",
            hint="nidome machines rm NAME..., or nidome machines rm --all",
        )
    return _each(machines.names() if args.all else args.names, machines.remove)


def _check(_: argparse.Namespace) -> int:
    lacks = machines.missing()
    for lack in lacks:
        print(f"missing: {lack.what}  ({lack.hint})")
    if not lacks:
        print("nothing is missing: hosts can be made here")
    return 1 if lacks else 0


def _each(names: list[str], act: Callable[[str], object]) -> int:
    """Act on every name, also after one of them failed; return 1 if any did."""
    code = 0
    for name in dict.fromkeys(names):
        try:
            act(name)
        except NidomeError as error:
            print(error.render(), file=sys.stderr)
            code = error.exit_code
    return code


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "create": _create,
    "list": _list,
    "rm": _rm,
    "ssh": _ssh,
    "start": _start,
    "stop": _stop,
}
