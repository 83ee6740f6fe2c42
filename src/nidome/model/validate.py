"""What one value alone cannot tell: checks across the fields of a cluster and its hosts.

Each check is a function in a table; it raises DeclarationError with the file:line of a value concerned, or
yields warnings. What this release cannot do yet is in one place, :func:`check_release`.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NoReturn

from nidome.errors import DeclarationError
from nidome.model.findings import DeclarationWarning
from nidome.model.settings import CHECKS
from nidome.provenance import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nidome.model.spec import ClusterSpec

__all__ = ["check_release", "validate"]

_TAKEN_PORTS = {
    2379: "etcd or kine", 2380: "etcd", 10248: "the kubelet", 10249: "kube-proxy", 10250: "the kubelet",
    10256: "kube-proxy", 10257: "the controller manager", 10259: "the scheduler", 22: "ssh",
}  # fmt: skip
_NODE_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LONGEST_NAME = 63  # a node's name is also its label kubernetes.io/hostname
_LARGEST_SERVICES = 12  # the API server refuses a network of more than 2^20 Service addresses
_SMALLEST_SERVICES = 28
_MOST_NODE_BITS = 16  # the controller manager refuses more than 2^16 node networks


def validate(spec: ClusterSpec) -> list[DeclarationWarning]:
    """Return the warnings of all checks; the first contradiction is raised as DeclarationError."""
    return [warning for check in _CHECKS for warning in check(spec)]


def check_release(spec: ClusterSpec) -> None:
    """Refuse what the model can express and this release cannot bring about: more than one host.

    This is the only place that knows the limit.
    """
    later = "comes with a later release; this one sets up a single host that is control plane, node and etcd"
    hint = "keep one host in kube_control_plane, kube_node and etcd"
    for hosts, what in (
        (spec.control_plane, "control-plane host"),
        (spec.nodes, "node"),
        (spec.hosts, "host"),
    ):
        if len(hosts) > 1:
            _fail("hosts-limit", f"more than one {what} {later}", hosts[1].origin, hint)
    host = spec.hosts[0]
    if not host.is_node:
        _fail("hosts-limit", f"a control-plane host outside of kube_node {later}", host.origin, hint)


def _fail(code: str, message: str, origin: Origin, hint: str = "") -> NoReturn:
    raise DeclarationError(code, message, where=str(origin), hint=hint)


def _groups(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    source = Origin("inventory", spec.source)
    if not spec.control_plane:
        _fail("no-control-plane", "the group kube_control_plane has no host", source, "add a host to it")
    if not spec.uses_etcd:
        return
    members = spec.etcd
    if not members:
        _fail(
            "no-etcd",
            "the group etcd has no host",
            source,
            "add a host to it, or set etcd_deployment_type: kine",
        )
    if len(members) % 2 == 0:
        message = f"etcd has {len(members)} members: an even number tolerates no more failures than one less"
        yield DeclarationWarning(
            "etcd-even", message, str(members[-1].origin), "have 1, 3 or 5 hosts in etcd"
        )


def _host_names(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    for host in spec.hosts:
        if not re.fullmatch(_NODE_NAME, host.name) or len(host.name) > _LONGEST_NAME:
            message = f"'{host.name}' cannot be the name of a node"
            _fail("node-name", message, host.origin, "use lower-case letters, digits, '-' and '.'")
    yield from ()


def _store(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    if not spec.uses_etcd and len(spec.control_plane) > 1:
        origin = spec.etcd_deployment_type.origin
        _fail(
            "kine-hosts", "kine serves one control-plane host only", origin, "set etcd_deployment_type: host"
        )
    yield from ()


def _addresses(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    seen: dict[str, str] = {}
    for host in spec.hosts:
        address = host.ip.value
        if not address:
            hint = f"set ip for {host.name}, or ansible_host to its address"
            _fail("host-address", f"the address of the host '{host.name}' is not known", host.origin, hint)
        for value in (host.ip, host.access_ip):
            parsed = IPv4Address(value.value)
            if parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast:
                hint = "set ip to an address that the host's interface has"
                _fail(
                    "host-address",
                    f"'{parsed}' cannot be the address of the node '{host.name}'",
                    value.origin,
                    hint,
                )
            for network, name in (
                (spec.service_network, "kube_service_addresses"),
                (spec.pod_network, "kube_pods_subnet"),
            ):
                if parsed in network:
                    message = f"the address {parsed} of the host '{host.name}' is inside {name} ({network})"
                    _fail("address-overlap", message, value.origin, f"choose another {name}")
        if address in seen:
            message = f"the hosts '{seen[address]}' and '{host.name}' have the same address {address}"
            _fail("host-address", message, host.ip.origin, "give each host its own ip")
        seen[address] = host.name
    yield from ()


def _networks(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    services, pods = spec.service_network, spec.pod_network
    if services.overlaps(pods):
        message = f"kube_service_addresses ({services}) and kube_pods_subnet ({pods}) overlap"
        origin = _declared(spec.kube_pods_subnet.origin, spec.kube_service_addresses.origin)
        _fail("cidr-overlap", message, origin, "choose two networks apart from each other")
    if not _LARGEST_SERVICES <= services.prefixlen <= _SMALLEST_SERVICES:
        message = (
            f"kube_service_addresses ({services}) must have a prefix from "
            f"{_LARGEST_SERVICES} to {_SMALLEST_SERVICES}"
        )
        near = max(_LARGEST_SERVICES, min(services.prefixlen, _SMALLEST_SERVICES))
        hint = f"use a /{near}, such as {services.network_address}/{near}"
        _fail("cidr-size", message, spec.kube_service_addresses.origin, hint)
    _node_networks(spec, pods)
    yield from ()


def _node_networks(spec: ClusterSpec, pods: IPv4Network) -> None:
    prefix = spec.kube_network_node_prefix
    origin = _declared(prefix.origin, spec.kube_pods_subnet.origin)
    bits = prefix.value - pods.prefixlen
    if bits < 0:
        message = (
            f"kube_network_node_prefix ({prefix.value}) is larger than the whole kube_pods_subnet ({pods})"
        )
        _fail("node-prefix", message, origin, f"use {pods.prefixlen} or more")
    if bits > _MOST_NODE_BITS:
        message = (
            f"kube_network_node_prefix ({prefix.value}) makes too many parts of kube_pods_subnet ({pods})"
        )
        _fail("node-prefix", message, origin, f"use {pods.prefixlen + _MOST_NODE_BITS} or less")
    if len(spec.hosts) > 2**bits:
        message = (
            f"kube_pods_subnet ({pods}) has {2**bits} parts of /{prefix.value} for {len(spec.hosts)} hosts"
        )
        _fail(
            "node-prefix",
            message,
            origin,
            "use a larger kube_pods_subnet or a longer kube_network_node_prefix",
        )
    room = 2 ** (32 - prefix.value) - 2
    if spec.kubelet_max_pods.value > room:
        message = f"kubelet_max_pods ({spec.kubelet_max_pods.value}) is more than a node's {room} addresses"
        origin = _declared(spec.kubelet_max_pods.origin, origin)
        _fail("node-prefix", message, origin, "lower kubelet_max_pods or kube_network_node_prefix")


def _ports(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    port = spec.kube_apiserver_port
    if port.value in _TAKEN_PORTS:
        message = f"kube_apiserver_port ({port.value}) is the port of {_TAKEN_PORTS[port.value]}"
        _fail("port-taken", message, port.origin, "use 6443")
    yield from ()


def _certificates(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    days, ca = spec.nidome_certificate_days, spec.nidome_ca_days
    if days.value > ca.value:
        message = f"nidome_certificate_days ({days.value}) is more than nidome_ca_days ({ca.value})"
        _fail(
            "certificate-days",
            message,
            _declared(days.origin, ca.origin),
            "a certificate cannot outlive its CA",
        )
    yield from ()


def _directories(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    names = (
        "etcd_data_dir",
        "kine_data_dir",
        "containerd_storage_dir",
        "containerd_state_dir",
        "kube_config_dir",
        "bin_dir",
    )
    seen: dict[str, str] = {}
    for name in names:
        sourced = getattr(spec, name)
        if sourced.value in seen:
            message = f"{name} and {seen[sourced.value]} are the same directory {sourced.value}"
            origin = _declared(sourced.origin, getattr(spec, seen[sourced.value]).origin)
            _fail("directory-shared", message, origin, "give each its own directory")
        seen[sourced.value] = name
    yield from ()


def _declared(*origins: Origin) -> Origin:
    """Return the first origin that a person wrote, the first one where none did."""
    return next((origin for origin in origins if origin.layer != "default"), origins[0])


_CHECKS = (
    _groups,
    _host_names,
    _store,
    _addresses,
    _networks,
    _ports,
    _certificates,
    _directories,
    *CHECKS,
)
