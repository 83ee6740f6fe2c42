"""``nidome kubectl``: the cluster's kubectl, run on this machine, so that files named to it are found.

Every word is kubectl's, ``--help``, ``-n`` and ``-i`` too. Nidome's own are only those that come first:
``--inventory DIR``, then optionally ``--``. NIDOME_INVENTORY does the same for all commands.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec

__all__ = ["lend", "program", "run", "split"]

_OPTION = "--inventory"


def split(words: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the inventory, and the words that are kubectl's."""
    rest = list(words)
    chosen = common.default_inventory()
    if rest and rest[0] == _OPTION:
        if not rest[1:]:
            raise UsageError(
                "inventory-unnamed", f"{_OPTION} names no inventory", where="nidome kubectl", hint=_HINT
            )
        chosen, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith(f"{_OPTION}="):
        chosen, rest = rest[0].partition("=")[2], rest[1:]
    return Path(chosen), rest[1:] if rest[:1] == ["--"] else rest


_HINT = "nidome kubectl --inventory DIR -- get nodes"


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
    inventory, mine = split(words)
    parser = argparse.ArgumentParser()
    common.add_inventory(parser)
    args = parser.parse_args([f"--inventory={inventory}"])
    spec, warnings = common.declared(args)
    common.warn_briefly(warnings, args)
    file = program(spec)
    config = f"/proc/self/fd/{lend(common.administrator(spec))}"
    sys.stdout.flush()
    # The name that it is called by tells the program, which is several in one, to be kubectl.
    os.execve(file, ["kubectl", *mine], {**os.environ, "KUBECONFIG": config})  # noqa: S606 - no shell
