"""``nidome why KEY``: the value in force, who wrote it, whom it beat, what it reaches, and what is live."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.cli.views import WaitView
from nidome.errors import ArtifactError, PreflightError, TransportError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nidome.declare.resolve import Declaration
    from nidome.model.spec import HostSpec
    from nidome.prove.origins import Answer
    from nidome.prove.why import Effect

__all__ = ["configure", "render", "run"]

_SHOWN = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    common.add_artifacts(parser)
    parser.add_argument("key", metavar="KEY", help="a variable of the inventory, or a field of the model")
    parser.add_argument("--host", help="for this host (default: the first one, for which most is decided)")
    parser.add_argument("--all", action="store_true", help="show every place, however many")
    parser.add_argument("--json", action="store_true", help="print JSON")


def render(answer: Answer, effects: Sequence[Effect], unreached: str, *, shown: int = _SHOWN) -> str:
    """Return the answer for people; ``unreached`` is why the host could not be asked, "" where it was."""
    lines = [f"{answer.name} = {answer.value}  ({answer.host})", *_written(answer), ""]
    if answer.ignored and not effects:
        return "\n".join([*lines, f"  ignored because {answer.ignored}"])
    if not effects:
        known = f"that is known: {unreached}" if unreached else "on the host"
        lines.append(f"  reaches nothing {known}")
    task = ""
    for effect in effects[:shown]:
        if effect.task != task:
            task = effect.task
            lines.append(f"  TASK [{task}]  tags: {', '.join(effect.tags)}")
        lines += _effect(effect, shown)
    if len(effects) > shown:
        lines.append(f"  … {len(effects) - shown} more resources (--all)")
    return "\n".join(lines)


def _written(answer: Answer) -> list[str]:
    lines = []
    for each in answer.written:
        word = "from" if each.wins else "beats"
        place = each.place if each.place == each.layer else f"{each.place}  {each.layer}"
        lines.append(f"  {word:<7} {place}{'' if each.wins else ': ' + each.value}")
    if answer.written or answer.default:
        lines.append(f"  {'beats' if answer.written else 'from':<7} default: {answer.default or '(none)'}")
    if answer.follows:
        lines.append(f"  follows {answer.follows}")
    if answer.used_by:
        lines.append(f"  used by {', '.join(answer.used_by)}")
    if answer.uses:
        lines.append(f"  uses    {', '.join(answer.uses)}")
    if answer.field:
        lines.append(f"  model   {answer.field}")
    return lines


def _effect(effect: Effect, shown: int) -> list[str]:
    state = f"{effect.state}{': ' + effect.detail if effect.detail else ''}"
    lines = [f"    {effect.resource}  {state}"]
    for place in effect.found[:shown]:
        lines.append(f"      {place.where}  {place.wanted}")
        if place.live is not None and place.live != place.wanted:
            lines.append(f"        live: {place.live}")
    if len(effect.found) > shown:
        lines.append(f"      … {len(effect.found) - shown} more places (--all)")
    return lines


def run(args: argparse.Namespace) -> int:
    """Answer; return 0, also where the host cannot be asked: what is declared is known all the same."""
    from nidome.engine.masking import masked  # noqa: PLC0415 - not needed for --help
    from nidome.prove.origins import origins  # noqa: PLC0415 - as above

    declaration = common.declaration(args)
    spec, secrets = declaration.spec, declaration.spec.secrets
    common.warn_briefly(declaration.warnings, args)
    host = common.host_named(spec, args.host) if args.host else spec.hosts[0]
    answer = origins(args.key, declaration, host.name)
    effects, unreached = _effects(args, declaration, host)
    if args.json:
        document = {**answer.to_json(), "effects": [e.to_json() for e in effects], "unreached": unreached}
        print(json.dumps(masked(document, secrets), indent=1))
    else:
        text = render(answer, effects, unreached, shown=sys.maxsize if args.all else _SHOWN)
        print(masked(text, secrets))
    return 0


def _effects(args: argparse.Namespace, declaration: Declaration, host: HostSpec) -> tuple[list[Effect], str]:
    """Return what the value does on the host, and why that cannot be said."""
    from nidome.engine.run import Options, Run  # noqa: PLC0415 - not needed for --help
    from nidome.engine.selection import Selection  # noqa: PLC0415 - as above
    from nidome.prove.why import look  # noqa: PLC0415 - as above
    from nidome.roles.playbook import CLUSTER  # noqa: PLC0415 - as above

    spec = declaration.spec
    options = Options(Selection(limit=(host.name,)))
    fetch = common.fetcher(common.settings(args), spec)
    try:
        with Run(spec, CLUSTER, fetch, WaitView(sys.stderr), options) as this:
            plan = this.plan()
            return look(args.key, declaration, this, plan.hosts[0]), ""
    except (PreflightError, TransportError, ArtifactError) as error:
        return [], str(common.explained(error))
