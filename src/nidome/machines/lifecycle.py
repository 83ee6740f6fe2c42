"""Making, starting, stopping and removing disposable hosts.

A host's record is its first file and its last: whatever a killed run left is found through it, and the
next ``create`` or ``remove`` of that name sweeps it. One lock per host keeps two runs from one host; the
lock of the state directory is held only for short steps on what hosts share.
"""

from __future__ import annotations

import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import MachineError
from nidome.machines import cgroups, guest, network, reach, record, rootfs, supervisor
from nidome.machines.addresses import free_address
from nidome.machines.model import DEFAULT_OS, Machine, no_such_machine, valid_name, valid_os
from nidome.machines.places import locked, machines_root, readable_errors, remove_empty
from nidome.machines.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.machines.model import Progress
    from nidome.machines.record import Record

__all__ = ["all_names", "create", "create_many", "get", "listing", "remove", "start", "stop"]

_POWER_OFF_SECONDS = 60.0


def create(
    name: str, *, os: str = DEFAULT_OS, blobs: Path | None = None, progress: Progress | None = None
) -> Machine:
    """Make a host, boot it, and return it when it answers over ssh.

    ``blobs`` is a directory to show read-only in the host at BLOBS_IN_GUEST. What a killed run left of
    that name is swept first. Raises MachineError ``machine-exists``, ``machine-busy``, or the reason why it
    can't be made; nothing is left of it then.
    """
    return create_many([name], os=os, blobs=blobs, progress=progress)[0]


def create_many(
    names: Sequence[str],
    *,
    os: str = DEFAULT_OS,
    blobs: Path | None = None,
    progress: Progress | None = None,
) -> list[Machine]:
    """Make several hosts side by side, as :func:`create` does one; return them in the order of ``names``.

    When one fails, its error is raised after the others are done; those that work stay.
    """
    for name in names:
        valid_name(name)
    valid_os(os)
    shown = _existing_directory(blobs)
    require()
    root = machines_root()
    with readable_errors(root):
        _refuse_existing(root, names)
        lower = rootfs.ensure(os, progress)
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            made = [pool.submit(_create, root, name, os, lower, shown) for name in dict.fromkeys(names)]
        return [future.result() for future in made]


def _existing_directory(blobs: Path | None) -> Path | None:
    if blobs is None or blobs.is_dir():
        return blobs and blobs.absolute()
    raise MachineError(
        "machine-blobs-missing",
        "the directory to show in the host does not exist",
        where=str(blobs),
        hint="nidome artifacts fetch",
    )


def _refuse_existing(root: Path, names: Sequence[str]) -> None:
    """Say early, before a root file system is made, that a host exists."""
    for name in names:
        known = record.read(root / name)
        if known is not None and known.complete:
            raise _exists(name)


def _exists(name: str) -> MachineError:
    return MachineError(
        "machine-exists",
        f"there is a host {name!r} already",
        where=name,
        hint=f"nidome machines start {name}, or remove it: nidome machines rm {name}",
    )


@contextmanager
def _host_lock(directory: Path) -> Iterator[None]:
    with locked(directory, wait=False) as held:
        if not held:
            raise MachineError(
                "machine-busy",
                f"another nidome is working on host {directory.name!r}",
                where=str(directory),
                hint="wait for it to end, then try again",
            )
        yield


def _create(root: Path, name: str, release: str, lower: Path, blobs: Path | None) -> Machine:
    directory = root / name
    with ExitStack() as stack, readable_errors(directory):
        with locked(root, create=True):
            directory.mkdir(mode=0o700, exist_ok=True)
            stack.enter_context(_host_lock(directory))
            known = record.read(directory)
            if known is not None and known.complete:
                raise _exists(name)
            _sweep(directory, known)
            net = network.bring_up(root)
            new = _new_record(root, name, release, lower, blobs, net)
            record.write(directory, new)
            guest.ensure_key(root)
        try:
            return _make(root, directory, new, net)
        except BaseException:
            _remove(root, directory)
            raise


def _new_record(
    root: Path, name: str, release: str, lower: Path, blobs: Path | None, net: network.Network
) -> Record:
    address = str(free_address(net.network, {known.address for known in _records(root)}))
    return record.Record(
        name=name,
        os=release,
        address=address,
        label=net.label(address),
        token=secrets.token_hex(6),
        rootfs=str(lower),
        blobs=str(blobs or ""),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        complete=False,
    )


def _make(root: Path, directory: Path, new: Record, net: network.Network) -> Machine:
    boot = _boot(directory, new, net)
    guest.prepare(boot, new.address, net, guest.key_path(root))
    supervisor.power_on(boot, supervisor.group_of(new.token))
    reach.wait(new.address, lambda: _is_running(new), directory / "console.log")
    record.write(directory, new.with_complete(complete=True))
    return _machine(root, new)


def _boot(directory: Path, known: Record, net: network.Network) -> supervisor.Boot:
    return supervisor.Boot(
        name=known.name,
        directory=directory,
        lower=Path(known.rootfs),
        bridge=net.bridge,
        label=known.label,
        blobs=Path(known.blobs) if known.blobs else None,
    )


