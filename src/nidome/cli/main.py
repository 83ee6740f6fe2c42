"""Entry point: a table of commands, each in a module imported only when it is used.

A command module has ``configure(parser)`` and ``run(args) -> int`` (the exit code); one whose words are
another program's has only ``run(words) -> int``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nidome import __version__
from nidome.cli.stopping import heed_termination, stopped
from nidome.errors import NidomeError, StateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "Command", "main"]


@dataclass(frozen=True)
class Command:
    """A command's name, the module that has it, and its line in ``--help``."""

    name: str
    module: str
    summary: str
    verbatim: bool = False
    """The module's ``run`` is given the words after the command as they are: they are another program's."""


COMMANDS: tuple[Command, ...] = (
    Command("up", "nidome.cli.up", "make a disposable host with a Ready cluster on it"),
    Command("plan", "nidome.cli.plan", "show what an apply would change, and why"),
    Command("apply", "nidome.cli.apply", "converge to the declaration"),
    Command(
        "playbook", "nidome.cli.playbook", "cluster.yml, reset.yml, facts.yml the way ansible-playbook does"
    ),
    Command("why", "nidome.cli.why", "show where a value comes from, what it reaches and what is live"),
    Command("status", "nidome.cli.status", "show components, versions, restarts and whether all is up"),
    Command("logs", "nidome.cli.logs", "show the journal of a component"),
    Command("kubectl", "nidome.cli.kubectl", "run kubectl against the cluster", verbatim=True),
    Command("kubeconfig", "nidome.cli.kubeconfig", "print or write the administrator's kubeconfig"),
    Command("runs", "nidome.cli.runs", "list and show records of runs"),
    Command("reset", "nidome.cli.reset", "remove from the hosts all that Nidome made there"),
    Command("down", "nidome.cli.down", "remove the disposable hosts that `up` made"),
    Command("artifacts", "nidome.cli.artifacts", "list, fetch, verify and bundle what gets installed"),
    Command("machines", "nidome.cli.machines", "create and remove disposable systemd hosts"),
)


class _Parser(argparse.ArgumentParser):
    """Ends with 1 on bad usage: 2 is a plan with changes."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and how it is used."""
        self.print_usage(sys.stderr)
        self.exit(1, UsageError("usage", message, hint=f"{self.prog} --help").render() + "\n")


def _top_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nidome",
        description="Declare a Kubernetes cluster, converge, prove that the second run changed nothing.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n" + "\n".join(f"  {c.name:<12}{c.summary}" for c in COMMANDS),
        usage="nidome [--version] COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"nidome {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of those below; COMMAND --help says more")
    return parser


def _dispatch(argv: Sequence[str]) -> int:
    top = _top_parser()
    args = top.parse_args(argv[:1])
    command = next((c for c in COMMANDS if c.name == args.command), None)
    if command is None:
        top.error(f"no command '{args.command}'")
    module = importlib.import_module(command.module)
    if command.verbatim:
        return int(module.run(argv[1:]))
    parser = _Parser(prog=f"nidome {command.name}", description=command.summary)
    module.configure(parser)
    given = parser.parse_args(argv[1:], argparse.Namespace(typed=tuple(argv)))
    try:
        return int(module.run(given))
    except NidomeError as error:
        error.hint = _completed(error.hint, given)
        raise


def _completed(hint: str, args: argparse.Namespace) -> str:
    from nidome.cli.again import completed  # noqa: PLC0415 - not needed for --help

    return completed(hint, args)


def _retyped(words: Sequence[str]) -> str:
    from nidome.cli.again import retyped  # noqa: PLC0415 - not needed for --help

    return retyped(words)


def _explained(error: NidomeError) -> NidomeError:
    from nidome.cli.common import explained  # noqa: PLC0415 - not needed for --help

    return explained(error)


def _open_standard_streams() -> None:
    """Open what the caller closed: a file or a connection would get its number, and be written to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 for success, 1 for an error or bad usage, 2 for a plan with changes.

    130 and 143 are for one that Ctrl-C or SIGTERM has ended.
    """
    _open_standard_streams()
    if argv is None:
        heed_termination()
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except NidomeError as error:
        print(_explained(error).render(), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        ended = stopped(stop, f"run it again: {_retyped(sys.argv[1:] if argv is None else argv)}")
        print(ended.render(), file=sys.stderr)
        return ended.exit_code
    except BrokenPipeError:
        # The reader (head, less) went away: not an error of ours, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        told = StateError("system", str(failure), hint="free space, or look at the place that is named")
        print(told.render(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
