"""The hosts' network: a bridge with an address range of its own, and translation to the outside."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.machines import shared, supervisor
from nidome.machines.addresses import choose_range, gateway, networks_in_use, parse_range
from nidome.machines.commands import query_json, run
from nidome.machines.places import write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FILE_NAME", "Network", "bring_up", "ruleset", "tear_down"]

FILE_NAME = "network.json"
_ROUTES = ("ip", "-4", "-json", "route", "show", "table", "all")
_LINKS = ("ip", "-json", "address")
_ETHERNET_MTU = 1500


@dataclass(frozen=True)
class Network:
    """The bridge's number, the range behind it, and the largest packet that gets out."""

    number: int
    network: IPv4Network
    mtu: int

    @property
    def bridge(self) -> str:
        """Return the name of the bridge, and of the packet filter table."""
        return f"nidome{self.number}"

    @property
    def ethernet(self) -> str:
        """Return the bridge's hardware address; without one of its own it would change with every host."""
        return f"02:6e:69:64:6f:{self.number % 256:02x}"

    @property
    def gateway(self) -> str:
        """Return this machine's address on the bridge."""
        return str(gateway(self.network))

    def label(self, address: str) -> str:
        """Return the name of a host's network ends: short enough that ``vb-`` goes before it."""
        return f"nd{self.number}-{address.rpartition('.')[2]}"


def ruleset(network: Network) -> str:
    """Return the packet filter rules of ``network``, in the input language of ``nft -f``."""
    return (
        f"table ip {network.bridge}\n"
        f"delete table ip {network.bridge}\n"
        f"table ip {network.bridge} {{\n"
        "  chain outside {\n"
        "    type nat hook postrouting priority srcnat; policy accept;\n"
        f'    ip saddr {network.network} ip daddr != {network.network} oifname != "{network.bridge}" '
        "counter masquerade\n"
        "  }\n"
        "}\n"
    )


def bring_up(root: Path) -> Network:
    """Make the bridge, rules and settings for the hosts of ``root`` if they aren't there; return them.

    The range is chosen once for a state directory and kept in it, since hosts' addresses are. Raises
    MachineError ``address-range-exhausted``.
    """
    with shared.opened() as record:
        _forget_dead_users(record)
        links = query_json(_LINKS)
        routes = query_json(_ROUTES)
        known = record.users.get(str(root))
        network = _network_of(root, known, record, routes, links)
        record.users[str(root)] = shared.User(network.number, str(network.network))
        record.save()
        shared.take_over(record, _forwarding_links(routes))
        _make(network, {link["ifname"] for link in links})
    return network


def _network_of(
    root: Path,
    known: shared.User | None,
    record: shared.Shared,
    routes: list[dict[str, Any]],
    links: list[dict[str, Any]],
) -> Network:
    mtu = _mtu(routes, links)
    if known is not None:
        return Network(known.bridge, IPv4Network(known.network), mtu)
    names = {link["ifname"] for link in links}
    number = _free_number(names, {user.bridge for user in record.users.values()})
    used = networks_in_use(routes, links) + [IPv4Network(user.network) for user in record.users.values()]
    file = root / FILE_NAME
    if file.exists():  # hosts from before a restart of the machine keep their addresses
        return Network(
            number, parse_range(json.loads(file.read_text(encoding="utf-8"))["network"], used), mtu
        )
    asked = os.environ.get("NIDOME_MACHINES_RANGE")
    chosen = parse_range(asked, used) if asked else choose_range(used)
    write_json(file, {"network": str(chosen)})
    return Network(number, chosen, mtu)


def _free_number(names: set[str], taken: set[int]) -> int:
    return next(n for n in range(len(names) + len(taken) + 1) if n not in taken and f"nidome{n}" not in names)


def _mtu(routes: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]) -> int:
    """Return the MTU of the links that lead outside: larger packets from hosts would be lost there."""
    outside = {route.get("dev") for route in routes if route.get("dst") == "default"}
    return min([_ETHERNET_MTU, *(int(link["mtu"]) for link in links if link["ifname"] in outside)])


def _forwarding_links(routes: Iterable[Mapping[str, Any]]) -> list[str]:
    devices = {str(route.get("dev", "lo")) for route in routes if route.get("type", "unicast") == "unicast"}
    return sorted(name for name in devices if name != "lo" and not name.startswith(("nidome", "vb-nd")))


def _make(network: Network, existing: set[str]) -> None:
    if network.bridge not in existing:
        properties = ("mtu", str(network.mtu), "address", network.ethernet)
        run(["ip", "link", "add", network.bridge, *properties, "type", "bridge"])
    lines = (
        f"address replace {network.gateway}/{network.network.prefixlen} dev {network.bridge}",
        f"link set {network.bridge} up",
    )
    run(["ip", "-batch", "-"], stdin="\n".join(lines))
    Path(f"/proc/sys/net/ipv4/conf/{network.bridge}/forwarding").write_text("1", encoding="utf-8")
    run(["nft", "-f", "-"], stdin=ruleset(network))


def tear_down(root: Path) -> None:
    """Undo :func:`bring_up` for ``root``; the settings return when no other directory has hosts."""
    with shared.opened() as record:
        _forget_dead_users(record)
        _drop_user(record, str(root))
        if not record.users:
            shared.restore(record)
        record.save()
    (root / FILE_NAME).unlink(missing_ok=True)


def _forget_dead_users(record: shared.Shared) -> None:
    """Remove what belongs to state directories that somebody deleted by hand."""
    for root in [root for root in record.users if not Path(root).is_dir()]:
        supervisor.end_orphans(Path(root))
        _drop_user(record, root)


def _drop_user(record: shared.Shared, root: str) -> None:
    user = record.users.get(root)
    if user is None:
        return
    bridge = f"nidome{user.bridge}"
    run(["ip", "link", "delete", bridge], check=False)
    run(["nft", "delete", "table", "ip", bridge], check=False)
    del record.users[root]
