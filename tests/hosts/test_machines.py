from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Nidome, Traces

pytestmark = pytest.mark.hosts

SERVER = """
import socketserver
class Peer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.client_address[0].encode())
socketserver.TCPServer.allow_reuse_address = True
with socketserver.TCPServer(("203.0.113.2", 7007), Peer) as server:
    print("ready", flush=True)
    server.serve_forever()
"""
ASK = "import socket; print(socket.create_connection(('{}', {}), 10).recv(100).decode())"
USE = """
set -e
cd /var/lib
mkdir -p l u w m
mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m
ip link add br7 type bridge
ip netns add inner
ip link add vx7 type vxlan id 7 dstport 4789 dev host0
nft add table inet seven
sysctl -qw vm.overcommit_memory=1 kernel.panic=10 net.ipv4.ip_forward=1
systemd-run -q --unit=left -p MemoryMax=50M -p Delegate=yes sh -c 'trap : TERM; sleep 600 & wait; sleep 600'
setsid sh -c 'trap : TERM HUP; while :; do sleep 601; done' >/dev/null 2>&1 &
"""
LAST_WORDS = """
systemd-run -q --unit=last -p RemainAfterExit=yes -p "ExecStop=/bin/sh -c 'echo orderly >/root/stopped'" true
echo kept >/root/file
echo kept >/var/lib/file
ip -4 -o address show host0 >/root/address
"""
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def test_create_and_remove(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """A new host answers over ssh with systemd running, and ``rm`` leaves no trace of it on the machine."""
    before = traces()
    assert nidome.run("create", "n1").stdout.split()[:2] == ["n1", "debian:12"]
    during = traces()
    assert (
        nidome.ssh("n1", "systemctl is-system-running; hostname; ps -p 1 -o comm=") == "running\nn1\nsystemd"
    )
    for kind in ("link", "rule", "cgroup", "process", "file"):
        assert any(thing.startswith(kind) for thing in before.added(during)), kind
    nidome.run("rm", "n1")
    assert before.added(traces()) == []
    assert not nidome.machines.exists()


def test_used_host_leaves_no_trace(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """What was started, mounted and made inside a host goes with it, and so do its kernel settings."""
    before = traces()
    nidome.run("create", "n1")
    nidome.ssh("n1", USE)
    nidome.run("rm", "n1")
    assert before.added(traces()) == []


def test_side_by_side(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """Several hosts are made at once, have ascending addresses, and reach each other."""
    before = traces()
    nidome.run("create", "a", "b", "c")
    listed = json.loads(nidome.run("list", "--json").stdout)
    assert [machine["name"] for machine in listed] == ["a", "b", "c"]
    addresses = [machine["address"] for machine in listed]
    assert [address.rpartition(".")[2] for address in addresses] == ["2", "3", "4"]
    for address in addresses[1:]:
        assert nidome.ssh("a", f'python3 -c "{ASK.format(address, 22)}"').startswith("SSH-2.0")
    nidome.run("rm", "b")
    assert "b " not in nidome.run("list").stdout
    assert nidome.ssh("a", f'python3 -c "{ASK.format(addresses[2], 22)}"').startswith("SSH-2.0")
    nidome.run("rm", "--all")
    assert before.added(traces()) == []


@pytest.fixture
def outside() -> Iterator[None]:
    """Have a network beyond this machine without a way back to hosts, and a server that says who calls."""
    inside = ("ip", "netns", "exec", "nidome-outside")
    for command in (
        ("ip", "netns", "add", "nidome-outside"),
        ("ip", "link", "add", "outer0", "type", "veth", "peer", "name", "inner0", "netns", "nidome-outside"),
        ("ip", "address", "add", "203.0.113.1/30", "dev", "outer0"),
        ("ip", "link", "set", "outer0", "up"),
        (*inside, "ip", "address", "add", "203.0.113.2/30", "dev", "inner0"),
        (*inside, "ip", "link", "set", "inner0", "up"),
    ):
        subprocess.run(command, check=True)
    with subprocess.Popen(
        [*inside, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield
        server.kill()
    subprocess.run(["ip", "link", "delete", "outer0"], check=True)
    subprocess.run(["ip", "netns", "delete", "nidome-outside"], check=True)


@pytest.mark.usefixtures("outside")
def test_outside(nidome: Nidome) -> None:
    """A host reaches what this machine reaches, and is seen there under this machine's address."""
    nidome.run("create", "n1")
    assert nidome.ssh("n1", f'python3 -c "{ASK.format("203.0.113.2", 7007)}"') == "203.0.113.1"
    resolver = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    if "127.0.0.53" not in resolver:
        assert nidome.ssh("n1", "cat /etc/resolv.conf") == resolver.strip()


def test_power(nidome: Nidome) -> None:
    """Power off and on keeps the disk and the address; services are stopped in order before."""
    nidome.run("create", "n1")
    nidome.ssh("n1", LAST_WORDS)
    boot = nidome.ssh("n1", BOOT_ID)
    nidome.run("stop", "n1")
    assert json.loads(nidome.run("list", "--json").stdout)[0]["running"] is False
    refused = nidome.run("ssh", "n1", "true", check=False)
    assert refused.returncode == 1
    assert "error[machine-off]" in refused.stderr
    nidome.run("start", "n1")
    assert nidome.ssh("n1", "cat /root/file /var/lib/file /root/stopped") == "kept\nkept\norderly"
    assert nidome.ssh("n1", "ip -4 -o address show host0 | diff - /root/address && echo same") == "same"
    assert nidome.ssh("n1", BOOT_ID) != boot
    nidome.run("start", "n1")


def test_pull_the_plug(nidome: Nidome) -> None:
    """``stop --force`` ends a host at once, without its services being stopped; its disk is still there."""
    nidome.run("create", "n1")
    nidome.ssh("n1", LAST_WORDS)
    nidome.run("stop", "--force", "n1")
    nidome.run("start", "n1")
    assert nidome.ssh("n1", "cat /root/file; ls /root/stopped 2>&1 | grep -c 'No such'") == "kept\n1"


def test_reboot_and_power_off_from_inside(nidome: Nidome) -> None:
    """A host that reboots comes back by itself; one that powers itself off is off and can be started."""
    nidome.run("create", "n1")
    boot = nidome.ssh("n1", "echo kept >/root/file; " + BOOT_ID)
    nidome.ssh("n1", "systemctl reboot", check=False)
    nidome.wait_ssh("n1", BOOT_ID, lambda said: said not in ("", boot))
    assert nidome.ssh("n1", "cat /root/file; systemctl is-system-running --wait") == "kept\nrunning"
    nidome.ssh("n1", "systemctl poweroff", check=False)
    deadline = time.monotonic() + 60
    while json.loads(nidome.run("list", "--json").stdout)[0]["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    nidome.run("start", "n1")
    assert nidome.ssh("n1", "cat /root/file") == "kept"


@pytest.mark.parametrize(
    ("release", "python"),
    [("debian:11", "Python 3.9"), ("debian:12", "Python 3.11"), ("debian:13", "Python 3.13")],
)
def test_releases(nidome: Nidome, release: str, python: str) -> None:
    """Every release that is offered boots, with systemd running, its Python, and effective limits."""
    nidome.run("create", "n1", "--os", release)
    assert (
        nidome.ssh("n1", "systemctl is-system-running --wait; systemctl --failed -q --no-legend") == "running"
    )
    assert nidome.ssh("n1", "python3 --version").startswith(python)
    assert nidome.ssh("n1", ". /etc/os-release; echo $VERSION_ID") == release.partition(":")[2]
    nidome.ssh("n1", "systemctl reboot", check=False)
    nidome.wait_ssh("n1", "systemctl is-system-running", lambda said: said == "running")


def test_blobs(nidome: Nidome, tmp_path: Path) -> None:
    """A directory of this machine is seen in a host, read-only, also after a reboot."""
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "one").write_text("first\n", encoding="utf-8")
    nidome.run("create", "n1", "--blobs", str(blobs))
    place = "/run/host/nidome/blobs"
    assert (
        nidome.ssh("n1", f"cat {place}/one; touch {place}/two 2>&1 | grep -o 'Read-only'")
        == "first\nRead-only"
    )
    boot = nidome.ssh("n1", BOOT_ID)
    nidome.ssh("n1", "systemctl reboot", check=False)
    nidome.wait_ssh("n1", BOOT_ID, lambda said: said not in ("", boot))
    (blobs / "late").write_text("later", encoding="utf-8")
    assert nidome.ssh("n1", f"cat {place}/late") == "later"


def test_two_state_directories(nidome: Nidome, nidome_session: Nidome, host: str) -> None:
    """Hosts of two state directories have networks of their own; removing one's leaves the other's alone."""
    nidome.run("create", "n1")
    mine, theirs = (
        json.loads(n.run("list", "--json").stdout)[0]["address"].rpartition(".")[0]
        for n in (nidome, nidome_session)
    )
    assert mine != theirs
    nidome.run("rm", "n1")
    assert nidome_session.ssh(host, "echo alive") == "alive"


def test_identity(nidome: Nidome) -> None:
    """Each host has a machine id and an ssh key of its own, and another host's key is not accepted for it."""
    nidome.run("create", "a", "b")
    ids = {nidome.ssh(name, "cat /etc/machine-id") for name in "ab"}
    keys = {nidome.ssh(name, "cat /etc/ssh/ssh_host_*_key.pub") for name in "ab"}
    assert len(ids) == len(keys) == 2
    known = nidome.machines / "a/known_hosts"
    known.write_text(
        known.read_text("utf-8").split()[0] + (nidome.machines / "b/known_hosts").read_text("utf-8")[9:]
    )
    assert nidome.run("ssh", "a", "true", check=False).returncode != 0


def test_network_lost(nidome: Nidome, traces: Callable[[], Traces]) -> None:
    """A host whose bridge and rules are gone, as after a restart of the machine, can be started."""
    before = traces()
    nidome.run("create", "n1")
    nidome.run("stop", "n1")
    (bridge,) = {
        word
        for thing in before.added(traces())
        for word in thing.split()
        if thing.startswith("link ") and word.startswith("nidome")
    }
    subprocess.run(["ip", "link", "delete", bridge], check=True)
    subprocess.run(["nft", "delete", "table", "ip", bridge], check=True)
    nidome.run("start", "n1")
    assert nidome.ssh("n1", "echo alive") == "alive"
    nidome.run("rm", "n1")
    assert before.added(traces()) == []
