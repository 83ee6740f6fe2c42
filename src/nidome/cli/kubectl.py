"""``nidome kubectl``: the cluster's kubectl, run on this machine, so that files named to it are found.

Every word is kubectl's, ``--help``, ``-n`` and ``-i`` too. Nidome's own are only those that come first: the
options that name a declaration, by their long names; or by any name where nothing else stands before ``--``.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from nidome.cli import common
from nidome.cli.again import completing
from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nidome.model.spec import ClusterSpec

__all__ = ["FLAGS", "VALUED", "lend", "own_options", "program", "run", "split"]

VALUED = (
    "--inventory",
    "--extra-vars",
    "--vault-id",
    "--vault-password-file",
    "--vault-pass-file",
)
"""Nidome's own options that are followed by a value."""
FLAGS = ("--strict", "--allow-pipe-lookup", "--ask-vault-pass", "--ask-vault-password")
"""Nidome's own options without a value."""
_HINT = "nidome kubectl --inventory DIR -- get nodes"


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError("kubectl-options", message, where="nidome kubectl", hint=_HINT)


def own_options() -> argparse.ArgumentParser:
    """Return the parser of the words that are Nidome's."""
    parser = _Parser(prog="nidome kubectl", add_help=False, allow_abbrev=False)
    common.add_inventory(parser)
    return parser


def split(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return Nidome's own options, and the words that are kubectl's."""
    rest = list(words)
    parser = own_options()
    if "--" in rest and rest[0] not in ("--", "--help"):
        before = rest.index("--")
        try:
            return parser.parse_args(rest[:before]), rest[before + 1 :]
        except UsageError:
            pass  # the -- is kubectl's: something before it is no option of ours
    count = _leading(rest)
    mine, rest = rest[:count], rest[count:]
    if mine[-1:] == ["--inventory"] and mine[-2:-1] != ["--inventory"]:
        message = "--inventory names no inventory"
        raise UsageError("inventory-unnamed", message, where="nidome kubectl", hint=_HINT)
    return parser.parse_args(mine), rest[1:] if rest[:1] == ["--"] else rest


def _leading(words: Sequence[str]) -> int:
    """Return how many of the first words are Nidome's own options with their values."""
    count = 0
    while count < len(words):
        name, equals, _ = words[count].partition("=")
        if name not in VALUED and words[count] not in FLAGS:
            break
        count += 2 if name in VALUED and not equals else 1
    return min(count, len(words))


def program(spec: ClusterSpec) -> Path:
    """Return the cluster's own kubectl; called ``kubectl``, the file is that and nothing else."""
    from nidome.artifacts.settings import Settings  # noqa: PLC0415 - not needed for --help

    return common.fetcher(Settings(), spec)(("kubectl",))["kubectl"].path


def lend(text: str) -> int:
    """Return an open file from which a program that is started here can read ``text``: never on disk."""
    handle = os.memfd_create("kubeconfig", 0)
    os.write(handle, text.encode())
    return handle


def run(words: Sequence[str]) -> int:
    """Become kubectl; its exit code is the command's."""
    args, mine = split(words)
    with completing(args):
        spec, warnings = common.declared(args)
        common.warn(warnings)
        file = program(spec)
        config = f"/proc/self/fd/{lend(common.administrator(spec))}"
    sys.stdout.flush()
    # The name that it is called by tells the program, which is several in one, to be kubectl.
    os.execve(file, ["kubectl", *mine], {**os.environ, "KUBECONFIG": config})  # noqa: S606 - no shell
