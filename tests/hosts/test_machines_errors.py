"""Bad input and unfit machines: a short error with code, place and next step, and nothing half made."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Nidome, Traces

pytestmark = pytest.mark.hosts


def _refused(done: subprocess.CompletedProcess[str], code: str) -> str:
    assert done.returncode == 1
    assert f"error[{code}]" in done.stderr
    assert "  where: " in done.stderr
    assert "  next:  " in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", "Bad_Name"), "machine-name-invalid"),
        (("create", "n1", "../n2"), "machine-name-invalid"),
        (("create", "n1", "--os", "debian:9"), "machine-os-unknown"),
        (("create", "n1", "--blobs", "/nowhere"), "machine-blobs-missing"),
        (("ssh", "n1", "true"), "machine-not-found"),
        (("start", "n1"), "machine-not-found"),
        (("stop", "n1"), "machine-not-found"),
        (("rm", "n1"), "machine-not-found"),
        (("rm", "n1", "--all"), "machine-names-or-all"),
        (("rm",), "machine-names-or-all"),
    ],
)
def test_bad_input(
    nidome: Nidome, traces: Callable[[], Traces], arguments: tuple[str, ...], code: str
) -> None:
    """What can't be done is refused with a code, the place and the next step, and changes nothing."""
    before = traces()
    _refused(nidome.run(*arguments, check=False), code)
    assert before.added(traces()) == []


def test_name_exists(nidome: Nidome) -> None:
    """A name that a host has is refused before anything is made, and that host is left alone."""
    nidome.run("create", "n1")
    assert "n1" in _refused(nidome.run("create", "n2", "n1", check=False), "machine-exists")
    assert nidome.ssh("n1", "echo alive") == "alive"
    assert "n2" not in nidome.run("list").stdout


def test_not_root(nidome: Nidome) -> None:
    """Who is not root is told so, together with all else that is missing."""
    # An interpreter and sources under a private home are out of reach for nobody: keep root's reading rights.
    nobody = [
        *("setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search"),
        *("--ambient-caps=+dac_read_search", "--"),
    ]
    for verb in ("create", "rm"):
        done = subprocess.run(
            [*nobody, *nidome.command(verb, "n1")],
            env={**nidome.environment(), "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "root" in _refused(done, "machines-impossible")
        assert "sudo" in done.stderr


def test_programs_missing(nidome: Nidome, tmp_path: Path) -> None:
    """A machine without the programs is told the packages that have them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ip", "nft", "ssh", "ssh-keygen", "unshare", "setpriv", "apt-config"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (programs / name).symlink_to(found)
    environment = {**nidome.environment(), "PATH": str(programs)}
    for arguments in (("create", "n1"), ("check",)):
        done = subprocess.run(
            nidome.command(*arguments), env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "systemd-nspawn" in done.stdout + done.stderr
        assert "apt-get install mmdebstrap systemd-container" in done.stdout + done.stderr


def test_check(nidome: Nidome) -> None:
    """A machine that can have hosts is told so."""
    assert "nothing is missing" in nidome.run("check").stdout


@pytest.fixture
def small_disk(nidome: Nidome) -> Iterator[Path]:
    """Put the state directory on a disk that is too small for a host."""
    nidome.machines.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", nidome.machines], check=True)
    yield nidome.machines
    subprocess.run(["umount", nidome.machines], check=True)


def test_disk_full(nidome: Nidome, small_disk: Path, traces: Callable[[], Traces]) -> None:
    """A full disk is named with what to do about it, and nothing stays behind on it."""
    before = traces()
    assert "space" in _refused(nidome.run("create", "n1", check=False), "disk-full")
    assert list(small_disk.iterdir()) == []
    assert before.added(traces()) == []


def test_read_only(nidome: Nidome, small_disk: Path) -> None:
    """A state directory that can't be written is named."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    told = _refused(nidome.run("create", "n1", check=False), "directory-read-only")
    assert str(nidome.machines) in told
    assert "NIDOME_MACHINES_DIR" in told


@pytest.mark.parametrize("asked", ["10.61.0.0/16", "10.96.1.0/24", "ten"])
def test_range_invalid(nidome: Nidome, traces: Callable[[], Traces], asked: str) -> None:
    """An address range that hosts can't have is refused, and nothing stays behind."""
    before = traces()
    environment = {**nidome.environment(), "NIDOME_MACHINES_RANGE": asked}
    done = subprocess.run(
        nidome.command("create", "n1"), env=environment, capture_output=True, text=True, check=False
    )
    assert asked in _refused(done, "address-range-invalid")
    assert before.added(traces()) == []


def test_range_asked_for(nidome: Nidome) -> None:
    """An address range that a person asks for is used."""
    environment = {**nidome.environment(), "NIDOME_MACHINES_RANGE": "172.30.77.0/24"}
    subprocess.run(nidome.command("create", "n1"), env=environment, check=True, stdout=subprocess.DEVNULL)
    assert "172.30.77.2" in nidome.run("list").stdout


def test_busy(nidome: Nidome) -> None:
    """Two runs on one host at the same time don't get into each other's way: the second is told."""
    with subprocess.Popen(
        nidome.command("create", "n1"), env=nidome.environment(), stdout=subprocess.DEVNULL
    ) as first:
        while not (nidome.machines / "n1/machine.json").exists():
            assert first.poll() is None
        told = nidome.run("rm", "n1", check=False)
        assert first.wait() == 0
    _refused(told, "machine-busy")
    assert nidome.ssh("n1", "echo alive") == "alive"


def test_rootfs_gone(nidome: Nidome, tmp_path: Path) -> None:
    """A host whose root file system was deleted from the cache says so when it is started."""
    nidome.run("create", "n1")
    nidome.run("stop", "n1")
    record = nidome.machines / "n1/machine.json"
    text = record.read_text(encoding="utf-8")
    lower = next(line.split('"')[3] for line in text.splitlines() if '"rootfs"' in line)
    record.write_text(text.replace(lower, str(tmp_path / "gone")), encoding="utf-8")
    assert "gone" in _refused(nidome.run("start", "n1", check=False), "machine-rootfs-gone")
    assert Path(lower).is_dir()


def test_disk_full_later(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """A host whose disk is full can be powered off and removed."""
    before = traces()
    nidome.machines.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", nidome.machines], check=True)
    try:
        nidome.run("create", "n1")
        nidome.ssh("n1", "head -c 100M /dev/zero >/var/full", check=False)
        nidome.run("stop", "n1")
        nidome.run("rm", "n1")
        assert list(nidome.machines.iterdir()) == []
    finally:
        subprocess.run(["umount", nidome.machines], check=True)
    nidome.machines.rmdir()
    assert before.added(traces()) == []
