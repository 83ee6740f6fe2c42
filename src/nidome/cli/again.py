"""What a person types next: hints with the options that name the declaration, so that they work as typed.

A next step such as ``nidome apply`` means another cluster where ``-i`` was given and is left out. Values of
``-e`` are not repeated, because they may be passwords: they stand as ``***``, which ``-e`` refuses to read.
"""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

__all__ = ["completed", "completing", "declaring", "retyped", "typed"]

_READERS = (
    "apply",
    "down",
    "kubeconfig",
    "kubectl",
    "logs",
    "plan",
    "playbook",
    "reset",
    "status",
    "why",
)
# A command that reads a declaration, as a hint has it: no option that names one follows.
_NAMED = r"(?![^;`]* (?:-i|-e|--inventory|--extra-vars)(?! INVENTORY))"
_COMMAND = re.compile(rf"\bnidome ({'|'.join(_READERS)})\b{_NAMED}( -i INVENTORY)?")
_ONLY_INVENTORY = ("down",)


def declaring(args: argparse.Namespace) -> list[str]:
    """Return the options that name a declaration, as they were given; secret values are masked."""
    from nidome.declare.extravars import masked  # noqa: PLC0415 - not needed for --help

    words = _each("-i", getattr(args, "inventory", None) or ())
    words += _each("-e", [masked(value) for value in getattr(args, "extra_vars", ())])
    words += _each("--vault-id", getattr(args, "vault_id", ()))
    words += _each("--vault-password-file", getattr(args, "vault_password_file", ()))
    flags = ("ask_vault_pass", "strict", "allow_pipe_lookup")
    return words + [f"--{name.replace('_', '-')}" for name in flags if getattr(args, name, False)]


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def completed(hint: str, args: argparse.Namespace) -> str:
    """Return a next step whose commands have the options that name the declaration in force."""
    everything, inventory = declaring(args), _each("-i", getattr(args, "inventory", None) or ())

    def more(match: re.Match[str]) -> str:
        command = match[1]
        words = inventory if command in _ONLY_INVENTORY else everything
        if not words:
            return match[0]
        # kubectl's own words have a short -i: Nidome's come first, by their long names.
        shown = ["--inventory" if command == "kubectl" and word == "-i" else word for word in words]
        shown = ["--extra-vars" if command == "kubectl" and word == "-e" else word for word in shown]
        return f"nidome {command} {shlex.join(shown)}" + (" --" if command == "kubectl" else "")

    return _COMMAND.sub(more, hint)


@contextmanager
def completing(args: argparse.Namespace) -> Iterator[None]:
    """Complete the next step of an error that is raised inside."""
    from nidome.errors import NidomeError  # noqa: PLC0415 - as in completed

    try:
        yield
    except NidomeError as error:
        error.hint = completed(error.hint, args)
        raise


def typed(args: argparse.Namespace, *more: str) -> str:
    """Return the command that was parsed, as :func:`retyped`, with more words at its end."""
    return f"{retyped(args.typed)} {shlex.join(more)}".rstrip()


def retyped(words: Sequence[str]) -> str:
    """Return the command with these words as a person types it again; values of ``-e`` are masked."""
    from nidome.declare.extravars import without_values  # noqa: PLC0415 - not needed for --help

    return shlex.join(["nidome", *without_values(words)])
