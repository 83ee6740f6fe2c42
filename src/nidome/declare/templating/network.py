"""The filters for addresses and networks (``ansible.utils``), on netaddr.

``ipaddr`` asks a question about a value: the questions are a table. What is no address answers False; a
question that makes no sense for the value (the broadcast address of a single address) is answered by None. A
value is a *network* where it is written with a slash, else an *address*; ``10.0.0.5/24`` is the address
10.0.0.5 in a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import netaddr

from nidome.declare.templating.problems import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FILTERS", "QUERIES"]

_BITS = {4: 32, 6: 128}
_PAIR, _FOUR = 2, 4  # sizes of the networks between two points


class _Value(NamedTuple):
    """A value that is an address or a network; ``text`` is how it was written."""

    net: Any
    text: Any
    slash: bool

    @property
    def is_host(self) -> bool:
        """Whether it stands for one address, not for the network that it is the first address of."""
        return bool(self.net.size == 1 or self.net.ip != self.net.network)

    @property
    def full(self) -> str:
        """Return address and prefix length."""
        return f"{self.net.ip}/{self.net.prefixlen}"


def _parse(value: Any, version: int = 0) -> _Value | None:
    text = str(value)
    if text.isascii() and text.isdigit():
        return _from_number(int(text), None, (version,) if version else tuple(_BITS))
    try:
        return _Value(netaddr.IPNetwork(text), value, "/" in text)
    except (netaddr.AddrFormatError, ValueError, TypeError):
        pass
    number, slash, prefix = text.partition("/")
    if slash and number.isascii() and number.isdigit() and prefix.isascii() and prefix.isdigit():
        return _from_number(int(number), int(prefix), tuple(_BITS))
    return None


def _from_number(number: int, prefix: int | None, versions: tuple[int, ...]) -> _Value | None:
    for version in versions:
        bits = _BITS[version]
        if number < 2**bits and (prefix is None or prefix <= bits):
            net = netaddr.IPNetwork((number, bits if prefix is None else prefix), version=version)
            return _Value(net, str(net), prefix is not None)
    return None


def ipaddr(value: Any, query: Any = "", version: int = 0) -> Any:
    """Return the answer to a question about an address or a network, of a list for each item that has one.

    A number asks for that address of the network, a network asks whether the value is in it. FilterError
    where the question is not known.
    """
    if isinstance(value, list | tuple):
        answers = (ipaddr(item, query, version) for item in value)
        return [answer for answer in answers if answer]
    parsed = _parse(value, version) if value and value is not True else None
    if parsed is None or (version and parsed.net.version != version):
        return False
    if query in QUERIES:
        answer = QUERIES[query](parsed)
        return False if answer is None and query in _SAID_FALSE else answer
    return _nth(parsed, query)


def _nth(value: _Value, query: Any) -> Any:
    try:
        position = int(str(query))
    except ValueError:
        return _inside(value, query)
    if value.net.size == 1:
        return str(value.net) if value.slash else str(value.net.ip)
    try:
        return f"{value.net[position]}/{value.net.prefixlen}"
    except (IndexError, TypeError):
        return False


def _inside(value: _Value, query: Any) -> Any:
    network = _parse(query)
    if network is None:
        known = ", ".join(sorted(name for name in QUERIES if name))
        raise FilterError(
            f"ipaddr: there is no question '{query}'", f"use a network, a number or one of {known}"
        )
    first, last = network.net.first, network.net.last
    same = network.net.version == value.net.version
    return value.text if same and first <= value.net.first and value.net.last <= last else None


def _usable(value: _Value) -> tuple[int, int] | None:
    """Return the first and the last address that hosts can have; FilterError for a single address."""
    if not value.slash:
        raise FilterError(f"ipaddr: '{value.text}' is not a network", "write it with a prefix length")
    net = value.net
    if net.size == 1:
        return None
    return (net.first, net.last) if net.size == _PAIR else (net.first + 1, net.last - 1)


def _address(value: _Value, number: int) -> str:
    return str(netaddr.IPAddress(number, value.net.version))


def _end(value: _Value, which: int) -> str | None:
    found = _usable(value)
    return _address(value, found[which]) if found else None


def _neighbour(value: _Value, step: int) -> str | None:
    found = _usable(value)
    number = int(value.net.ip) + step
    return _address(value, number) if found and found[0] <= number <= found[1] else None


def _range(value: _Value) -> str | None:
    found = _usable(value)
    return f"{_address(value, found[0])}-{_address(value, found[1])}" if found else None


def _peer(value: _Value) -> str:
    _usable(value)
    number = int(value.net.ip)
    if value.net.size == _PAIR:
        return _address(value, number ^ 1)
    if value.net.size != _FOUR:
        raise FilterError(f"ipaddr: '{value.text}' is not a network between two points", "use a /31 or a /30")
    if number % _FOUR in (0, _FOUR - 1):
        raise FilterError(f"ipaddr: '{value.text}' is no host's address, it has no peer")
    return _address(value, number ^ 3)


def _ip(value: _Value) -> str | None:
    net = value.net
    return str(net.ip) if value.is_host or not net.broadcast or net.version == 6 else None  # noqa: PLR2004 - IPv6


def _host(value: _Value) -> str | None:
    if value.net.size == 1:
        return str(value.net)
    return value.full if value.is_host or not value.net.broadcast else None


def _with_prefix(value: _Value) -> str | bool:
    net = value.net
    return False if net.size > _PAIR and net.ip in (net.network, net.broadcast) else value.full


def _in_network(value: _Value, text: str) -> str | None:
    net = value.net
    return text if net.size == _PAIR or (net.size > 1 and net.ip != net.network) else None


def _as_ipv4(value: _Value) -> Any:
    if value.net.version == 4:  # noqa: PLR2004 - IPv4
        return value.text
    try:
        return str(value.net.ipv4())
    except (netaddr.AddrConversionError, ValueError):
        return False


def _within(value: _Value, v4: str, v6: str) -> bool:
    return value.net.ip in netaddr.IPNetwork(v4 if value.net.version == 4 else v6)  # noqa: PLR2004 - IPv4


def _is_public(value: _Value) -> bool:
    ip = value.net.ip
    return bool(
        ip.is_unicast()
        and ip.is_global()
        and not ip.is_loopback()
        and not ip.is_netmask()
        and not ip.is_hostmask()
    )


def _6to4(value: _Value) -> Any:
    ip = value.net.ip
    if value.net.version == 4:  # noqa: PLR2004 - IPv4
        if not value.is_host:
            return False
        high, low = divmod(int(ip), 2**16)
        return f"2002:{high:04x}:{low:04x}::1/48"
    inside = ip in netaddr.IPNetwork("2002::/16")
    return value.text if inside and (not value.slash or value.is_host) else False


def _wrap(value: _Value) -> Any:
    if value.net.version == 4:  # noqa: PLR2004 - IPv4
        return value.text
    return f"[{value.net.ip}]/{value.net.prefixlen}" if value.slash else f"[{value.net.ip}]"


def _if(holds: Callable[[_Value], Any]) -> Callable[[_Value], Any]:
    """Return the question that is answered by the value itself where something holds."""
    return lambda value: value.text if holds(value) else None


QUERIES: Mapping[str, Callable[[_Value], Any]] = {
    "": lambda v: str(v.net) if v.slash else str(v.net.ip),
    "6to4": _6to4,
    "address": _ip,
    "address/prefix": _with_prefix,
    "bool": lambda _: True,
    "broadcast": lambda v: str(v.net.broadcast) if v.net.size > _PAIR else None,
    "cidr": lambda v: str(v.net),
    "first_usable": lambda v: _end(v, 0),
    "gateway": _with_prefix,
    "gw": _with_prefix,
    "host": _host,
    "host/prefix": _with_prefix,
    "hostmask": lambda v: str(v.net.hostmask),
    "hostnet": _with_prefix,
    "int": lambda v: f"{int(v.net.ip)}/{v.net.prefixlen}" if v.slash else int(v.net.ip),
    "ip": _ip,
    "ip/prefix": lambda v: _in_network(v, v.full),
    "ip_netmask": lambda v: _in_network(v, f"{v.net.ip} {v.net.netmask}"),
    "ipv4": _as_ipv4,
    "ipv6": lambda v: str(v.net.ipv6()) if v.net.version == 4 else v.text,  # noqa: PLR2004 - IPv4
    "last_usable": lambda v: _end(v, 1),
    "link-local": _if(lambda v: _within(v, "169.254.0.0/16", "fe80::/10")),
    "lo": _if(lambda v: v.net.ip.is_loopback()),
    "loopback": _if(lambda v: v.net.ip.is_loopback()),
    "multicast": _if(lambda v: v.net.is_multicast()),
    "net": lambda v: f"{v.net.network}/{v.net.prefixlen}" if not v.is_host else None,
    "netmask": lambda v: str(v.net.netmask),
    "network": lambda v: str(v.net.network),
    "network/prefix": lambda v: str(v.net.cidr),
    "network_id": lambda v: str(v.net.network),
    "network_netmask": lambda v: f"{v.net.network} {v.net.netmask}",
    "network_wildcard": lambda v: f"{v.net.network} {v.net.hostmask}",
    "next_usable": lambda v: _neighbour(v, 1),
    "peer": _peer,
    "prefix": lambda v: int(v.net.prefixlen),
    "previous_usable": lambda v: _neighbour(v, -1),
    "private": _if(lambda v: not v.net.ip.is_global()),
    "public": _if(_is_public),
    "range_usable": _range,
    "revdns": lambda v: v.net.ip.reverse_dns,
    "router": _with_prefix,
    "size": lambda v: v.net.size,
    "size_usable": lambda v: {1: 0, 2: 2}.get(v.net.size, v.net.size - 2),
    "subnet": lambda v: str(v.net.cidr),
    "type": lambda v: "address" if v.is_host else "network",
    "unicast": _if(lambda v: v.net.is_unicast()),
    "version": lambda v: v.net.version,
    "wildcard": lambda v: str(v.net.hostmask),
    "wrap": _wrap,
}
"""The questions that can be asked by name, and how they are answered."""

_SAID_FALSE = frozenset({"6to4", "ipv4"})


def ipwrap(value: Any, query: Any = "") -> Any:
    """Return IPv6 addresses in brackets and everything else as it is."""
    if isinstance(value, list | tuple):
        return [ipwrap(item, query) for item in value]
    answer = ipaddr(value, query) if isinstance(value, str) else False
    return ipaddr(answer, "wrap") if answer else value


def _network_of(value: Any) -> Any:
    """Return the network that a value is, or is an address of; None for neither."""
    parsed = _parse(value) if value and value is not True else None
    return parsed.net if parsed else None


def ipsubnet(value: Any, query: Any = "", index: Any = None) -> Any:
    """Return the subnet of a size and an index, how many there are, or a network's position in another."""
    net = _network_of(value)
    if net is None:
        return False
    net, query = net.cidr, str(query)
    if not query.isdigit():
        return _position(net, query) if query else str(net)
    if int(query) > _BITS[net.version]:
        return False
    number = None if index is None else int(index)
    return _supernet(net, int(query), number) if net.size == 1 else _subnet(net, int(query), number)


