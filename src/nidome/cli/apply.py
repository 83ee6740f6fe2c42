"""``nidome apply``: converge to the declaration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.background import add_detach, launch
from nidome.cli.views import view
from nidome.errors import DeclarationError, StateError

if TYPE_CHECKING:
    import argparse

    from nidome.engine.run import Options
    from nidome.events import Sink
    from nidome.model.spec import ClusterSpec

__all__ = ["configure", "converge", "options", "run"]


_LARGEST = 256 * 1024 * 1024
"""Bytes of a plan file: Nidome wrote it, and one for many hosts may be long."""


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

    selection = Selection(common.words(args.tags), common.words(args.skip_tags), common.limits(args))
    return Options(selection, common.words(args.ignore_preflight_errors), args.take_over)


def _stored(path: Path) -> dict[str, Any]:
    from nidome.declare.files import read_text  # noqa: PLC0415 - not needed for --help

    try:
        document = json.loads(read_text(path, limit=_LARGEST))
        if not isinstance(document, dict) or not isinstance(document.get("hosts"), dict):
            raise ValueError("it is not what `nidome plan -o FILE` writes")  # noqa: TRY301, TRY004 - told as below
    except (DeclarationError, ValueError, RecursionError) as error:
        raise StateError(
            "plan-unreadable",
            f"cannot read the plan: {getattr(error, 'message', error)}",
            where=str(path),
            hint="nidome plan -o FILE",
        ) from None
    return document


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
    planned = _stored(args.plan) if args.plan else None
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
