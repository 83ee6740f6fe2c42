"""The cluster's own authorities and the certificates they issue, from one table."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.agent.resources.certificate import Certificate, KeyPair, Token
from nidome.roles.base import HostContext, Role, Task
from nidome.roles.paths import Paths

if TYPE_CHECKING:
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["AUTHORITIES", "CLIENT_PKI", "PKI", "TOKEN", "TOKEN_ID"]

TOKEN = "bootstrap-token"  # noqa: S105 - a file's name
TOKEN_ID = "nidome"  # noqa: S105 - the public half
"""The public half of the bootstrap token: the Secret's name follows from it."""

AUTHORITIES = {"ca": "kubernetes-ca", "etcd-ca": "etcd-ca", "front-proxy-ca": "front-proxy-ca"}
_ROLE = "kubernetes/pki"
_FIELDS = (
    "nidome_certificate_days",
    "supplementary_addresses_in_ssl_keys",
    "ip",
    "access_ip",
    "cluster_name",
    "kube_service_addresses",
)
_RENEW_SHARE = 4  # renewed in the last quarter of its life


@dataclass(frozen=True)
class _Leaf:
    """One certificate: its file, its subject, what it may be used for, and who issues it."""

    name: str
    common_name: str
    usages: tuple[str, ...]
    ca: str = "ca"
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def _alternative(names: list[str]) -> tuple[str, ...]:
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(f"IP:{ipaddress.ip_address(name)}")
        except ValueError:
            found.append(f"DNS:{name}")
    return tuple(found)


def _api_names(spec: ClusterSpec, host: HostSpec) -> tuple[str, ...]:
    service = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{spec.cluster_name.value}",
    ]
    own = [host.name, "localhost", "127.0.0.1", spec.api_service_ip, host.ip.value, host.access_ip.value]
    return _alternative([*service, *own, *spec.supplementary_addresses_in_ssl_keys.value])


def _server_leaves(context: HostContext) -> list[_Leaf]:
    """Return what the store and the API server need before they start."""
    spec, host = context.spec, context.host
    store = _alternative([host.name, "localhost", "127.0.0.1", host.ip.value, host.access_ip.value])
    return [
        _Leaf("store-server", "store", ("client", "server"), "etcd-ca", names=store),
        _Leaf("apiserver-etcd-client", "kube-apiserver-etcd-client", ("client",), "etcd-ca"),
        _Leaf("apiserver", "kube-apiserver", ("server",), names=_api_names(spec, host)),
        _Leaf("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ("client",)),
        _Leaf("front-proxy-client", "front-proxy-client", ("client",), "front-proxy-ca"),
        _Leaf("admin", "kubernetes-admin", ("client",), organizations=("system:masters",)),
    ]


def _client_leaves(context: HostContext) -> list[_Leaf]:
    """Return what the others show the API server: issued while it starts."""
    return [
        _Leaf("controller-manager", "system:kube-controller-manager", ("client",)),
        _Leaf("scheduler", "system:kube-scheduler", ("client",)),
        _Leaf("kube-proxy", "system:kube-proxy", ("client",)),
        _Leaf("approver", "nidome:approver", ("client",)),
        # kubelet starts with this one at once instead of waiting for a signature, and rotates it by itself.
        _Leaf("kubelet", f"system:node:{context.host.name}", ("client",), organizations=("system:nodes",)),
    ]


def _tasks(context: HostContext) -> list[Task]:
    spec, paths = context.spec, Paths(context.spec)
    days, ca_days = spec.nidome_certificate_days.value, spec.nidome_ca_days.value
    authorities = tuple(
        Certificate(
            paths.cert(file),
            paths.key(file),
            name,
            days=ca_days,
            renew_days=min(days, ca_days // _RENEW_SHARE),
        )
        for file, name in AUTHORITIES.items()
    )
    secrets = (KeyPair(paths.key("sa"), f"{paths.certs}/sa.pub"), Token(f"{paths.certs}/{TOKEN}", TOKEN_ID))
    return [
        Task(_ROLE, "Create certificate authorities", authorities, ("certificates",), ("nidome_ca_days",)),
        Task(_ROLE, "Create service-account keys and bootstrap token", secrets, ("certificates",)),
        _issue(context, "Issue the servers' certificates", _server_leaves(context)),
    ]


def _client_tasks(context: HostContext) -> list[Task]:
    return [_issue(context, "Issue the components' certificates", _client_leaves(context))]


def _issue(context: HostContext, title: str, leaves: list[_Leaf]) -> Task:
    paths, days = Paths(context.spec), context.spec.nidome_certificate_days.value
    certificates = tuple(
        Certificate(
            paths.cert(leaf.name),
            paths.key(leaf.name),
            leaf.common_name,
            leaf.organizations,
            leaf.names,
            leaf.usages,
            paths.cert(leaf.ca),
            paths.key(leaf.ca),
            days,
            days // _RENEW_SHARE,
        )
        for leaf in leaves
    )
    return Task(_ROLE, title, certificates, ("certificates",), _FIELDS)


PKI = Role(_ROLE, _tasks)
CLIENT_PKI = Role(_ROLE, _client_tasks)
