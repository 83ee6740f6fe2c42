"""Disposable hosts for the tests that need real ones, and a look at this machine that owes nothing to nidome."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Kernel settings that change by themselves.
_RESTLESS = re.compile(
    r"fs/(dentry-state|inode-nr|inode-state|file-nr|aio-nr|quota/syncs)"
    r"|kernel/(ns_last_pid|random/(uuid|entropy_avail)|pty/nr|perf_event_max_sample_rate)"
    r"|net/netfilter/nf_conntrack_count"
)


@dataclass(frozen=True)
class Nidome:
    """The command line, with a state directory of the test's own."""

    machines: Path

    def environment(self) -> dict[str, str]:
        """Return the environment in which nidome keeps its hosts in that directory."""
        return {**os.environ, "NIDOME_MACHINES_DIR": str(self.machines)}

    def command(self, *arguments: str) -> list[str]:
        """Return the full command for ``nidome machines ARGUMENTS``."""
        return [sys.executable, "-m", "nidome.cli.main", "machines", *arguments]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``nidome machines ARGUMENTS``; with ``check`` a failure fails the test, and shows its output."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment(), capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def ssh(self, name: str, script: str, *, check: bool = True) -> str:
        """Run a shell script on a host and return what it printed."""
        return self.run("ssh", name, "--", script, check=check).stdout.strip()

    def wait_ssh(self, name: str, script: str, until: Callable[[str], bool]) -> str:
        """Repeat a script on a host, which may be out of reach for a while, until its output is right."""
        deadline = time.monotonic() + 60
        while True:
            said = self.ssh(name, script, check=False)
            if until(said):
                return said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)


@pytest.fixture(scope="session")
def nidome_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nidome]:
    """Hosts that tests of a whole session may share; all are removed at its end."""
    yield from _with_directory(tmp_path_factory.mktemp("session"))


@pytest.fixture
def nidome(tmp_path: Path) -> Iterator[Nidome]:
    """Hosts of one test's own; all are removed at its end."""
    yield from _with_directory(tmp_path)


def _with_directory(home: Path) -> Iterator[Nidome]:
    found = Nidome(home / "machines")
    yield found
    found.run("rm", "--all")


@pytest.fixture(scope="session")
def host(nidome_session: Nidome) -> str:
    """Name of a host that is on, for tests that don't change it for others."""
    nidome_session.run("create", "shared")
    return "shared"


@dataclass(frozen=True)
class Traces:
    """What a host could leave behind on this machine."""

    things: frozenset[str]
    settings: tuple[tuple[str, str], ...]
    others_at_work: bool

    def added(self, now: Traces) -> list[str]:
        """Return what is there now and was not, and the kernel settings that differ.

        While other state directories have hosts, settings stay raised for those: they are not compared.
        """
        more = sorted(now.things - self.things)
        if self.others_at_work or now.others_at_work:
            return more
        before = dict(self.settings)
        return more + [f"{k}={v}, was {before.get(k)}" for k, v in now.settings if before.get(k) != v]


@pytest.fixture
def traces(tmp_path: Path) -> Callable[[], Traces]:
    """Return a function that looks at this machine: mounts, links, cgroups, packet filter, processes, files."""

    def look() -> Traces:
        things = {
            *_mounts(),
            *(f"link {link['ifname']}" for link in json.loads(_output("ip", "-json", "link"))),
            *(f"address {line}" for line in _output("ip", "-oneline", "address").splitlines()),
            *(f"route {line}" for line in _output("ip", "route", "show", "table", "all").splitlines()),
            *(f"rule {line.strip()}" for line in _output("nft", "list", "ruleset").splitlines()),
            *(f"cgroup {path}" for path in _directories(Path("/sys/fs/cgroup"))),
            *_processes(str(tmp_path)),
            *(f"file {path}" for path in _files(tmp_path)),
        }
        return Traces(frozenset(things), tuple(sorted(_settings())), Path("/run/nidome").exists())

    return look


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _mounts() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {f"mount {line.split(' ')[4]}" for line in lines}


def _directories(root: Path) -> Iterator[str]:
    for place, _, _ in os.walk(root):
        yield place


def _processes(marker: str) -> Iterator[str]:
    """Yield the processes that were started for hosts of this test: its directory is in their arguments."""
    for entry in Path("/proc").iterdir():
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and marker.encode() in said:
            yield f"process {entry.name}"


def _files(own: Path) -> Iterator[str]:
    """Yield the files where a host could leave some: the test's directory, /run, /tmp, /var/lib, /etc."""
    for root in (own, Path("/run"), Path("/var/lib/nidome"), Path("/var/lib/machines"), Path("/etc/systemd")):
        for place, directories, files in os.walk(root):
            yield from (f"{place}/{name}" for name in (*directories, *files))
    yield from (str(path) for path in (*Path("/tmp").iterdir(), *Path("/var/tmp").iterdir()))  # noqa: S108 - looked at only


def _settings() -> Iterator[tuple[str, str]]:
    root = Path("/proc/sys")
    for place, _, files in os.walk(root):
        for name in files:
            path = Path(place, name)
            key = str(path.relative_to(root))
            if _RESTLESS.fullmatch(key):
                continue
            try:
                yield key, path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):  # write-only, or gone with its link
                continue
