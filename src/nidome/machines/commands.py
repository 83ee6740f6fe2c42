"""Running the machine's own programs, with failures told as errors of ours."""

from __future__ import annotations

import errno
import json
import subprocess
from typing import TYPE_CHECKING, Any

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["query_json", "run"]


def run(arguments: Sequence[str], *, stdin: str | None = None, check: bool = True) -> str:
    """Run a program to its end and return what it printed.

    Raises MachineError ``machine-command-failed`` with the program's own last line, unless ``check`` is off;
    OSError where the disk is full.
    """
    try:
        done = subprocess.run(arguments, input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MachineError(
            "machine-command-missing",
            f"the program {arguments[0]} is not installed",
            where=arguments[0],
            hint="nidome machines check",
        ) from error
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        if "No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, said, arguments[-1])
        raise MachineError(
            "machine-command-failed",
            f"{arguments[0]} failed with exit code {done.returncode}: {said}",
            where=" ".join(arguments),
            hint="nidome machines check",
        )
    return done.stdout


def query_json(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Run a program that prints a JSON array, and return it."""
    parsed: list[dict[str, Any]] = json.loads(run(arguments) or "[]")
    return parsed
