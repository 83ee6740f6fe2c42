"""A real cluster for the tests: the command line, and looks at its host by other means than the agent's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cluster", "Snapshot", "private_cache", "wait_for"]

_IMAGE_SOURCE = Path(__file__).parent / "images" / "probe"

# Everything a run could touch, and nothing that changes by itself. Content by hash, with mode and owner.
_FILES = r"""
find /etc /usr/local /opt /root /var/lib/nidome /var/lib/kubelet/config* -xdev \( -type f -o -type l -o -type d \) \
  -not -path '/etc/machine-id' -printf '%y %m %u:%g %p %l\n' 2>/dev/null | sort
find /etc /usr/local /opt /root /var/lib/nidome -xdev -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
"""
_UNITS = (
    "systemctl show --no-pager -p Id,ActiveState,SubState,MainPID,ExecMainStartTimestampMonotonic,NRestarts "
    "-- $(cd /etc/systemd/system && ls | grep '[.]service$' | grep -v @)"
)
_KERNEL = (
    "nft --stateless list ruleset; ip -brief link | sed 's/@.*//' | awk '{print $1}' | sort; "
    "cat /proc/sys/net/ipv4/ip_forward /proc/sys/vm/overcommit_memory /proc/sys/kernel/panic"
)
_LOOKS = 20
_KINDS = (
    "namespaces,nodes,pods,services,endpointslices,deployments,replicasets,configmaps,secrets,serviceaccounts,"
    "clusterroles,clusterrolebindings,roles,rolebindings,certificatesigningrequests"
)


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    """Repeat until it holds; an assertion fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@dataclass(frozen=True)
class Snapshot:
    """What a host and its cluster look like, by ``find``, ``sha256sum``, ``systemctl``, ``nft`` and ``kubectl``."""

    files: tuple[str, ...]
    units: tuple[str, ...]
    kernel: tuple[str, ...]
    processes: tuple[str, ...]
    objects: tuple[str, ...]

    def differences(self, now: Snapshot) -> list[str]:
        """Return every line that only one of the two has."""
        found = []
        for name in ("files", "units", "kernel", "processes", "objects"):
            before, after = set(getattr(self, name)), set(getattr(now, name))
            found += [f"- {line}" for line in sorted(before - after)] + [
                f"+ {line}" for line in sorted(after - before)
            ]
        return found


@dataclass
class Cluster:
    """One disposable host with a cluster, in directories of the test's own."""

    home: Path
    cache: Path
    name: str = "node1"
    os: str = "debian:12"
    variables: dict[str, Any] = field(default_factory=dict)
    range: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def inventory(self) -> Path:
        """The inventory that ``up`` wrote."""
        return self.home / "inventory" / "nidome"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that keeps everything in the test's directories."""
        own = {"NIDOME_MACHINES_DIR": "machines", "NIDOME_STATE_DIR": "state"}
        return {
            **os.environ,
            **{k: str(self.home / v) for k, v in own.items()},
            "NIDOME_CACHE_DIR": str(self.cache),
        }

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a nidome command."""
        return [str(Path(sys.executable).with_name("nidome")), *arguments]

    def nidome(
        self, *arguments: str, status: int | None = 0, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a nidome command; unless ``status`` is None it must end with it."""
        self.home.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            self.command(*arguments), env=self.environment, cwd=self.home, capture_output=True, text=True,
            check=False, input=stdin, timeout=600,
        )  # fmt: skip
        assert status is None or done.returncode == status, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a nidome command and go on."""
        self.home.mkdir(parents=True, exist_ok=True)
        running = subprocess.Popen(
            self.command(*arguments), env=self.environment, cwd=self.home, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.started.append(running)
        return running

    def up(self) -> None:
        """Make the host and the cluster."""
        self.nidome("up", "--os", self.os, *self._extra())

    def _extra(self) -> list[str]:
        return [f"-e{name}={json.dumps(value)}" for name, value in self.variables.items()]

    def apply(self, *arguments: str) -> list[dict[str, Any]]:
        """Apply, and return the run's events."""
        done = self.nidome("apply", "--view", "json", *self._extra(), *arguments)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def plan(self, *arguments: str) -> dict[str, Any]:
        """Plan, and return the plan's document."""
        found: dict[str, Any] = json.loads(
            self.nidome("plan", "--json", *self._extra(), *arguments, status=None).stdout
        )
        return found

    def host(self, script: str, *, check: bool = True) -> str:
        """Run a shell script on the host and return what it printed."""
        done = self.nidome("machines", "ssh", self.name, "--", script, status=0 if check else None)
        return done.stdout.strip()

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl against the cluster."""
        return self.nidome("kubectl", *arguments, status=0 if check else None, stdin=stdin).stdout.strip()

    def objects(self, kinds: str = _KINDS) -> list[dict[str, Any]]:
        """Return the objects of these kinds in all namespaces."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kinds, "-A", "-o", "json"))["items"]
        return items

    def snapshot(self, *, identities: bool = True) -> Snapshot:
        """Look at everything; without ``identities`` only at what two installs have in common."""
        files = self.host(_FILES).splitlines()
        units = self.host(_UNITS).split("\n\n")
        processes = self.host(
            "ps -eo pid,lstart,args --no-headers | grep -v ' ps -eo\\|grep -v\\|sshd\\|sh -c\\|bash -c\\|\\[.*\\]$'"
        ).splitlines()
        items = [_identity(o) if identities else _name(o) for o in self.objects()]
        return Snapshot(
            tuple(files), tuple(units), tuple(self.host(_KERNEL).splitlines()), tuple(processes), tuple(items)
        )

    def settled(self) -> Snapshot:
        """Return a look that the next one confirms: the cluster's own controllers may still be at work."""
        found = self.snapshot()
        for _ in range(_LOOKS):
            last, found = found, self.snapshot()
            if not last.differences(found):
                return found
        raise AssertionError(last.differences(found))

    def remove(self) -> None:
        """Remove the host, and end what a failed test left running."""
        for running in self.started:
            if running.poll() is None:
                running.kill()
                running.communicate()
        self.nidome("machines", "rm", "--all", status=None)


def _identity(thing: dict[str, Any]) -> str:
    meta = thing["metadata"]
    # A node's status says again and again that it lives.
    version = "" if thing["kind"] == "Node" else meta["resourceVersion"]
    return f"{thing['kind']} {meta.get('namespace', '')}/{meta['name']} {meta['uid']} {meta.get('generation', '')} {version}"


def _name(thing: dict[str, Any]) -> str:
    return f"{thing['kind']} {thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def private_cache(directory: Path, shared: Path) -> Path:
    """Return a cache of the test's own that shares all large files with the user's."""
    cache = directory / "cache"
    blobs = cache / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in (shared / "blobs" / "sha256").iterdir():
        os.link(blob, blobs / blob.name)
    shutil.copy(shared / "index.json", cache / "index.json")
    (cache / "rootfs").symlink_to(shared / "rootfs")
    return cache
