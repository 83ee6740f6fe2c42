"""kill -9 in the middle of things: the next run of that name succeeds, and nothing is left."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Nidome, Traces

pytestmark = pytest.mark.hosts

# The longest of these runs takes about this long; a kill after its end is a case too.
_CREATE_SECONDS = 1.5
_RM_SECONDS = 0.5


def _killed(nidome: Nidome, *arguments: str, after: float, number: int = signal.SIGKILL) -> int:
    with subprocess.Popen(
        nidome.command(*arguments),
        env=nidome.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        time.sleep(after)
        process.send_signal(number)
        process.communicate()
        return process.returncode


def _moment(seed: int, span: float) -> float:
    return random.Random(seed).uniform(0.04, span)  # noqa: S311 - a moment, no secret


def _gone(nidome: Nidome, *names: str) -> None:
    """Remove what there may be of the hosts: ``rm`` succeeds, or has found that there is nothing."""
    for name in names:
        done = nidome.run("rm", name, check=False)
        assert done.returncode == 0 or "error[machine-not-found]" in done.stderr, done.stderr


@pytest.mark.parametrize("seed", range(10))
def test_create_killed_then_removed(nidome: Nidome, traces: Callable[[], Traces], seed: int) -> None:
    """After ``create`` was killed at any moment, ``rm`` leaves no trace."""
    before = traces()
    _killed(nidome, "create", "k1", after=_moment(seed, _CREATE_SECONDS))
    _gone(nidome, "k1")
    assert before.added(traces()) == []


@pytest.mark.parametrize("seed", range(10, 16))
def test_create_killed_then_created(nidome: Nidome, traces: Callable[[], Traces], seed: int) -> None:
    """After ``create`` was killed at any moment, the next ``create`` of that name makes a working host."""
    before = traces()
    _killed(nidome, "create", "k1", after=_moment(seed, _CREATE_SECONDS * 0.8))
    again = nidome.run("create", "k1", check=False)
    assert again.returncode == 0 or "error[machine-exists]" in again.stderr, again.stderr
    assert nidome.ssh("k1", "systemctl is-system-running --wait") == "running"
    nidome.run("rm", "k1")
    assert before.added(traces()) == []


@pytest.mark.parametrize("seed", range(20, 28))
def test_rm_killed(nidome: Nidome, traces: Callable[[], Traces], seed: int) -> None:
    """After ``rm`` was killed at any moment, the next ``rm`` leaves no trace, and ``create`` works."""
    before = traces()
    nidome.run("create", "k1")
    _killed(nidome, "rm", "k1", after=_moment(seed, _RM_SECONDS))
    if seed % 2:
        again = nidome.run("create", "k1", check=False)
        assert again.returncode == 0 or "error[machine-exists]" in again.stderr, again.stderr
        assert nidome.ssh("k1", "echo alive") == "alive"
    _gone(nidome, "k1")
    assert before.added(traces()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seed", range(30, 36))
def test_create_interrupted(nidome: Nidome, traces: Callable[[], Traces], seed: int, number: int) -> None:
    """Ctrl-C and an ordinary end clean up at once what ``create`` has made so far."""
    before = traces()
    after = 0.2 + _moment(seed, 1.0)
    # On a busy machine Python itself may not have started by then: that ends it, with nothing made yet.
    assert _killed(nidome, "create", "k1", "k2", after=after, number=number) in (130, -number)
    assert before.added(traces()) == []


def test_one_fails(nidome: Nidome, traces: Callable[[], Traces], tmp_path: Path) -> None:
    """When one of several hosts can't be made, nothing is left of any of them, and the reason is told."""
    nidome.machines.mkdir()
    (nidome.machines / "b").write_text("in the way", encoding="utf-8")
    before = traces()
    failed = nidome.run("create", "a", "b", check=False)
    assert failed.returncode == 1
    assert "error[directory-invalid]" in failed.stderr
    assert str(tmp_path) in failed.stderr
    assert before.added(traces()) == []
    (nidome.machines / "b").unlink()


def test_supervisor_killed(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """A host whose keeper is killed is off; it can be started again, and removed."""
    before = traces()
    nidome.run("create", "k1")
    for thing in before.added(traces()):
        kind, _, identity = thing.partition(" ")
        if kind == "process":
            subprocess.run(["kill", "-9", identity], check=False)
    nidome.run("start", "k1")
    assert nidome.ssh("k1", "systemctl is-system-running --wait") == "running"
    nidome.run("rm", "k1")
    assert before.added(traces()) == []


def test_damaged_state(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """A host whose state file was damaged is named in an error, and can be removed without a trace."""
    before = traces()
    nidome.run("create", "k1")
    (nidome.machines / "k1/machine.json").write_text("{", encoding="utf-8")
    told = nidome.run("ssh", "k1", "true", check=False)
    assert "error[machine-state-unreadable]" in told.stderr
    assert "k1  " in nidome.run("list").stdout
    nidome.run("rm", "k1")
    assert before.added(traces()) == []


def test_rootfs_build_killed(nidome: Nidome, traces: Callable[[], Traces], tmp_path: Path) -> None:
    """A root file system whose making was killed is made anew, and nothing of the first try goes on."""
    cache = tmp_path / "cache"
    environment = {**nidome.environment(), "NIDOME_CACHE_DIR": str(cache)}
    before = traces()
    with subprocess.Popen(
        nidome.command("create", "k1"), env=environment, stderr=subprocess.DEVNULL
    ) as first:
        deadline = time.monotonic() + 120
        while not list(cache.glob("rootfs/.building-*/root/usr/bin/dpkg")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        first.kill()
    deadline = time.monotonic() + 10
    while any(thing.startswith("process") for thing in before.added(traces())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    subprocess.run(nidome.command("create", "k1"), env=environment, check=True, stderr=subprocess.DEVNULL)
    assert nidome.ssh("k1", "systemctl is-system-running --wait") == "running"
    nidome.run("rm", "k1")
    (built,) = (cache / "rootfs").iterdir()
    assert built.name.startswith("debian-12-")
    left = [thing for thing in before.added(traces()) if str(cache) not in thing]
    assert left == []


def test_state_directory_deleted(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """Hosts whose state directory was deleted under them end when the next host is made or removed."""
    before = traces()
    nidome.run("create", "k1")
    nidome.machines.rename(nidome.machines.with_name("away"))
    elsewhere = {**nidome.environment(), "NIDOME_MACHINES_DIR": str(nidome.machines.with_name("other"))}
    subprocess.run(nidome.command("create", "n1"), env=elsewhere, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(nidome.command("rm", "n1"), env=elsewhere, check=True)
    shutil.rmtree(nidome.machines.with_name("away"))
    assert before.added(traces()) == []
