"""``nidome apply``: converge to the declaration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.background import add_detach, launch
from nidome.cli.planfile import read_plan, restore
from nidome.cli.views import view

if TYPE_CHECKING:
    import argparse

    from nidome.engine.run import Options
    from nidome.events import Sink
    from nidome.model.spec import ClusterSpec

__all__ = ["configure", "converge", "options", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    common.add_run(parser)
    common.add_artifacts(parser)
    parser.add_argument(
        "plan", nargs="?", type=Path, metavar="PLAN", help="a plan file: apply exactly this, or refuse"
    )
    add_detach(parser)


def options(args: argparse.Namespace) -> Options:
    """Return a run's options from the command line."""
    from nidome.engine.run import Options  # noqa: PLC0415 - not needed for --help
    from nidome.engine.selection import Selection  # noqa: PLC0415 - as above

    selection = Selection(common.words(args.tags), common.words(args.skip_tags), tuple(args.limit))
    return Options(selection, common.words(args.ignore_preflight_errors), args.take_over)


def converge(
    spec: ClusterSpec, args: argparse.Namespace, sink: Sink, planned: dict[str, Any] | None = None
) -> bool:
    """Lock the hosts, plan, and carry the plan out; return whether all went well."""
    from nidome.engine.run import Run, require_same  # noqa: PLC0415 - not needed for --help
    from nidome.roles.playbook import CLUSTER  # noqa: PLC0415 - as above

    with Run(spec, CLUSTER, common.fetcher(common.settings(args), spec), sink, options(args)) as run:
        run.lock()
        plan = run.plan()
        if planned is not None:
            require_same(planned, plan)
        return run.apply(plan)


def run(args: argparse.Namespace) -> int:
    """Apply; return 0 when every host succeeded, 1 otherwise."""
    planned = read_plan(args.plan) if args.plan else None
    if planned is not None:
        restore(args, planned, args.plan)
    spec, warnings = common.declared(args)
    begun = launch(args)
    if begun.gone:
        return 0
    show = view(args.view, verbose=args.verbose)
    with common.recorded(
        spec, show, sys.argv, run=begun.run, playbook="cluster.yml", scope=common.scope(args)
    ) as sink:
        begun.arrived()
        common.warn(warnings, sink)
        return 0 if converge(spec, args, sink, planned) else 1
