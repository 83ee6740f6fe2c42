"""Plan files: ``nidome plan -o FILE`` keeps the options that it was made with, for ``nidome apply FILE``.

Names of files are kept as absolute ones, so that the plan can be applied from any directory. Values of ``-e``
and what comes through a pipe are not kept: who applies the plan gives them again.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.errors import DeclarationError, StateError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

__all__ = ["SOURCES", "absolute", "next_command", "read_plan", "restore", "sources"]

SOURCES = "sources"
"""The plan file's key under which the options are."""
_LARGEST = 256 * 1024 * 1024
"""Bytes of a plan file: Nidome wrote it, and one for many hosts may be long."""
_LISTS = (
    *("inventory", "extra_vars", "vault_id", "vault_password_file"),
    *("tags", "skip_tags", "limit", "ignore_preflight_errors"),
)
_FLAGS = ("ask_vault_pass", "strict", "allow_pipe_lookup", "take_over", "trust_server_sums")
_PATHS = ("cache_dir", "bundle")


def absolute(args: argparse.Namespace) -> None:
    """Name every file of the options by its absolute name: what the plan says of a place holds anywhere."""
    args.inventory = [_source(name) for name in common.inventories(args)]
    args.extra_vars = [_variables(value) for value in args.extra_vars]
    files = args.vault_password_file
    if not files and os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE"):
        files = [os.environ["ANSIBLE_VAULT_PASSWORD_FILE"]]
    args.vault_password_file = [_file(name) for name in files]
    args.vault_id = [_identity(text) for text in args.vault_id]
    for name in _PATHS:
        path = getattr(args, name)
        setattr(args, name, path and path.absolute())


def _file(name: str) -> str:
    return name if name == "prompt" else str(Path(name).expanduser().absolute())


def _source(name: str) -> str:
    from nidome.declare.sources import given  # noqa: PLC0415 - not needed for --help

    (source,) = given([name])
    return name if source.path is None else str(source.path.absolute())


def _variables(value: str) -> str:
    text = value.strip()
    return f"@{_file(text[1:])}" if text[:1] == "@" and text[1:] else value


def _identity(text: str) -> str:
    label, at, source = text.partition("@")
    return f"{label}@{_file(source)}" if at and source else text if at else _file(text)


def sources(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a plan as plain data; values of ``-e`` are masked."""
    kept: dict[str, Any] = {name: list(getattr(args, name)) for name in _LISTS}
    kept |= {name: getattr(args, name) for name in _FLAGS}
    kept |= {name: str(getattr(args, name) or "") for name in _PATHS}
    return {**kept, "extra_vars": [_shown(value) for value in args.extra_vars]}


def _shown(value: str) -> str:
    from nidome.declare.extravars import masked  # noqa: PLC0415 - not needed for --help

    return masked(value)


def _is_kept(shown: str) -> bool:
    """Tell whether a value of ``-e`` can be read again: a file that is no pipe."""
    return shown.startswith("@") and Path(shown[1:]).is_file()


def read_plan(path: Path) -> dict[str, Any]:
    """Return a stored plan; StateError ``plan-unreadable`` where the file holds none."""
    from nidome.declare.files import read_text  # noqa: PLC0415 - not needed for --help

    try:
        document = json.loads(read_text(path, limit=_LARGEST))
        if not isinstance(document, dict) or not isinstance(document.get("hosts"), dict):
            raise ValueError("it is not what `nidome plan -o FILE` writes")  # noqa: TRY301, TRY004 - told as below
        if SOURCES in document:
            _require_sources(document[SOURCES])
    except (DeclarationError, ValueError, RecursionError) as error:
        raise StateError(
            "plan-unreadable",
            f"cannot read the plan: {getattr(error, 'message', error)}",
            where=str(path),
            hint="nidome plan -o FILE",
        ) from None
    return document


def _require_sources(found: Any) -> None:
    """Raise ValueError unless these are the options of a plan."""
    kinds = {**dict.fromkeys(_LISTS, list), **dict.fromkeys(_FLAGS, bool), **dict.fromkeys(_PATHS, str)}
    fits = isinstance(found, dict) and all(isinstance(found.get(name), kinds[name]) for name in kinds)
    if not fits or not all(isinstance(word, str) for name in _LISTS for word in found[name]):
        raise ValueError("its options are not what `nidome plan -o FILE` writes")


def restore(args: argparse.Namespace, planned: Mapping[str, Any], path: Path) -> None:
    """Take over the options of a plan where none are given; what is given on the command line wins.

    Raises UsageError ``plan-options`` where the plan was made with values that it does not hold, and they are
    not given.
    """
    kept = planned.get(SOURCES)
    if kept is None:
        return
    if not args.extra_vars and all(map(_is_kept, kept["extra_vars"])):
        args.extra_vars = list(kept["extra_vars"])
    for name in (*_LISTS, *_FLAGS):
        if name != "extra_vars" and not getattr(args, name):
            setattr(args, name, kept[name])
    for name in _PATHS:
        setattr(args, name, getattr(args, name) or (Path(kept[name]) if kept[name] else None))
    absolute(args)
    if [_shown(value) for value in args.extra_vars] != kept["extra_vars"] and not _from_pipe(args):
        raise UsageError(
            "plan-options",
            f"the plan was made with {_told(kept['extra_vars'])}, and its values are not in the plan file",
            where=str(path),
            hint=f"{next_command(path, kept)}, with the values in place of ***"
            if kept["extra_vars"]
            else f"leave out -e: {next_command(path, kept)}",
        )


def _told(shown: list[str]) -> str:
    return shlex.join(word for value in shown for word in ("-e", value)) or "no -e"


def _from_pipe(args: argparse.Namespace) -> bool:
    """Tell whether variables come through a pipe: its name is another one each time."""
    return any(value.startswith("@") and not Path(value[1:]).is_file() for value in args.extra_vars)


def next_command(path: Path, kept: Mapping[str, Any]) -> str:
    """Return the command that applies a plan: its file, and what of ``-e`` the file does not hold."""
    given = kept["extra_vars"]
    again = [] if all(map(_is_kept, given)) else [word for value in given for word in ("-e", value)]
    return shlex.join(["nidome", "apply", *again, str(path)])
