from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.errors import MachineError
from nidome.machines.addresses import (
    KUBERNETES_RANGES,
    choose_range,
    free_address,
    gateway,
    networks_in_use,
    parse_range,
)

networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(8, 32),
)
private = st.builds(
    lambda low, length: IPv4Network((10 << 24 | low, length), strict=False),
    st.integers(0, 2**24 - 1),
    st.integers(10, 32),
)


@given(st.lists(networks | private, max_size=30))
def test_range_is_free(used: list[IPv4Network]) -> None:
    """The hosts' range is private and overlaps neither what the machine uses nor a Kubernetes default."""
    try:
        chosen = choose_range(used)
    except MachineError:
        assert all(
            any(net.overlaps(u) for u in used) for net in map(IPv4Network, ("10.61.0.0/24", "172.29.0.0/24"))
        )
        return
    assert chosen.prefixlen == 24
    assert chosen.is_private
    assert not any(chosen.overlaps(network) for network in (*used, *KUBERNETES_RANGES))


def test_range_exhausted() -> None:
    """A machine that routes every private range somewhere is told so, with a way out."""
    with pytest.raises(MachineError) as caught:
        choose_range([IPv4Network(n) for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")])
    assert caught.value.code == "address-range-exhausted"
    assert "NIDOME_MACHINES_RANGE" in caught.value.hint


def test_networks_in_use() -> None:
    """Routes, single addresses and addresses of links count; defaults, also in two halves, and IPv6 don't."""
    routes: list[dict[str, Any]] = [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "192.0.2.0/24", "dev": "eth0"},
        {"dst": "10.255.255.53", "dev": "eth0"},
        {"dst": "0.0.0.0/1", "dev": "tun0"},
        {"dst": "128.0.0.0/1", "dev": "tun0"},
        {"dst": "fd00::/64", "dev": "eth0"},
    ]
    links: list[dict[str, Any]] = [
        {"ifname": "docker0", "addr_info": [{"local": "172.17.0.1", "prefixlen": 16}]},
        {"ifname": "eth0", "addr_info": [{"local": "fe80::1", "prefixlen": 64}, {}]},
        {"ifname": "lo"},
    ]
    assert networks_in_use(routes, links) == [
        IPv4Network("192.0.2.0/24"),
        IPv4Network("10.255.255.53/32"),
        IPv4Network("172.17.0.0/16"),
    ]


@pytest.mark.parametrize(
    "text", ["10.61.0.0/23", "10.61.0.1/24", "ten", "10.96.4.0/24", "192.0.2.0/24", "fd00::/64"]
)
def test_bad_range(text: str) -> None:
    """A range that a person asks for must be a /24 that nothing uses."""
    with pytest.raises(MachineError) as caught:
        parse_range(text, [IPv4Network("192.0.2.0/24")])
    assert caught.value.code == "address-range-invalid"
    assert text in caught.value.message


@given(st.sets(st.integers(2, 254), max_size=253))
def test_lowest_free_address(octets: set[int]) -> None:
    """A host gets the lowest address that no other host has, and never the gateway's or the broadcast one."""
    network = IPv4Network("10.61.0.0/24")
    taken = {f"10.61.0.{octet}" for octet in octets}
    free = [octet for octet in range(2, 255) if octet not in octets]
    if not free:
        with pytest.raises(MachineError, match="belong to hosts"):
            free_address(network, taken)
        return
    assert str(free_address(network, taken)) == f"10.61.0.{free[0]}"
    assert free_address(network, taken) != gateway(network)
