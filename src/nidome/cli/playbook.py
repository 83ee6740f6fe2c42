"""``nidome playbook``: kubespray's playbooks, with ansible-playbook's options, output and exit codes."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.again import typed
from nidome.cli.ansible_output import AnsibleView
from nidome.cli.background import add_detach, launch
from nidome.cli.playbook_options import add_options, reached, require_possible, unused
from nidome.cli.views import view
from nidome.errors import PreflightError, ResourceError, TransportError, UsageError
from nidome.events import RunFinished

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from nidome.engine.run import Options
    from nidome.engine.selection import Selection
    from nidome.events import Event, Sink
    from nidome.model.spec import ClusterSpec, HostSpec
    from nidome.roles.base import Play, Task

__all__ = ["configure", "run"]

_UNAVAILABLE = {
    "scale.yml": "this release makes clusters of one host: there is none to add",
    "upgrade-cluster.yml": "cluster.yml brings a cluster of one host to the kube_version that is declared",
    "remove-node.yml": "this release makes clusters of one host; reset.yml removes it",
    "recover-control-plane.yml": "this release makes clusters of one control-plane host",
}
_CONFIRM = "reset_confirmation"
_CONFIRMS = (_CONFIRM, "skip_confirmation")
_MASKED_CONFIRMATION = re.compile(rf"\b({'|'.join(_CONFIRMS)})=\*\*\*")
_YES = ("yes", "true")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options, under ansible-playbook's names."""
    parser.add_argument(
        "playbook",
        nargs="+",
        metavar="PLAYBOOK",
        help="cluster.yml, reset.yml or facts.yml; a path to it will do",
    )
    common.add_inventory(parser)
    common.add_run(parser)
    common.add_artifacts(parser)
    parser.set_defaults(view="ansible")
    add_options(parser)
    flag = parser.add_argument
    flag("--start-at-task", default="", metavar="TASK", help="begin with this task (* matches anything)")
    flag("-C", "--check", action="store_true", help="tell what would be changed, and change nothing")
    flag("-D", "--diff", action="store_true", help="show what is changed in files; secrets are not shown")
    flag("-f", "--forks", type=int, default=20, help="hosts worked on at once (default: %(default)s)")
    add_detach(parser)


@dataclass
class _Counts:
    """A sink that passes on, and remembers the recap of what it saw: the exit code follows from it."""

    sink: Sink
    recap: dict[str, dict[str, int]] | None = None

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        if isinstance(event, RunFinished):
            self.recap = event.recap
        self.sink(event)


@dataclass(frozen=True)
class _Playbook:
    """A playbook that exists: its plays, and what running it is."""

    plays: Sequence[Play]
    run: Callable[[ClusterSpec, argparse.Namespace, Sink], None]


def _playbooks() -> dict[str, _Playbook]:
    from nidome.roles.playbook import CLUSTER, FACTS_ONLY, RESET  # noqa: PLC0415 - not needed for --help

    return {
        "cluster.yml": _Playbook(CLUSTER, _cluster),
        "reset.yml": _Playbook(RESET, _reset),
        "facts.yml": _Playbook(FACTS_ONLY, _facts),
    }


def _name(given: Sequence[str]) -> str:
    """Return the playbook that is meant: by its file's name, wherever the file would be."""
    known = _playbooks()
    if len(given) > 1:
        raise UsageError(
            "playbook-many",
            "one playbook at a time",
            where=" ".join(given),
            hint="run them one after the other",
        )
    name = given[0].rpartition("/")[2].replace("_", "-")
    if name in _UNAVAILABLE:
        raise UsageError(
            "playbook-unavailable",
            f"{name} is not there yet: {_UNAVAILABLE[name]}",
            where=given[0],
            hint=_HINT,
        )
    if name not in known:
        raise UsageError("playbook-unknown", f"no playbook '{name}'", where=given[0], hint=_HINT)
    return name


_HINT = "playbooks: cluster.yml, reset.yml, facts.yml"


def _selection(args: argparse.Namespace) -> Selection:
    from nidome.engine.selection import Selection  # noqa: PLC0415 - not needed for --help

    chosen = (common.words(args.tags), common.words(args.skip_tags), tuple(args.limit))
    return Selection(*chosen, args.start_at_task)


def _options(args: argparse.Namespace, *, partial: bool = False) -> Options:
    from nidome.engine.run import Options  # noqa: PLC0415 - not needed for --help
    from nidome.roles.tags import KUBESPRAY_TAGS  # noqa: PLC0415 - as above

    ignored = common.words(args.ignore_preflight_errors)
    way = {"forks": args.forks, "partial": partial, "known_tags": KUBESPRAY_TAGS}
    return Options(_selection(args), ignored, args.take_over, **way)


def _confirmed(args: argparse.Namespace) -> str:
    """Take the confirmation of a reset out of ``-e``, where kubespray has it; return what it says last."""
    kept, said = [], ""
    for value in args.extra_vars:
        words = [] if value.startswith(("@", "{", "[")) else value.split()
        mine = [word for word in words if word.partition("=")[0] in _CONFIRMS]
        said = mine[-1].partition("=")[2].strip("'\"").lower() if mine else said
        rest = " ".join(word for word in words if word not in mine) if mine else value
        kept += [rest] if rest else []
    args.extra_vars = kept
    return said


def run(args: argparse.Namespace) -> int:
    """Run a playbook; return 0, 2 where a host failed, 4 where one was out of reach, 1 for bad usage."""
    name = _name(args.playbook)
    require_possible(args)
    confirmed = _confirmed(args)
    spec, warnings = common.declared(args)
    warnings += unused(args)
    spec = replace(spec, hosts=tuple(reached(host, args) for host in spec.hosts))
    if args.list_hosts or args.list_tasks or args.list_tags or args.syntax_check:
        common.warn(warnings, _view(args))
        return _lists(spec, name, args)
    if name == "reset.yml" and not (args.check or _may_reset(spec, args, confirmed)):
        print("nothing was changed")
        return 1
    return _run(spec, name, warnings, args)


