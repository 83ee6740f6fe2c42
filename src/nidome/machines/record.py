"""The state file of a host: written before anything else exists of it, removed after everything else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome.errors import MachineError
from nidome.machines.places import write_json

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FILE_NAME", "Record", "all_in", "parse", "read", "read_if_possible", "write"]

FILE_NAME = "machine.json"
_FORMAT = 1


@dataclass(frozen=True)
class Record:
    """What is remembered of a host.

    ``token`` names its cgroups and is never used twice. ``complete`` is False while it is being made or
    removed: a record that stays so belongs to a run that was killed, and its host is swept.
    """

    name: str
    os: str
    address: str
    label: str
    token: str
    rootfs: str
    blobs: str
    created: str
    complete: bool

    def with_complete(self, *, complete: bool) -> Record:
        """Return the record with ``complete`` set so."""
        return replace(self, complete=complete)


def parse(text: str, where: str) -> Record:
    """Return the record in ``text``; raise MachineError ``machine-state-unreadable`` if there is none."""
    try:
        raw: dict[str, Any] = json.loads(text)
        if raw.pop("format") != _FORMAT:
            raise _unreadable(where, "it was written by another version of nidome")
        kept = {key: kind(raw.pop(key)) for key, kind in _KINDS.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(where, f"{type(error).__name__}: {error}") from error
    return Record(**kept)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is not text")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} is neither true nor false")


_KINDS: dict[str, Any] = {
    "name": _text,
    "os": _text,
    "address": _text,
    "label": _text,
    "token": _text,
    "rootfs": _text,
    "blobs": _text,
    "created": _text,
    "complete": _flag,
}


def _unreadable(where: str, why: str) -> MachineError:
    return MachineError(
        "machine-state-unreadable",
        f"the host's state can't be understood: {why}",
        where=where,
        hint="remove the host: nidome machines rm NAME",
    )


def read(directory: Path) -> Record | None:
    """Return the record in a host's directory, None if it has none (yet, or any more)."""
    file = directory / FILE_NAME
    try:
        return parse(file.read_text(encoding="utf-8"), str(file))
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_if_possible(directory: Path) -> Record | None:
    """Return the record in a host's directory, None also if it can't be understood."""
    try:
        return read(directory)
    except MachineError:
        return None


def all_in(root: Path, *, half: bool = False) -> list[Record]:
    """Return the records of the hosts under ``root`` by name; ``half``: also of those not whole.

    A record that can't be understood is left out here: naming its host says what is wrong with it.
    """
    if not root.is_dir():
        return []
    found = (read_if_possible(directory) for directory in sorted(root.iterdir()))
    return [known for known in found if known is not None and (half or known.complete)]


def write(directory: Path, record: Record) -> None:
    """Write the record into a host's directory, atomically."""
    write_json(directory / FILE_NAME, {"format": _FORMAT, **asdict(record)})