def _subnet(net: Any, length: int, index: int | None) -> Any:
    if length < net.prefixlen:
        raise FilterError(f"ipsubnet: {net} has no subnets of /{length}", "give a longer prefix")
    count = 2 ** (length - net.prefixlen)
    if index is None:
        return str(count)
    position = index + count if index < 0 else index
    if not 0 <= position < count:
        return False
    first = net.first + (position << (_BITS[net.version] - length))
    return str(netaddr.IPNetwork((first, length), version=net.version))


def _supernet(net: Any, length: int, index: int | None) -> Any:
    above = net.supernet(length)
    if index is None:
        return str(above[0]) if above else False
    bits = _BITS[net.version]
    if index > bits + 1 - index or index < length - bits or not -len(above) <= index < len(above):
        return False
    return str(above[index])


def _position(net: Any, query: str) -> str:
    outer = _network_of(query)
    if outer is None:
        raise FilterError(f"ipsubnet: '{query}' is neither a size nor a network")
    if net.version != outer.version or not outer.first <= net.first <= outer.last:
        raise FilterError(f"ipsubnet: {net} is not in {outer.cidr}")
    return str(((net.first - outer.first) >> (_BITS[net.version] - net.prefixlen)) + 1)


def ipmath(value: Any, amount: Any) -> str:
    """Return the address that is a number of addresses after another."""
    net = _network_of(value)
    if net is None or not isinstance(amount, int):
        raise FilterError(f"ipmath: '{value}' and '{amount}' are not an address and a whole number")
    return str(net.ip + amount)