def _lists(spec: ClusterSpec, name: str, args: argparse.Namespace) -> int:
    from nidome.cli.playbook_lists import render_lists  # noqa: PLC0415 - not needed for --help
    from nidome.engine.hostpatterns import chosen  # noqa: PLC0415 - as above
    from nidome.roles.listing import listing  # noqa: PLC0415 - as above

    selection = _selection(args)
    hosts = chosen(spec, selection.limit)
    plays = listing(_playbooks()[name].plays, spec, hosts)
    if name == "reset.yml":
        plays[-1] = replace(plays[-1], tasks=_reset_tasks(spec, hosts))
    shown = {"hosts": args.list_hosts, "tasks": args.list_tasks, "tags": args.list_tags}
    if args.syntax_check:
        print(f"\nplaybook: {args.playbook[0]}")
    else:
        print(render_lists(args.playbook[0], plays, selection, **shown))
    return 0


def _reset_tasks(spec: ClusterSpec, hosts: Sequence[HostSpec]) -> tuple[Task, ...]:
    from nidome.engine.reset import titles  # noqa: PLC0415 - only a reset's list asks
    from nidome.roles.base import Task  # noqa: PLC0415 - as above

    parted = (title.partition(" : ") for title in titles(spec, hosts))
    return tuple(Task(role, name, ()) for role, _, name in parted)


def _may_reset(spec: ClusterSpec, args: argparse.Namespace, said: str) -> bool:
    """Tell whether a reset was confirmed, with ``-e`` or at the terminal."""
    from nidome.cli.reset import confirm  # noqa: PLC0415 - only a reset asks
    from nidome.engine.hostpatterns import chosen  # noqa: PLC0415 - as above

    if said in _YES:
        return True
    again = _confirming(typed(args))
    if said:
        raise UsageError(
            "reset-declined",
            f"the reset is not confirmed: {_CONFIRM} is '{said}'",
            where="-e",
            hint=again,
        )
    return confirm(chosen(spec, args.limit), spec.source, again)


def _confirming(command: str) -> str:
    """Return a command that resets without asking."""
    shown = _MASKED_CONFIRMATION.sub(r"\1=yes", command)
    return shown if shown != command else f"{command} -e {_CONFIRM}=yes"


def _run(spec: ClusterSpec, name: str, warnings: Sequence[Any], args: argparse.Namespace) -> int:
    from nidome.prove.records import playbook_exit_code  # noqa: PLC0415 - not needed for --help

    begun = launch(args)
    if begun.gone:
        return 0
    with common.recorded(
        spec, _view(args), sys.argv, run=begun.run, playbook=name, scope=common.scope(args)
    ) as sink:
        begun.arrived()
        common.warn(warnings, sink)
        counts = _Counts(sink)
        _playbooks()[name].run(spec, args, counts)
    return playbook_exit_code(counts.recap or {})


def _view(args: argparse.Namespace) -> Sink:
    if args.view == "ansible":
        return AnsibleView(sys.stdout, verbose=args.verbose, diff=args.diff)
    return view(args.view, verbose=args.verbose)


def _cluster(spec: ClusterSpec, args: argparse.Namespace, sink: Sink) -> None:
    from nidome.roles.playbook import CLUSTER  # noqa: PLC0415 - not needed for --help

    _converge(spec, CLUSTER, args, sink, _options(args), check=args.check)


def _facts(spec: ClusterSpec, args: argparse.Namespace, sink: Sink) -> None:
    from nidome.roles.playbook import FACTS_ONLY  # noqa: PLC0415 - not needed for --help

    _converge(spec, FACTS_ONLY, args, sink, _options(args, partial=True), check=True)


def _converge(
    spec: ClusterSpec,
    plays: Sequence[Play],
    args: argparse.Namespace,
    sink: Sink,
    options: Options,
    *,
    check: bool,
) -> None:
    """Plan and carry out; an error that a host gives outside of the plays is told as its failed task."""
    from nidome.engine.refusal import tell_refusal  # noqa: PLC0415 - not needed for --help
    from nidome.engine.run import Run  # noqa: PLC0415 - as above

    began = time.monotonic()
    try:
        with Run(spec, plays, common.fetcher(common.settings(args), spec), sink, options) as this:
            if not check:
                this.lock()
            plan = this.plan()
            this.rehearse(plan) if check else this.apply(plan)
    except (TransportError, PreflightError, ResourceError) as error:
        tell_refusal(spec, plays, common.explained(error), sink, began)


def _reset(spec: ClusterSpec, args: argparse.Namespace, sink: Sink) -> None:
    from nidome.engine.hostpatterns import chosen  # noqa: PLC0415 - not needed for --help
    from nidome.engine.refusal import tell_refusal  # noqa: PLC0415 - as above
    from nidome.engine.reset import reset  # noqa: PLC0415 - as above
    from nidome.roles.playbook import RESET  # noqa: PLC0415 - as above

    selection = _selection(args)
    if not selection.everything:
        raise UsageError(
            "reset-partial",
            "a reset removes all of a host, in its own order",
            where="--tags, --skip-tags, --start-at-task",
            hint="leave them out; --limit chooses hosts",
        )
    began = time.monotonic()
    try:
        reset(spec, sink, hosts=chosen(spec, selection.limit), check=args.check)
    except (TransportError, ResourceError) as error:
        tell_refusal(spec, RESET, common.explained(error), sink, began)
