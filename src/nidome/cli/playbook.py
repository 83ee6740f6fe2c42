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
from nidome.cli.views import view
from nidome.errors import PreflightError, ResourceError, TransportError, UsageError
from nidome.events import RunFinished
from nidome.provenance import DEFAULT, Origin, Sourced

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from nidome.engine.run import Options
    from nidome.engine.selection import Selection
    from nidome.events import Event, Sink
    from nidome.model.spec import ClusterSpec, HostSpec
    from nidome.roles.base import Play

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
_COMMAND_LINE = Origin("command line")


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
    _add_listing(parser)
    _add_way(parser)
    flag = parser.add_argument
    flag("--start-at-task", default="", metavar="TASK", help="begin with this task (* matches anything)")
    flag("-C", "--check", action="store_true", help="tell what would be changed, and change nothing")
    flag("-D", "--diff", action="store_true", help="show what is changed in files; secrets are not shown")
    flag("-f", "--forks", type=int, default=20, help="hosts worked on at once (default: %(default)s)")
    add_detach(parser)


def _add_listing(parser: argparse.ArgumentParser) -> None:
    flag = parser.add_argument
    flag("--list-hosts", action="store_true", help="list the hosts of each play, and do nothing else")
    flag("--list-tasks", action="store_true", help="list plays and tasks, and do nothing else")
    flag("--list-tags", action="store_true", help="list the tags of each play, and do nothing else")
    flag("--syntax-check", action="store_true", help="read playbook and inventory, and do nothing else")


def _add_way(parser: argparse.ArgumentParser) -> None:
    """Add what says how to reach the hosts; as in Ansible, the inventory's own variables win."""
    flag = parser.add_argument
    flag("-u", "--user", metavar="REMOTE_USER", help="log in as this user where the inventory names none")
    flag("--private-key", "--key-file", metavar="FILE", help="ssh key where the inventory names none")
    flag("-c", "--connection", choices=("ssh", "local", "smart"), help="where the inventory names none")
    flag("-b", "--become", action="store_true", help="become root with sudo")
    flag("--become-user", default="root", metavar="USER", help="only root will do")
    flag("--become-method", default="sudo", metavar="METHOD", help="only sudo will do")
    flag("-K", "--ask-become-pass", action="store_true", help="refused: sudo must ask for no password")
    flag("-k", "--ask-pass", action="store_true", help="refused: ssh must ask for no password")


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


def _require_possible(args: argparse.Namespace) -> None:
    """Refuse what cannot be had, with what to do instead."""
    if args.ask_become_pass or args.ask_pass:
        option = "-K" if args.ask_become_pass else "-k"
        raise UsageError(
            "password-prompt",
            "Nidome types no passwords on hosts",
            where=option,
            hint="ssh: a key (ssh-copy-id HOST); sudo: `USER ALL=(ALL) NOPASSWD: ALL` by visudo on the host",
        )
    if (args.become_user, args.become_method) != ("root", "sudo"):
        raise UsageError(
            "become-other",
            "only root by sudo can set up a node",
            where=f"--become-user {args.become_user} --become-method {args.become_method}",
            hint="leave both out, and use -b",
        )
    if args.forks < 1:
        raise UsageError("forks", "at least one host is worked on at once", where="--forks", hint="--forks 5")


def _selection(args: argparse.Namespace) -> Selection:
    from nidome.engine.selection import Selection  # noqa: PLC0415 - not needed for --help

    chosen = (common.words(args.tags), common.words(args.skip_tags), common.words(args.limit))
    return Selection(*chosen, args.start_at_task)


def _options(args: argparse.Namespace, *, partial: bool = False) -> Options:
    from nidome.engine.run import Options  # noqa: PLC0415 - not needed for --help

    ignored = common.words(args.ignore_preflight_errors)
    return Options(_selection(args), ignored, args.take_over, forks=args.forks, partial=partial)


def _reached(host: HostSpec, args: argparse.Namespace) -> HostSpec:
    """Return the host with what the command line says of the way to it, where the inventory says nothing."""
    changes: dict[str, Any] = {}
    given = {"user": args.user, "private_key_file": args.private_key, "become": args.become or None}
    given["connection"] = None if args.connection == "smart" else args.connection
    for name, value in given.items():
        if value is not None and getattr(host, name).origin == DEFAULT:
            changes[name] = Sourced(value, _COMMAND_LINE)
    return replace(host, **changes) if changes else host


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
    _require_possible(args)
    confirmed = _confirmed(args)
    spec, warnings = common.declared(args)
    spec = replace(spec, hosts=tuple(_reached(host, args) for host in spec.hosts))
    if args.list_hosts or args.list_tasks or args.list_tags or args.syntax_check:
        common.warn(warnings)
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
    plays = listing(_playbooks()[name].plays, spec, chosen(spec, selection.limit))
    shown = {"hosts": args.list_hosts, "tasks": args.list_tasks, "tags": args.list_tags}
    if args.syntax_check:
        print(f"\nplaybook: {args.playbook[0]}")
    else:
        print(render_lists(args.playbook[0], plays, selection, **shown))
    return 0


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
    return confirm(chosen(spec, common.words(args.limit)), spec.source, again)


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