def _records(root: Path) -> list[Record]:
    """Return the records of all hosts, also of those being made or half removed, by name."""
    try:
        directories = sorted(root.iterdir())
    except FileNotFoundError:
        return []
    return [known for directory in directories if (known := record.read(directory)) is not None]


def _is_running(known: Record) -> bool:
    return bool(cgroups.processes(supervisor.group_of(known.token).directories()))


def _machine(root: Path, known: Record) -> Machine:
    return Machine(
        name=known.name,
        os=known.os,
        address=known.address,
        port=reach.PORT,
        user="root",
        key=guest.key_path(root),
        known_hosts=guest.known_hosts(root / known.name),
        running=_is_running(known),
        created=known.created,
    )


def listing() -> list[Machine]:
    """Return all hosts by name, without those that a killed run left half made."""
    root = machines_root()
    with readable_errors(root):
        return [_machine(root, known) for known in _records(root) if known.complete]


def get(name: str) -> Machine:
    """Return the host ``name``; raise MachineError ``machine-not-found`` if there is none."""
    root = machines_root()
    with readable_errors(root):
        return _machine(root, _known(root, name))


def _known(root: Path, name: str) -> Record:
    known = record.read(root / valid_name(name))
    if known is not None and known.complete:
        return known
    raise no_such_machine(name, [other.name for other in _records(root) if other.complete])


def start(name: str) -> Machine:
    """Power a host on, with the disk and the address it had; return it when it answers over ssh.

    A host that is on already is left as it is.
    """
    require()
    root = machines_root()
    with readable_errors(root), ExitStack() as stack:
        known = _known(root, name)
        directory = root / name
        with locked(root):
            stack.enter_context(_host_lock(directory))
            net = network.bring_up(root)
        if not _is_running(known):
            _power_on(directory, known, net)
        return _machine(root, known)


def _power_on(directory: Path, known: Record, net: network.Network) -> None:
    if not Path(known.rootfs).is_dir():
        raise MachineError(
            "machine-rootfs-gone",
            "the root file system under the host's disk was deleted from the cache",
            where=known.rootfs,
            hint=f"nidome machines rm {known.name}, then create it anew",
        )
    group = supervisor.group_of(known.token)
    supervisor.pull_the_plug(group, _link(known))  # clears what a power-off from inside left
    supervisor.power_on(_boot(directory, known, net), group)
    reach.wait(known.address, lambda: _is_running(known), directory / "console.log")


def _link(known: Record) -> str:
    return f"vb-{known.label}"


def stop(name: str, *, force: bool = False) -> Machine:
    """Power a host off; its disk and address stay. ``force`` pulls the plug instead of asking.

    A host that does not power off within a minute has its plug pulled too.
    """
    require()
    root = machines_root()
    with readable_errors(root):
        known = _known(root, name)
        with _host_lock(root / name):
            group = supervisor.group_of(known.token)
            if not force:
                supervisor.power_off(group, _POWER_OFF_SECONDS)
            supervisor.pull_the_plug(group, _link(known))
        return _machine(root, known)


def remove(name: str) -> None:
    """Remove a host with everything that is there because of it; also what a killed run left of it.

    Raises MachineError ``machine-not-found`` when there is no trace of it.
    """
    valid_name(name)
    require()
    root = machines_root()
    directory = root / name
    with readable_errors(directory):
        if directory.is_dir():
            with _host_lock(directory):
                _remove(root, directory)
        elif not _tidy(root):
            raise no_such_machine(name, [other.name for other in _records(root) if other.complete])


def _remove(root: Path, directory: Path) -> None:
    """Remove a host and, with the last one, what they shared. The caller holds the host's lock."""
    known = record.read(directory)
    if known is not None:
        record.write(directory, known.with_complete(complete=False))
        _sweep(directory, known)
    with locked(root):
        if not any(other.name != directory.name for other in _records(root)):
            _remove_shared(root)
        shutil.rmtree(directory)
        _remove_root(root)


def _sweep(directory: Path, known: Record | None) -> None:
    """Remove all of a host but its record and its directory."""
    if known is not None:
        supervisor.pull_the_plug(supervisor.group_of(known.token), _link(known))
    for entry in directory.iterdir():
        if entry.name == record.FILE_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _remove_shared(root: Path) -> None:
    network.tear_down(root)
    shutil.rmtree(guest.key_path(root).parent, ignore_errors=True)


def _remove_root(root: Path) -> None:
    remove_empty(root)
    if root.parent.name == "nidome":
        remove_empty(root.parent)


def _tidy(root: Path) -> bool:
    """Remove what hosts share if there are none; return whether there was anything to remove."""
    if not root.is_dir():
        return False
    with locked(root):
        if any(entry.is_dir() and not entry.name.startswith("_") for entry in root.iterdir()):
            return False
        _remove_shared(root)
        _remove_root(root)
    return True


def all_names() -> list[str]:
    """Return the names of all hosts, with those that a killed run left half made or half removed."""
    root = machines_root()
    try:
        entries = sorted(root.iterdir())
    except FileNotFoundError:
        return []
    return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("_")]
