"""``nidome plan``: what an apply would change, before anything is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.cli.apply import options
from nidome.cli.planfile import SOURCES, absolute, next_command, sources
from nidome.cli.views import WaitView, render_plan

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]

_CHANGES = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    common.add_run(parser)
    common.add_artifacts(parser)
    parser.add_argument("-o", "--output", type=Path, help="store the plan, for: nidome apply FILE")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def run(args: argparse.Namespace) -> int:
    """Plan; return 0 when all is as declared, 2 when something is to be done, 1 when that would fail."""
    from nidome.engine.run import Run  # noqa: PLC0415 - not needed for --help
    from nidome.roles.playbook import CLUSTER  # noqa: PLC0415 - as above

    if args.output:
        absolute(args)
    spec, warnings = common.declared(args)
    common.warn(warnings)
    with Run(
        spec, CLUSTER, common.fetcher(common.settings(args), spec), WaitView(sys.stderr), options(args)
    ) as this:
        plan = this.plan()
    document = plan.to_json()
    if args.output:
        stored = {**document, SOURCES: sources(args)}
        common.write_file(args.output, json.dumps(stored, indent=1) + "\n")
    print(
        json.dumps(document, indent=1)
        if args.json or args.view == "json"
        else render_plan(document, plan.counts)
    )
    if plan.errors:
        return 1
    if args.output and not plan.empty:
        # Beside the output: what --json prints stays JSON.
        print(f"\nto apply exactly this: {next_command(args.output, sources(args))}", file=sys.stderr)
    return 0 if plan.empty and not plan.waiting else _CHANGES
