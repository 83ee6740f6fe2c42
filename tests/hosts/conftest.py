"""Disposable hosts for the tests that need real ones, and an independent look at what they leave behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster, private_cache
from images.archive import build_probe

from nidome.artifacts import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Kernel settings that change by themselves.
_RESTLESS = re.compile(
    r"fs/(dentry-state|inode-nr|inode-state|file-nr|aio-nr|quota/syncs)"
    r"|kernel/(ns_last_pid|random/(uuid|entropy_avail)|pty/nr|perf_event_max_sample_rate)"
    r"|net/netfilter/nf_conntrack_count"
)


# The hosts that tests make.
_NAMES = ("a", "b", "c", "k1", "k2", "n1", "n2", "shared")


@dataclass(frozen=True)
class Nidome:
    """The command line, with a state directory of the test's own."""

    machines: Path

    def environment(self) -> dict[str, str]:
        """Return the environment in which nidome keeps its hosts in that directory."""
        temporary = str(self.machines.parent / "tmp")
        return {**os.environ, "NIDOME_MACHINES_DIR": str(self.machines), "TMPDIR": temporary}

    def command(self, *arguments: str) -> list[str]:
        """Return the full command for ``nidome machines ARGUMENTS``."""
        return [sys.executable, "-m", "nidome.cli.main", "machines", *arguments]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``nidome machines ARGUMENTS``; with ``check`` a failure fails the test and is shown."""
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
    (home / "tmp").mkdir()
    yield found
    found.run("rm", "--all")


@pytest.fixture(scope="session")
def host(nidome_session: Nidome) -> str:
    """Name of a host that is on, for tests that don't change it for others."""
    nidome_session.run("create", "shared")
    return "shared"


@pytest.fixture(scope="session")
def cluster_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an artifact cache of the tests' own, with everything that the user's has."""
    return private_cache(tmp_path_factory.mktemp("artifacts"), default_cache())


@pytest.fixture(scope="session")
def probe_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an artifact cache that has the probe's image too, as a user's own."""
    directory = tmp_path_factory.mktemp("probe")
    cache = private_cache(directory, default_cache())
    archive = build_probe(directory, "nidome.test/probe:1")
    Cluster(directory, cache).nidome("artifacts", "image", "add", str(archive))
    return cache


@dataclass(frozen=True)
class Traces:
    """What hosts could leave behind on this machine: things by name, and kernel settings.

    Other state directories on this machine may have hosts at the same time. Their bridges, cgroups and
    files are not looked at; settings stay raised for them and are not compared then.
    """

    things: frozenset[str]
    settings: tuple[tuple[str, str], ...]
    others_at_work: bool

    def added(self, now: Traces) -> list[str]:
        """Return what is there now and was not, and the kernel settings that differ."""
        more = sorted(now.things - self.things)
        if self.others_at_work or now.others_at_work:
            return more
        before = dict(self.settings)
        return more + [f"{k}={v}, was {before.get(k)}" for k, v in now.settings if before.get(k) != v]


@pytest.fixture
def traces(tmp_path: Path) -> Callable[[], Traces]:
    """Return a function that looks at mounts, links, cgroups, packet filter, processes, files, settings."""
    own = tmp_path / "machines"

    def look() -> Traces:
        users = _users()
        seen = [*_links(), *_rules()]
        users |= _users()  # others may have come in between
        others = {str(user["bridge"]) for directory, user in users.items() if directory != str(own)}
        named = re.compile(rf"\b(nidome|vb-nd)({'|'.join(others)})\b") if others else re.compile("(?!)")
        things = {
            *(f"mount {line.split(' ')[4]}" for line in _lines(Path("/proc/self/mountinfo"))),
            *(thing for thing in seen if not named.search(thing)),
            *_cgroups(own),
            *_processes(str(tmp_path)),
            *_files(tmp_path, others_at_work=bool(others)),
        }
        return Traces(frozenset(things), tuple(sorted(_settings())), bool(others))

    return look


def _users() -> dict[str, dict[str, Any]]:
    try:
        found: dict[str, dict[str, Any]] = json.loads(Path("/run/nidome/machines.json").read_text("utf-8"))[
            "users"
        ]
    except FileNotFoundError:
        return {}
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _links() -> Iterator[str]:
    for what, command in {
        "link": ("ip", "-brief", "link"),
        "address": ("ip", "-brief", "address"),
        "route": ("ip", "route", "show", "table", "all"),
    }.items():
        yield from (f"{what} {line.strip()}" for line in _output(*command))


def _rules() -> Iterator[str]:
    """Yield each line of the packet filter's rules with its table's name."""
    table = ""
    for line in _output("nft", "--stateless", "list", "ruleset"):
        table = line if line.startswith("table") else table
        yield f"rule {table} {line.strip()}"


def _cgroups(own: Path) -> Iterator[str]:
    """Yield the cgroups there are, without those of other directories' hosts."""
    mine = {hashlib.sha256(bytes(own / name)).hexdigest()[:12] for name in _NAMES}
    for hierarchy in Path("/sys/fs/cgroup").iterdir():
        for group in hierarchy.iterdir() if hierarchy.is_dir() else ():
            kind, _, rest = group.name.partition("-")
            if group.is_dir() and (kind != "nidome" or rest.partition("-")[0] in mine):
                yield f"cgroup {group}"


def _processes(marker: str) -> Iterator[str]:
    """Yield the processes that were started for hosts of this test: its directory is in their arguments."""
    for entry in Path("/proc").iterdir():
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and marker.encode() in said:
            yield f"process {entry.name}"


def _files(own: Path, *, others_at_work: bool) -> Iterator[str]:
    """Yield the files where a host could leave some: the test's directory, /run, temporary directories."""
    shared = {"/run/nidome", "/var/lib/nidome"} if others_at_work else set()
    for root in (own, Path("/run"), Path("/var/lib/nidome"), Path("/var/lib/machines"), Path("/etc/systemd")):
        for place, directories, files in os.walk(root):
            directories[:] = [name for name in directories if f"{place}/{name}" not in shared]
            if place not in shared:
                yield from (f"file {place}/{name}" for name in (*directories, *files))
            else:
                directories.clear()
    for root in (Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - looked at, not used
        yield from (
            f"file {path}" for path in root.iterdir() if path.name.startswith(("nspawn", "mmdebstrap"))
        )


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