def nthhost(value: Any, query: Any = "") -> Any:
    """Return an address of a network by its number."""
    net = _network_of(value)
    try:
        position = int(query)
    except (TypeError, ValueError):
        return False
    if net is None or not position or not -net.size <= position < net.size:
        return False
    return str(net.cidr[position])


def _nth_usable(value: Any, offset: Any) -> Any:
    parsed = _parse(value) if value and value is not True else None
    if parsed is None:
        return False
    if not isinstance(offset, int):
        raise FilterError("next_nth_usable: the offset must be a whole number")
    net = parsed.net if parsed.is_host else parsed.net.cidr
    if net.size == 1:
        return None
    return _neighbour(_Value(net, parsed.text, slash=True), offset)


def _ends(value: Any) -> tuple[int, int] | None:
    net = _network_of(value)
    return (net.first, net.last) if net is not None else None


def network_in_network(value: Any, test: Any) -> bool:
    """Whether an address or a network is in another, its first and last address included."""
    outer, inner = _ends(value), _ends(test)
    return outer is not None and inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1]


def network_in_usable(value: Any, test: Any) -> bool:
    """Whether an address or a network is in what hosts of another can have."""
    outer, inner = _ends(value), _ends(test)
    if outer is None or inner is None:
        return False
    edge = 1 if outer[1] - outer[0] >= _PAIR else 0
    return outer[0] + edge <= inner[0] and inner[1] <= outer[1] - edge


