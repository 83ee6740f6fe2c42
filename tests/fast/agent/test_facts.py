from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from nidome.agent import facts

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t01003D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00003D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
cni0\t0040E90A\t00000000\t0001\t0\t0\t0\t00C0FFFF\t0\t0\t0
"""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the texts that the host's files have for this test."""
    texts: dict[str, str] = {}
    monkeypatch.setattr(facts, "read_text", texts.get)
    return texts


def test_routes_are_told_as_networks(files: dict[str, str]) -> None:
    """Routes are told as networks with their device; the default route is no network."""
    files["/proc/net/route"] = ROUTES
    assert facts._routes() == ["10.61.0.0/24 eth0", "10.233.64.0/18 cni0"]


TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.61.2.0/24 2 0 2
        |-- 10.61.2.2
           /32 host LOCAL
        |-- 10.61.2.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
Local:
        |-- 10.61.2.2
           /32 host LOCAL
"""


def test_addresses_are_those_that_the_host_answers_for(files: dict[str, str]) -> None:
    """Each IPv4 address of the host is told once; networks and broadcast addresses are none."""
    files["/proc/net/fib_trie"] = TRIE
    assert facts._addresses() == ["10.61.2.2", "127.0.0.1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ID=debian\nVERSION_ID="12"\n', {"ID": "debian", "VERSION_ID": "12"}),
        ('ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04 LTS"\n', {"ID_LIKE": "debian"}),
        ("# comment\nID='rocky'\n", {"ID": "rocky"}),
    ],
)
def test_distributions_are_recognised(files: dict[str, str], text: str, expected: dict[str, str]) -> None:
    """The distribution is read from os-release, quoted or not."""
    files["/etc/os-release"] = text
    assert expected.items() <= facts._os_release().items()


@pytest.mark.parametrize(
    ("mask", "has"), [("000001ffffffffff", True), ("000001fffeffffff", False), ("", False)]
)
def test_the_right_to_raise_limits_is_detected(files: dict[str, str], mask: str, *, has: bool) -> None:
    """CAP_SYS_RESOURCE is read from the agent's own effective capabilities."""
    files["/proc/self/status"] = f"Name:\tpython3\nCapEff:\t{mask}\n"
    assert bool(facts._capabilities() >> facts._CAP_SYS_RESOURCE & 1) is has


def test_cgroup_controllers_of_version_1(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On cgroup v1 the controllers are those that the kernel has a hierarchy for."""
    monkeypatch.setattr(facts, "_cgroup_version", lambda: 1)
    files["/proc/cgroups"] = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t3\t1\npids\t0\t1\t1\n"
    assert facts._cgroup_controllers() == ["cpu"]


def test_a_listening_port_is_seen() -> None:
    """A port that something listens on is told, over IPv4 and over IPv6."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as sock:
            sock.bind((address, 0))
            port = sock.getsockname()[1]
            assert port not in facts.listening()
            sock.listen()
            assert port in facts.listening()


def test_facts_of_this_host(tmp_path: Path) -> None:
    """Facts are gathered without an error on any Linux host, for directories that do not exist yet too."""
    found = facts.gather([str(tmp_path / "not" / "there")])
    assert found["hostname"] == socket.gethostname()
    assert found["free_mib"][str(tmp_path / "not" / "there")] > 0
    assert found["memory_mib"] > 0
    assert "127.0.0.1" in found["addresses"]
    assert found["writable"] == {str(tmp_path / "not" / "there"): True}
