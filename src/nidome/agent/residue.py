"""What a component leaves behind when it is stopped, and how that is removed.

A unit's resource names residues as ``KIND:ARGUMENT``; each kind is one function here. Nothing outside
what the argument names is touched.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, Sequence, Set

from nidome.agent.system import read_text, run

__all__ = ["nft_tables", "remove_residue"]

_KILL_SECONDS = 5.0


def _pids_below(cgroup: str) -> List[int]:
    """Return the processes of every cgroup of this name, in all hierarchies, with those below it."""
    pids: Set[int] = set()
    for root in [*glob.glob("/sys/fs/cgroup/*/" + cgroup), *glob.glob("/sys/fs/cgroup/" + cgroup)]:
        for directory, _, _ in os.walk(root):
            text = read_text(os.path.join(directory, "cgroup.procs")) or ""
            pids.update(int(line) for line in text.split())
    return sorted(pids)


def _kill(cgroup: str) -> None:
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        pids = _pids_below(cgroup)
        if not pids or time.monotonic() > deadline:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _cgroup(cgroup: str) -> None:
    """Kill what is in the cgroup and remove it, in every hierarchy."""
    _kill(cgroup)
    deadline = time.monotonic() + _KILL_SECONDS
    for root in [*glob.glob("/sys/fs/cgroup/*/" + cgroup), *glob.glob("/sys/fs/cgroup/" + cgroup)]:
        for directory, _, _ in os.walk(root, topdown=False):
            while os.path.isdir(directory):
                try:
                    os.rmdir(directory)
                except OSError:
                    # A killed process leaves its cgroup a moment after it has gone from cgroup.procs.
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.01)


def _mounts(prefix: str) -> None:
    text = read_text("/proc/self/mountinfo") or ""
    points = [line.split()[4].replace("\\040", " ") for line in text.splitlines()]
    for point in sorted((p for p in points if p.startswith(prefix.rstrip("/") + "/")), key=len, reverse=True):
        run(["umount", "--lazy", point], check=False)


def _network_namespaces(prefix: str) -> None:
    for path in glob.glob(f"/run/netns/{prefix}*") + glob.glob(f"/var/run/netns/{prefix}*"):
        run(["umount", "--lazy", path], check=False)
        with contextlib.suppress(OSError):
            os.unlink(path)
    for directory in ("/run/netns",):
        with contextlib.suppress(OSError):
            if not os.listdir(directory):
                run(["umount", "--lazy", directory], check=False)
                os.rmdir(directory)


def _link(name: str) -> None:
    if os.path.exists(f"/sys/class/net/{name}"):
        run(["ip", "link", "delete", name], check=False)


def _path(path: str) -> None:
    for found in glob.glob(path):
        if os.path.isdir(found) and not os.path.islink(found):
            shutil.rmtree(found, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(found)


def _empty_tree(path: str) -> None:
    """Remove a directory of directories that hold nothing: somebody else's files in it stay."""
    for directory, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _unneeded_target(target: str) -> None:
    """Stop a target that was started for our units, once no unit is left that asks for it."""
    shown = run(
        ["systemctl", "show", "--no-pager", "-p", "WantedBy,RequiredBy", "--value", "--", target], check=False
    )
    if not shown.strip():
        run(["systemctl", "stop", "--", target], check=False)


def nft_tables() -> List[str]:
    """Return the nftables tables of this host as ``FAMILY NAME``; empty where nft is not installed."""
    try:
        done = subprocess.run(["nft", "list", "tables"], capture_output=True, check=False, timeout=10)
    except FileNotFoundError:
        return []
    return [line.split(" ", 1)[1] for line in done.stdout.decode().splitlines() if line.startswith("table ")]


def _nft_table(table: str) -> None:
    if table in nft_tables():
        run(["nft", "delete", "table", *table.split()], check=False)


def _firewall_chains(prefixes: str) -> None:
    """Remove the chains that kubelet, kube-proxy and the CNI plugins made through iptables."""
    names = tuple(prefixes.split(","))
    for family in ("iptables", "ip6tables"):
        if shutil.which(f"{family}-save") is None:
            continue
        saved = run([f"{family}-save"], check=False)
        kept = [line for line in saved.splitlines() if not _mentions(line, names)]
        if len(kept) != len(saved.splitlines()):
            run([f"{family}-restore"], stdin=("\n".join(kept) + "\n").encode(), check=False)


def _mentions(line: str, names: Sequence[str]) -> bool:
    words = line.replace(":", " ").split()
    return any(word.startswith(tuple(names)) for word in words)


def _new_nft_tables(before: str) -> None:
    """Remove the tables that iptables made for itself and that hold no rule any more."""
    earlier = before.split(",")
    for table in nft_tables():
        family, _, name = table.partition(" ")
        if table in earlier or family not in ("ip", "ip6") or name not in ("filter", "nat", "mangle", "raw"):
            continue
        rules = run(["nft", "list", "table", family, name], check=False)
        if not any(
            "counter" in line or "jump" in line or "accept" in line.split()
            for line in rules.splitlines()
            if not line.strip().startswith(("type ", "chain ", "table ", "}"))
        ):
            run(["nft", "delete", "table", family, name], check=False)


KINDS: Dict[str, Callable[[str], None]] = {
    "cgroup": _cgroup,
    "empty-tree": _empty_tree,
    "firewall-chains": _firewall_chains,
    "kill-cgroup": _kill,
    "link": _link,
    "mounts": _mounts,
    "netns": _network_namespaces,
    "new-nft-tables": _new_nft_tables,
    "nft-table": _nft_table,
    "path": _path,
    "unneeded-target": _unneeded_target,
}


def remove_residue(residue: Any) -> None:
    """Remove one residue, ``KIND:ARGUMENT``."""
    kind, _, argument = str(residue).partition(":")
    KINDS[kind](argument)
