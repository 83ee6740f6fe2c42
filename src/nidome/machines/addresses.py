"""Choosing an address range that nothing on this machine uses, and addresses in it.

Pure: what the machine has comes in as the JSON of ``ip``.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from typing import TYPE_CHECKING, Any

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

__all__ = [
    "KUBERNETES_RANGES",
    "candidates",
    "choose_range",
    "free_address",
    "gateway",
    "networks_in_use",
    "parse_range",
]

# Defaults of kubespray, flannel and kubeadm for pods and services: a cluster on the hosts may use them.
KUBERNETES_RANGES = (
    IPv4Network("10.233.0.0/17"),
    IPv4Network("10.244.0.0/16"),
    IPv4Network("10.96.0.0/12"),
)

# A route this wide is a default route in disguise (a VPN writes two halves): it reserves nothing.
_WIDEST_RESERVATION = 7

_LENGTH = 24
_PREFERRED = (
    "10.61.0.0/16",
    "172.29.0.0/16",
    "192.168.128.0/17",
    "10.62.0.0/15",
    "172.16.0.0/12",
    "10.0.0.0/8",
)


def candidates() -> Iterator[IPv4Network]:
    """Yield every /24 a range may be, in the order of preference; those of 10.0.0.0/8 come last."""
    return chain.from_iterable(IPv4Network(wide).subnets(new_prefix=_LENGTH) for wide in _PREFERRED)


def networks_in_use(
    routes: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]
) -> list[IPv4Network]:
    """Return the networks that ``ip -json route show table all`` and ``ip -json address`` speak of."""
    written = [route.get("dst", "default") for route in routes]
    written += [
        f"{a['local']}/{a['prefixlen']}" for link in links for a in link.get("addr_info", ()) if "local" in a
    ]
    return [network for text in written if (network := _network(str(text))) is not None]


def _network(text: str) -> IPv4Network | None:
    """Return the IPv4 network written as ``text``; None for IPv6, ``default`` and disguised defaults."""
    try:
        network = IPv4Network(text, strict=False)
    except ValueError:
        return None
    return network if network.prefixlen > _WIDEST_RESERVATION else None


def choose_range(used: Collection[IPv4Network]) -> IPv4Network:
    """Return the first /24 that overlaps neither ``used`` nor a Kubernetes default.

    Raises MachineError ``address-range-exhausted`` when there is none.
    """
    taken = (*used, *KUBERNETES_RANGES)
    for candidate in candidates():
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise MachineError(
        "address-range-exhausted",
        "every private address range is in use on this machine",
        where="ip route show table all",
        hint="name a range that is free: NIDOME_MACHINES_RANGE=192.0.2.0/24",
    )


def parse_range(text: str, used: Collection[IPv4Network]) -> IPv4Network:
    """Return the range a person asked for; raise MachineError when it is no /24 or is in use."""
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise _bad_range(text, str(error)) from error
    if network.prefixlen != _LENGTH:
        raise _bad_range(text, f"a /{_LENGTH} is wanted")
    clash = next((other for other in (*used, *KUBERNETES_RANGES) if network.overlaps(other)), None)
    if clash is not None:
        raise _bad_range(text, f"it overlaps {clash}, which is in use")
    return network


def _bad_range(text: str, why: str) -> MachineError:
    return MachineError(
        "address-range-invalid",
        f"{text!r} can't be the hosts' address range: {why}",
        where="NIDOME_MACHINES_RANGE",
        hint="write an unused /24 such as 10.61.0.0/24, or unset the variable",
    )


def gateway(network: IPv4Network) -> IPv4Address:
    """Return the address of this machine on the hosts' bridge."""
    return network[1]


def free_address(network: IPv4Network, taken: Collection[str]) -> IPv4Address:
    """Return the lowest address of ``network`` that no host has.

    Raises MachineError ``address-range-exhausted`` when all are taken.
    """
    for number in range(2, network.num_addresses - 1):
        if str(network[number]) not in taken:
            return network[number]
    raise MachineError(
        "address-range-exhausted",
        f"all addresses of {network} belong to hosts",
        where=str(network),
        hint="remove some: nidome machines list; nidome machines rm NAME",
    )