def reduce_on_network(value: Any, network: Any) -> list[Any]:
    """Return the addresses of a list that are in a network."""
    return [item for item in value if network_in_network(network, item)]


def cidr_merge(value: Any, action: str = "merge") -> Any:
    """Return the fewest networks for a list of them, or the smallest one that holds them all (``span``)."""
    try:
        if action == "merge":
            return [str(net) for net in netaddr.cidr_merge(value)]
        if action == "span":
            nets = list(value)
            return (
                str(netaddr.spanning_cidr(nets) if len(nets) > 1 else netaddr.IPNetwork(nets[0]))
                if nets
                else None
            )
    except (netaddr.AddrFormatError, ValueError, TypeError) as error:
        raise FilterError(f"cidr_merge: {error}") from None
    raise FilterError(f"cidr_merge: there is no action '{action}'", "use merge or span")


def ip4_hex(value: Any, delimiter: str = "") -> str:
    """Return an IPv4 address in hexadecimal digits."""
    net = _network_of(value)
    if net is None or net.version != 4 or net.size > 1:  # noqa: PLR2004 - IPv4
        raise FilterError(f"ip4_hex: '{value}' is not an IPv4 address")
    return delimiter.join(f"{byte:02x}" for byte in int(net.ip).to_bytes(4, "big"))


def hwaddr(value: Any, query: str = "") -> Any:
    """Return a hardware address in another form, or whether it is one."""
    try:
        address = netaddr.EUI(value)
    except (netaddr.AddrFormatError, TypeError, ValueError):
        if query in ("", "bool"):
            return None
        raise FilterError(f"hwaddr: '{value}' is not a hardware address") from None
    if query in ("", "bool", "int"):
        return {"": value, "bool": True, "int": int(address)}[query]
    if query not in _DIALECTS:
        raise FilterError(f"hwaddr: there is no form '{query}'", f"use one of {', '.join(_DIALECTS)}")
    return address.format(_DIALECTS[query])


class _Linux(netaddr.mac_unix):  # type: ignore[misc] # netaddr has no types
    word_fmt = "%.2x"


_DIALECTS: Mapping[str, Any] = {
    "bare": netaddr.mac_bare,
    "cisco": netaddr.mac_cisco,
    "eui48": netaddr.mac_eui48,
    "linux": _Linux,
    "pgsql": netaddr.mac_pgsql,
    "postgresql": netaddr.mac_pgsql,
    "psql": netaddr.mac_pgsql,
    "unix": netaddr.mac_unix,
    "win": netaddr.mac_eui48,
}

FILTERS: Mapping[str, Callable[..., Any]] = {
    "cidr_merge": cidr_merge,
    "hwaddr": hwaddr,
    "ip4_hex": ip4_hex,
    "ipaddr": ipaddr,
    "ipmath": ipmath,
    "ipsubnet": ipsubnet,
    "ipv4": lambda value, query="": ipaddr(value, query, 4),
    "ipv6": lambda value, query="": ipaddr(value, query, 6),
    "ipwrap": ipwrap,
    "macaddr": lambda value, query="": hwaddr(value, query or "unix"),
    "network_in_network": network_in_network,
    "network_in_usable": network_in_usable,
    "next_nth_usable": _nth_usable,
    "nthhost": nthhost,
    "previous_nth_usable": lambda value, offset: _nth_usable(value, -offset),
    "reduce_on_network": reduce_on_network,
}
