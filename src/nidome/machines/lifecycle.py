"""Making, starting and stopping disposable hosts.

A host's record is its first file and its last: whatever a killed run left is found through it, and the
next ``create`` or ``remove`` of that name sweeps it. One lock per host keeps two runs from one host; the
lock of the state directory is held only for short steps on what hosts share.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import MachineError
from nidome.machines import cgroups, guest, network, reach, record, removal, rootfs, supervisor
from nidome.machines.addresses import free_address
from nidome.machines.model import DEFAULT_OS, Machine, no_such_machine, valid_name, valid_os
from nidome.machines.places import locked, machines_root, mountable, readable_errors
from nidome.machines.requirements import require, require_root
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.machines.record import Record

__all__ = ["create", "create_many", "get", "listing", "start", "stop"]

_POWER_OFF_SECONDS = 60.0


@dataclass(frozen=True)
class _Order:
    """What hosts are to be made like: of which release, over which root file system, showing which blobs."""

    os: str
    lower: Path
    blobs: Path | None


@dataclass(frozen=True)
class _Reserved:
    """A host that has a directory, a record and an address, and no disk yet."""

    directory: Path
    known: Record
    net: network.Network


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

    They get ascending addresses. When one fails, its error is raised and nothing is left of any of them.
    """
    wanted = [valid_name(name) for name in dict.fromkeys(names)]
    valid_os(os)
    shown = _existing_directory(blobs)
    require()
    root = machines_root()
    with readable_errors(root):
        _refuse_existing(root, wanted)
        order = _Order(os, rootfs.ensure(os, progress or Progress.silent()), shown)
        with ExitStack() as locks:
            reserved: list[_Reserved] = []
            try:
                reserved.extend(_reserve(root, name, order, locks) for name in wanted)
                return _make_all(root, reserved)
            except BaseException:
                locks.close()
                removal.abandon(root, wanted, ours={host.known.name for host in reserved})
                raise


def _existing_directory(blobs: Path | None) -> Path | None:
    if blobs is None:
        return None
    if blobs.is_dir():
        return mountable(blobs.absolute())
    raise MachineError(
        "machine-blobs-missing",
        "the directory to show in the host does not exist",
        where=str(blobs),
        hint="nidome artifacts fetch",
    )


def _refuse_existing(root: Path, names: Sequence[str]) -> None:
    """Say early, before a root file system is made, that a host exists."""
    for name in names:
        known = record.read_if_possible(root / name)
        if known is not None and known.complete:
            raise _exists(name)


def _exists(name: str) -> MachineError:
    return MachineError(
        "machine-exists",
        f"there is a host {name!r} already",
        where=name,
        hint=f"nidome machines start {name}, or remove it: nidome machines rm {name}",
    )


def _reserve(root: Path, name: str, order: _Order, locks: ExitStack) -> _Reserved:
    """Give a host its directory, record and address, and its lock into ``locks``."""
    directory = root / name
    with locked(root, create=True):
        directory.mkdir(mode=0o700, exist_ok=True)
        locks.enter_context(removal.host_lock(directory))
        known = record.read_if_possible(directory)
        if known is not None and known.complete:
            raise _exists(name)
        removal.sweep(directory)
        net = network.bring_up(root)
        new = _new_record(root, name, order, net)
        record.write(directory, new)
        guest.ensure_key(root)
    return _Reserved(directory, new, net)


def _new_record(root: Path, name: str, order: _Order, net: network.Network) -> Record:
    taken = {known.address for known in record.all_in(root, half=True) if known.name != name}
    address = str(free_address(net.network, taken))
    return record.Record(
        name=name,
        os=order.os,
        address=address,
        label=net.label(address),
        token=supervisor.new_token(root / name),
        rootfs=str(order.lower),
        blobs=str(order.blobs or ""),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        complete=False,
    )


def _make_all(root: Path, reserved: Sequence[_Reserved]) -> list[Machine]:
    """Make the hosts side by side; when one fails or somebody interrupts, the others stop waiting."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, len(reserved))) as pool:
        try:
            made = [pool.submit(_make, root, host, cancelled) for host in reserved]
            machines = [future.result() for future in made]
        except BaseException:
            cancelled.set()
            raise
    for host in reserved:
        record.write(host.directory, host.known.with_complete(complete=True))
    return machines


def _make(root: Path, host: _Reserved, cancelled: threading.Event) -> Machine:
    boot = _boot(host.directory, host.known, host.net)
    guest.prepare(boot, host.known.address, host.net, guest.key_path(root))
    _power_on(boot, host.known, cancelled)
    return _machine(root, host.known)


def _boot(directory: Path, known: Record, net: network.Network) -> supervisor.Boot:
    return supervisor.Boot(
        name=known.name,
        directory=directory,
        lower=Path(known.rootfs),
        bridge=net.bridge,
        label=known.label,
        blobs=Path(known.blobs) if known.blobs else None,
    )


def _power_on(boot: supervisor.Boot, known: Record, cancelled: threading.Event) -> None:
    supervisor.power_on(boot, supervisor.group_of(known.token))
    log = boot.directory / "console.log"
    reach.wait(known.address, log, running=lambda: _is_running(known), cancelled=cancelled)


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
        return [_machine(root, known) for known in record.all_in(root)]


def get(name: str) -> Machine:
    """Return the host ``name``; raise MachineError ``machine-not-found`` if there is none."""
    root = machines_root()
    with readable_errors(root):
        return _machine(root, _known(root, name))


def _known(root: Path, name: str) -> Record:
    known = record.read(root / valid_name(name))
    if known is not None and known.complete:
        return known
    raise no_such_machine(name, [other.name for other in record.all_in(root)])


def start(name: str) -> Machine:
    """Power a host on, with the disk and the address it had; return it when it answers over ssh.

    A host that is on already is left as it is.
    """
    require()
    root = machines_root()
    with readable_errors(root), ExitStack() as locks:
        known = _known(root, name)
        directory = root / name
        with locked(root):
            locks.enter_context(removal.host_lock(directory))
            net = network.bring_up(root)
        if not _is_running(known):
            _refuse_missing_disk(known)
            supervisor.pull_the_plug(directory, known.label)  # what a power-off from inside left
            # After a restart of the machine the bridge may have another number.
            known = replace(known, label=net.label(known.address))
            record.write(directory, known)
            _power_on(_boot(directory, known, net), known, threading.Event())
        return _machine(root, known)


def _refuse_missing_disk(known: Record) -> None:
    if not Path(known.rootfs).is_dir():
        raise MachineError(
            "machine-rootfs-gone",
            "the root file system under the host's disk was deleted from the cache",
            where=known.rootfs,
            hint=f"nidome machines rm {known.name}, then create it anew",
        )


def stop(name: str, *, force: bool = False) -> Machine:
    """Power a host off; its disk and address stay. ``force`` pulls the plug instead of asking.

    A host that does not power off within a minute has its plug pulled too.
    """
    require_root()
    root = machines_root()
    with readable_errors(root):
        known = _known(root, name)
        with removal.host_lock(root / name):
            if not force:
                supervisor.power_off(supervisor.group_of(known.token), _POWER_OFF_SECONDS)
            supervisor.pull_the_plug(root / name, known.label)
        return _machine(root, known)
