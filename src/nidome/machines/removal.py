"""Removing hosts, or what killed runs left of them, and with the last one what all of them shared."""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nidome.errors import MachineError
from nidome.machines import guest, network, record, supervisor
from nidome.machines.model import no_such_machine, valid_name
from nidome.machines.places import locked, machines_root, readable_errors, remove_empty, remove_tree
from nidome.machines.requirements import require_root

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

__all__ = ["abandon", "host_lock", "names", "remove", "sweep"]


@contextmanager
def host_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of one host; raise MachineError ``machine-busy`` when another run holds it."""
    with locked(directory, wait=False) as held:
        if not held:
            raise MachineError(
                "machine-busy",
                f"another nidome is working on host {directory.name!r}",
                where=str(directory),
                hint="wait for it to end, then try again",
            )
        yield


def names() -> list[str]:
    """Return the names of all hosts, with those that a killed run left half made or half removed."""
    root = machines_root()
    with readable_errors(root):
        return [directory.name for directory in _directories(root)]


def _directories(root: Path) -> list[Path]:
    """Return the directories of hosts; what begins with an underscore is shared by them."""
    if not root.is_dir():
        return []
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("_"))


def remove(name: str) -> None:
    """Remove a host with everything that is there because of it; also what a killed run left of it.

    Raises MachineError ``machine-not-found`` when there is no trace of it.
    """
    valid_name(name)
    require_root()
    root = machines_root()
    directory = root / name
    with readable_errors(directory):
        try:
            with host_lock(directory):
                _remove_held(root, directory)
        except FileNotFoundError:
            if directory.exists() or not _tidy(root):
                raise no_such_machine(name, [known.name for known in record.all_in(root)]) from None


def abandon(root: Path, names: Collection[str], ours: Collection[str]) -> None:
    """Remove what a failed or interrupted ``create`` has made of ``names``; it holds no lock any more.

    Those of ``ours`` go in any case, the others only if they are not whole: an interrupt may come before
    their maker knows that it has begun. What another run works on by now is left to it.
    """
    for directory in (root / name for name in names):
        known = record.read_if_possible(directory)
        if directory.is_dir() and (directory.name in ours or known is None or not known.complete):
            with suppress(FileNotFoundError), locked(directory, wait=False) as held:
                if held:
                    _remove_held(root, directory)
    with suppress(FileNotFoundError):  # another run removed it just now
        _tidy(root)


def _remove_held(root: Path, directory: Path) -> None:
    """Remove a host whose lock the caller holds."""
    _mark(directory)
    sweep(directory)
    with locked(root):
        _remove_locked(root, directory)


def _remove_locked(root: Path, directory: Path) -> None:
    """Remove a host, and with the last one what they shared. The caller holds both locks.

    The record goes last: whoever finds it finds the rest.
    """
    sweep(directory)
    if _directories(root) == [directory]:
        _remove_shared(root)
    (directory / record.FILE_NAME).unlink(missing_ok=True)
    directory.rmdir()
    _remove_root(root)


def _mark(directory: Path) -> None:
    """Note that the host is not whole any more, before anything of it is taken away.

    On a full disk it goes without: a host must be removable to get space, and ``rm`` sweeps in any case.
    """
    known = record.read_if_possible(directory)
    if known is None or not known.complete:
        return
    try:
        record.write(directory, known.with_complete(complete=False))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def sweep(directory: Path) -> None:
    """End what runs for a host and remove all it has but its record and its directory."""
    known = record.read_if_possible(directory)
    supervisor.pull_the_plug(directory, known.label if known else "")
    for entry in directory.iterdir():
        if entry.name == record.FILE_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)


def _remove_shared(root: Path) -> None:
    network.tear_down(root)
    keys = guest.key_path(root).parent
    if keys.is_dir():
        remove_tree(keys)


def _remove_root(root: Path) -> None:
    remove_empty(root)
    if root.parent.name == "nidome":
        remove_empty(root.parent)


def _tidy(root: Path) -> bool:
    """Remove what hosts share if there are none; return whether there was anything to remove."""
    if not root.is_dir():
        return False
    with locked(root):
        if _directories(root):
            return False
        _remove_shared(root)
        _remove_root(root)
    return True
