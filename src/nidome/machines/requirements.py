"""What this machine must have for disposable hosts, and what to do about what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROGRAMS", "Missing", "missing", "require", "require_root"]

# program -> Debian package
PROGRAMS = {
    "apt-config": "apt",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_CAP_MKNOD = 27


@dataclass(frozen=True)
class Missing:
    """Something this machine lacks, and the next step."""

    what: str
    hint: str


def _root() -> Missing | None:
    return None if os.geteuid() == 0 else Missing("root", "run it as root: sudo nidome machines ...")


def _capability(name: str, number: int) -> Missing | None:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    if int(effective, 16) >> number & 1:
        return None
    return Missing(
        name, f"give it to the container or the service this runs in: --cap-add {name.removeprefix('CAP_')}"
    )


def _overlay() -> Missing | None:
    listed = Path("/proc/filesystems").read_text(encoding="utf-8").split()
    return None if "overlay" in listed or _module("overlay") else Missing("overlayfs", "modprobe overlay")


def _module(name: str) -> bool:
    """Whether the kernel has ``name`` loaded or built in, or a module of it that it can load on demand."""
    if Path("/sys/module", name).exists():
        return True
    home = Path("/lib/modules") / platform.release()
    lists = [home / "modules.builtin", home / "modules.dep"]
    return any(f"/{name}.ko" in file.read_text(encoding="utf-8") for file in lists if file.exists())


def _cgroups() -> Missing | None:
    from nidome.machines.cgroups import hierarchies  # noqa: PLC0415 - needed by this probe alone

    return None if hierarchies() else Missing("a writable cgroup file system", "mount one at /sys/fs/cgroup")


def _forwarding() -> Missing | None:
    writable = os.access("/proc/sys/net/ipv4/ip_forward", os.W_OK)
    return None if writable else Missing("a writable /proc/sys", "mount -o remount,rw /proc/sys")


def _programs() -> list[Missing]:
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    packages = " ".join(sorted({PROGRAMS[program] for program in absent}))
    return [Missing(f"the program {program}", f"apt-get install {packages}") for program in absent]


# Tried for real, in a network namespace that ends with the shell: module lists don't tell what is built in.
_KERNEL_SCRIPT = """
ip link add name try0 type veth || echo veth
ip link add name try1 type bridge || echo bridge
nft add table ip t || echo nf_tables
nft add chain ip t c '{ type nat hook postrouting priority 100; }' || echo nft_nat
nft add rule ip t c masquerade || echo nft_masq
"""


def _kernel() -> list[Missing]:
    """Return the network parts that the kernel lacks or does not let us use."""
    shell = ["unshare", "--net", "sh", "-c", _KERNEL_SCRIPT]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    if not done.stdout and done.returncode:
        return [Missing("network namespaces", "a kernel with CONFIG_NET_NS, and permission to use them")]
    return [Missing(f"{part} in the kernel", f"modprobe {part}") for part in done.stdout.split()]


_PROBES: tuple[Callable[[], Missing | None], ...] = (
    _root,
    lambda: _capability("CAP_SYS_ADMIN", _CAP_SYS_ADMIN),
    lambda: _capability("CAP_NET_ADMIN", _CAP_NET_ADMIN),
    lambda: _capability("CAP_MKNOD", _CAP_MKNOD),
    _overlay,
    _cgroups,
    _forwarding,
)


def missing() -> list[Missing]:
    """Return all that this machine lacks for disposable hosts; nothing on it is changed to find out.

    The kernel's network parts are tried last, and only where all that it takes to try them is there.
    """
    found = [lack for probe in _PROBES if (lack := probe()) is not None] + _programs()
    return found or _kernel()


def require_root() -> None:
    """Raise MachineError ``machines-impossible`` unless this is root: enough to stop or remove hosts."""
    _refuse([lack for lack in (_root(),) if lack is not None])


def require() -> None:
    """Raise MachineError ``machines-impossible``, naming all that is missing, if anything is."""
    _refuse(missing())


def _refuse(lacks: list[Missing]) -> None:
    if lacks:
        raise MachineError(
            "machines-impossible",
            f"disposable hosts need what this machine lacks: {', '.join(lack.what for lack in lacks)}",
            where="this machine",
            hint="; ".join(dict.fromkeys(lack.hint for lack in lacks)),
        )
