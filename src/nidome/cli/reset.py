"""``nidome reset``: remove from the hosts all that Nidome made there; the inventory stays."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.cli.again import typed
from nidome.cli.views import view
from nidome.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nidome.model.spec import HostSpec

__all__ = ["configure", "confirm", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    common.add_view(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")


def confirm(hosts: Sequence[HostSpec], source: str, unasked: str) -> bool:
    """Ask whether the cluster may go from these hosts of the inventory ``source``.

    ``unasked`` is the command that does without being asked. Raises UsageError where nobody is at a terminal.
    """
    names = ", ".join(host.name for host in hosts)
    if not sys.stdin.isatty():
        raise UsageError(
            "confirmation-missing",
            f"a reset removes the cluster and its data from {names}, and there is no terminal to ask at",
            where=source,
            hint=unasked,
        )
    print(f"This removes the cluster with all its data, and everything else that Nidome made, from: {names}")
    try:
        return input("Type yes to go on: ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def run(args: argparse.Namespace) -> int:
    """Reset every host; return 0 when all are clean."""
    from nidome.engine.reset import reset  # noqa: PLC0415 - not needed for --help

    spec, warnings = common.declared(args)
    if not args.yes and not confirm(spec.hosts, spec.source, typed(args, "--yes")):
        print("nothing was changed")
        return 1
    show = view(args.view, verbose=args.verbose)
    with common.recorded(spec, show, sys.argv, playbook="reset.yml") as sink:
        common.warn(warnings, sink)
        return 0 if reset(spec, sink) else 1
