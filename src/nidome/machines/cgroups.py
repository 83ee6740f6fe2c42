"""A host's own subtree in each cgroup hierarchy: made before its first process, gone after its last.

Everything that runs for a host is in its subtree, so the subtree is how its processes are found.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Hierarchy",
    "hierarchies",
    "hierarchies_in",
    "kill_all",
    "make",
    "processes",
    "remove",
    "subtrees",
]

_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy; ``unified`` for cgroup2, with or without controllers."""

    mount: Path
    unified: bool


def hierarchies() -> list[Hierarchy]:
    """Return the cgroup hierarchies that are mounted here."""
    return hierarchies_in(Path("/proc/self/mounts").read_text(encoding="utf-8"))


def hierarchies_in(mounts: str) -> list[Hierarchy]:
    """Return the writable cgroup hierarchies in the text of ``/proc/self/mounts``, each once."""
    found: dict[Path, Hierarchy] = {}
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind in ("cgroup", "cgroup2") and "rw" in options.split(","):
            found[Path(place)] = Hierarchy(Path(place), unified=kind == "cgroup2")
    return list(found.values())


def subtrees(group: str) -> list[Path]:
    """Return the directories of ``group`` that exist, one for each hierarchy."""
    return [directory for h in hierarchies() if (directory := h.mount / group).is_dir()]


def make(group: str) -> tuple[list[Path], list[Path]]:
    """Make the subtree of ``group``; return where its keeper and where the host itself must go.

    On cgroup2 a group with processes can't have controllers for its children: the keeper gets a
    leaf of its own there.
    """
    keeper: list[Path] = []
    guest: list[Path] = []
    for hierarchy in hierarchies():
        directory = hierarchy.mount / group
        directory.mkdir(exist_ok=True)
        _prepare_cpuset(hierarchy.mount, directory)
        own = directory / "keeper" if hierarchy.unified else directory
        own.mkdir(exist_ok=True)
        keeper.append(own)
        guest.append(directory)
    return keeper, guest


def _prepare_cpuset(parent: Path, directory: Path) -> None:
    """Give a cgroup v1 cpuset its parent's CPUs and memory: without them no process may enter."""
    if not (directory / "cgroup.clone_children").exists():
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (parent / name).exists():
            (directory / name).write_text((parent / name).read_text(encoding="utf-8"), encoding="utf-8")
            (directory / "cgroup.clone_children").write_text("1", encoding="utf-8")


def processes(directories: Iterable[Path]) -> set[int]:
    """Return the process ids in the subtrees, seen from this machine."""
    return {pid for directory in directories for pid in _processes_under(directory)}


def _processes_under(directory: Path) -> Iterator[int]:
    for place, _, files in os.walk(directory):
        if "cgroup.procs" in files:
            with suppress(OSError):  # the group was removed meanwhile, or is a threaded one
                listed = Path(place, "cgroup.procs").read_text(encoding="utf-8").split()
                yield from (int(pid) for pid in listed if pid != "0")  # 0: not visible from here


def kill_all(directories: list[Path]) -> None:
    """End every process in the subtrees, without asking, and return when they are gone."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while alive := processes(directories):
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise _stuck(directories[0], f"processes {sorted(alive)} do not end")
        time.sleep(_POLL_SECONDS)


def remove(directories: list[Path]) -> None:
    """Remove the subtrees, which must be free of processes."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    for directory in directories:
        while not _removed(directory):
            if time.monotonic() > deadline:
                raise _stuck(directory, "it stays busy")
            time.sleep(_POLL_SECONDS)


def _removed(directory: Path) -> bool:
    """Remove a subtree depth first; return False while the kernel still counts a dying process in it."""
    for place, _, _ in os.walk(directory, topdown=False):
        try:
            Path(place).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise
    return True


def _stuck(directory: Path, why: str) -> MachineError:
    return MachineError(
        "machine-stuck",
        f"the host's processes could not be ended: {why}",
        where=str(directory),
        hint="try again; the kernel's log (dmesg) may say what they wait for",
    )
