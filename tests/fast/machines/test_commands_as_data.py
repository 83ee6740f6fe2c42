from __future__ import annotations

import os
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from nidome.machines import BLOBS_IN_GUEST, Machine, ssh_arguments
from nidome.machines.cgroups import Hierarchy, hierarchies_in
from nidome.machines.guest import network_batch
from nidome.machines.network import Network, ruleset
from nidome.machines.recipe import Recipe, build_command
from nidome.machines.supervisor import Boot, Group, environment, new_token, nspawn_command

NET = Network(3, IPv4Network("10.61.7.0/24"), 1400)
BOOT = Boot("n1", Path("/m/n1"), Path("/c/debian-12"), "nidome3", "nd3-2", blobs=Path("/c/blobs"))


def test_nspawn_command() -> None:
    """A host is one nspawn with its own network end, an ordinary /var, and the blobs read-only."""
    command = nspawn_command(BOOT)
    assert command[0] == "systemd-nspawn"
    assert {
        "--register=no",
        "--keep-unit",
        "--settings=no",
        "--machine=nd3-2",
        "--hostname=n1",
        "--network-bridge=nidome3",
        "--bind=/m/n1/var:/var",
        f"--bind-ro=/c/blobs:{BLOBS_IN_GUEST}",
        "--capability=all",
    } <= set(command)
    assert command[-1] == "/usr/lib/nidome/init"


def test_no_blobs() -> None:
    """A host that was given no artifact cache sees none."""
    without = Boot("n1", Path("/m/n1"), Path("/c/debian-12"), "nidome3", "nd3-2")
    assert not any("blobs" in argument for argument in nspawn_command(without))


@pytest.mark.parametrize("number", [0, 9, 123])
@pytest.mark.parametrize("octet", [2, 254])
def test_interface_names_fit(number: int, octet: int) -> None:
    """The kernel's limit of 15 characters holds for the name of every host's network end."""
    network = Network(number, IPv4Network("10.61.7.0/24"), 1500)
    assert len(f"vb-{network.label(f'10.61.7.{octet}')}") <= 15
    assert len(network.bridge) <= 15


def test_environment() -> None:
    """The keeper of a host learns its cgroups and its disk, and nothing of the caller's environment."""
    found = environment(
        BOOT, [Path("/cg/a"), Path("/cg/b/keeper")], [Path("/cg/a"), Path("/cg/b")], delegated=False
    )
    assert found["NIDOME_KEEPER"] == "/cg/a /cg/b/keeper"
    assert found["NIDOME_GUEST"] == "/cg/a /cg/b"
    assert found["NIDOME_DISK"] == "lowerdir=/c/debian-12,upperdir=/m/n1/upper,workdir=/m/n1/work"
    assert found["NIDOME_DELEGATED"] == "no"
    assert "HOME" not in found


def test_group_names() -> None:
    """A host's cgroups are found by its directory alone, and never have the same name twice."""
    one, other, elsewhere = new_token(Path("/m/n1")), new_token(Path("/m/n1")), new_token(Path("/m/n2"))
    assert one.partition("-")[0] == other.partition("-")[0] != elsewhere.partition("-")[0]
    assert one != other
    assert Group(one, delegated=False).path == f"nidome-{one}"
    assert Group(one, delegated=True).path == f"system.slice/nidome-{one}.service"


def test_ruleset() -> None:
    """Only what leaves the hosts' range is translated, in a table of its own that is replaced as a whole."""
    rules = ruleset(NET)
    assert rules.startswith("table ip nidome3\ndelete table ip nidome3\n")
    assert 'ip saddr 10.61.7.0/24 ip daddr != 10.61.7.0/24 oifname != "nidome3" counter masquerade' in rules


def test_guest_network() -> None:
    """A host sets its own address at each boot, with the packet size that gets outside."""
    assert network_batch("10.61.7.2", NET).splitlines() == [
        "link set host0 mtu 1400 up",
        "address replace 10.61.7.2/24 dev host0",
        "route replace default via 10.61.7.1",
    ]


def test_ssh_command() -> None:
    """The ssh command accepts the host's own key only and reads nobody's configuration."""
    machine = Machine(
        name="n1",
        os="debian:12",
        address="10.61.7.2",
        port=22,
        user="root",
        key=Path("/m/_ssh/id_ed25519"),
        known_hosts=Path("/m/n1/known_hosts"),
        running=True,
        created="2026-11-30T16:00:00Z",
    )
    command = ssh_arguments(machine)
    assert command[:7] == ["ssh", "-F", "none", "-i", "/m/_ssh/id_ed25519", "-p", "22"]
    assert "StrictHostKeyChecking=yes" in command
    assert "UserKnownHostsFile=/m/n1/known_hosts" in command
    assert command[-1] == "root@10.61.7.2"


def test_build_command() -> None:
    """A root file system is built by mmdebstrap in a PID namespace that dies with its parent."""
    recipe = Recipe("debian:13", sources=("deb http://m.example/debian trixie main",))
    command = build_command(recipe, "/c/new")
    assert command[:3] == ["setpriv", "--pdeathsig", "KILL"]
    assert "--kill-child=KILL" in command
    assert command[-3:] == ["trixie", "/c/new", "-"]
    assert build_command(Recipe("debian:13"), "/c/new")[-1] == "/c/new"


def test_recipe_digest() -> None:
    """Whatever changes a root file system changes the name of its cached copy."""
    base = Recipe("debian:12")
    others = [
        Recipe("debian:13"),
        Recipe("debian:12", sources=("deb http://m.example/debian bookworm main",)),
        Recipe("debian:12", packages=("systemd",)),
        Recipe("debian:12", masked=()),
    ]
    assert len({recipe.directory for recipe in (base, *others)}) == 5
    assert Recipe("debian:12").directory == base.directory
    assert base.directory.startswith("debian-12-")


MOUNTS = """\
proc /proc proc rw,relatime 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup ro,relatime,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
"""


def test_hierarchies() -> None:
    """Each writable cgroup hierarchy of the machine is used once, of either version."""
    assert hierarchies_in(MOUNTS) == [
        Hierarchy(Path("/sys/fs/cgroup/memory"), unified=False),
        Hierarchy(Path("/sys/fs/cgroup/unified"), unified=True),
    ]


def test_directory_names_are_bytes() -> None:
    """A state directory whose name is no valid text still gives its hosts a token."""
    assert new_token(Path(os.fsdecode(b"/m/\xff")))
