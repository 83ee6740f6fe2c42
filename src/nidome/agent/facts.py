"""What roles and preflight checks need to know of a host before anything is compared."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from typing import Any, Dict, List, Set

from nidome.agent.system import read_text, run

__all__ = ["gather"]

_CAP_SYS_RESOURCE = 24
_LISTEN = "0A"
_RUNTIMES = (
    "docker",
    "containerd",
    "crio",
    "k0scontroller",
    "k0sworker",
    "k3s",
    "k3s-agent",
    "rke2-server",
    "kubelet",
    "cri-docker",
)
_SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/docker.sock",
    "/run/crio/crio.sock",
    "/run/k0s/status.sock",
)
_DIRECTORIES = (
    "/var/lib/k0s",
    "/var/lib/rancher",
    "/etc/rancher",
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/lib/containerd",
)


def _os_release() -> Dict[str, str]:
    text = read_text("/etc/os-release") or ""
    return {k: v.strip("\"'") for k, v in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}


def _capabilities() -> int:
    found = re.search(r"^CapEff:\s*(\w+)", read_text("/proc/self/status") or "", re.MULTILINE)
    return int(found.group(1), 16) if found else 0


def _cgroup_version() -> int:
    return 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1


def _cgroup_controllers() -> List[str]:
    if _cgroup_version() == 2:  # noqa: PLR2004 - cgroup2
        return (read_text("/sys/fs/cgroup/cgroup.controllers") or "").split()
    rows = (read_text("/proc/cgroups") or "").splitlines()[1:]
    return [row.split()[0] for row in rows if row.split()[1] != "0"]


def listening() -> List[int]:
    """Return the TCP ports that something on this host listens on."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in (read_text(path) or "").splitlines()[1:]:
            fields = row.split()
            if fields[3] == _LISTEN:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


def _routes() -> List[str]:
    """Return the IPv4 networks that this host has a route to, except the default."""
    routes = []
    for row in (read_text("/proc/net/route") or "").splitlines()[1:]:
        name, destination, _, _, _, _, _, mask = row.split()[:8]
        if mask != "00000000":
            address = socket.inet_ntoa(bytes.fromhex(destination)[::-1])
            routes.append(f"{address}/{bin(int(mask, 16)).count('1')} {name}")  # noqa: FURB161 - int.bit_count is Python 3.10
    return routes


def _addresses() -> List[str]:
    """Return the IPv4 addresses of this host, from the kernel's own table of what it answers for."""
    found: Set[str] = set()
    address = ""
    for row in (read_text("/proc/net/fib_trie") or "").splitlines():
        words = row.split()
        if words[:1] == ["|--"]:
            address = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            found.add(address)
    return sorted(found)


def _memory_mib() -> int:
    found = re.search(r"^MemTotal:\s*(\d+)", read_text("/proc/meminfo") or "", re.MULTILINE)
    return int(found.group(1)) // 1024 if found else 0


def _free_mib(path: str) -> int:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize >> 20


def _writable(path: str) -> bool:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def _nft_version() -> str:
    """Return the version of nft, "" where it is not installed (yet)."""
    if shutil.which("nft") is None:
        return ""
    found = re.search(r"v(\d+(?:\.\d+)*)", run(["nft", "--version"], check=False))
    return found.group(1) if found else ""


def _filesystem(path: str) -> str:
    """Return the type of the file system that a path is or would be on."""
    best, kind = "", ""
    for row in (read_text("/proc/self/mountinfo") or "").splitlines():
        fields = row.split()
        point = fields[4].rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[fields.index("-") + 1]
    return kind


def _systemd() -> int:
    if read_text("/proc/1/comm") != "systemd\n":
        return 0
    # The version is in the file name of systemd's private library: no process is started for it.
    for directory in (
        "/usr/lib/systemd",
        "/lib/systemd",
        "/usr/lib/x86_64-linux-gnu/systemd",
        "/usr/lib/aarch64-linux-gnu/systemd",
    ):
        if os.path.isdir(directory):
            for name in os.listdir(directory):
                found = re.match(r"libsystemd-shared-(\d+)", name)
                if found:
                    return int(found.group(1))
    found = re.search(r"systemd (\d+)", run(["systemctl", "--version"], check=False))
    return int(found.group(1)) if found else 0


def gather(directories: List[str]) -> Dict[str, Any]:
    """Return the host's facts; ``directories`` are those whose free space and writability matter."""
    release = _os_release()
    return {
        "hostname": socket.gethostname(),
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": release.get("ID", ""),
        "os_like": release.get("ID_LIKE", "").split(),
        "os_version": release.get("VERSION_ID", ""),
        "kernel": platform.release(),
        "python": ".".join(str(n) for n in sys.version_info[:3]),
        "uid": os.geteuid(),
        "systemd": _systemd(),
        "cgroup": _cgroup_version(),
        "cgroup_controllers": _cgroup_controllers(),
        "cap_sys_resource": bool(_capabilities() >> _CAP_SYS_RESOURCE & 1),
        "cpus": os.cpu_count() or 1,
        "memory_mib": _memory_mib(),
        "free_mib": {path: _free_mib(path) for path in directories},
        "writable": {path: _writable(path) for path in directories},
        "filesystems": {path: _filesystem(path) for path in directories},
        "listening": listening(),
        "routes": _routes(),
        "addresses": _addresses(),
        "resolved": os.path.exists("/run/systemd/resolve/resolv.conf"),
        "openssl": shutil.which("openssl") is not None,
        "nft": _nft_version(),
        "sockets": [path for path in _SOCKETS if os.path.exists(path)],
        "directories": [path for path in _DIRECTORIES if os.path.isdir(path) and os.listdir(path)],
        "units": [u for u in _RUNTIMES if _has_unit(u)],
    }


def _has_unit(name: str) -> bool:
    places = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    return any(os.path.exists(f"{place}/{name}.service") for place in places)
