"""kube-proxy in nftables or iptables mode, as a service of the host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.file import File
from nidome.roles.arguments import command
from nidome.roles.base import Handler, HostContext, Role, Task
from nidome.roles.kubeconfigs import kubeconfig
from nidome.roles.kubernetes import Component
from nidome.roles.paths import Paths, server_url
from nidome.roles.units import Service

if TYPE_CHECKING:
    from nidome.agent.resources.base import Resource

__all__ = ["KUBE_PROXY", "KUBE_PROXY_FILES"]

_ROLE = "kubernetes/node"
_TAGS = ("node", "kube-proxy", "network")


def _configuration(context: HostContext) -> dict[str, Any]:
    spec = context.spec
    values: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0",  # noqa: S104 - decides the address family; what listens is set below
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": Paths(spec).kubeconfig("kube-proxy")},
        "clusterCIDR": spec.kube_pods_subnet.value,
        "hostnameOverride": context.host.name,
        "mode": spec.kube_proxy_mode.value,
        # nftables changes are incremental and cheap: a Service that became ready need not wait for a second.
        "nftables": {"minSyncPeriod": "100ms"},
        # Connection-tracking limits are the machine's; in a container they are read-only.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nodePortAddresses": ["primary"],
    }
    if not context.facts["cap_sys_resource"]:
        values["oomScoreAdj"] = 0
    return values


def _files(context: HostContext) -> tuple[Resource, ...]:
    paths = Paths(context.spec)
    text = json.dumps(_configuration(context), indent=2, sort_keys=True) + "\n"
    credentials = {"client-certificate": paths.cert("kube-proxy"), "client-key": paths.key("kube-proxy")}
    server = server_url(context.spec, context.host)
    return (
        File(f"{paths.config}/kube-proxy-config.yaml", text),
        kubeconfig(
            paths.kubeconfig("kube-proxy"), server, paths.cert("ca"), "system:kube-proxy", credentials
        ),
    )


def _service(context: HostContext) -> Service:
    paths = Paths(context.spec)
    config = f"{paths.config}/kube-proxy-config.yaml"
    words = command(paths.binary("kube-proxy"), {"config": config, "v": context.spec.kube_log_level.value})
    return Service(
        "kube-proxy",
        "Kubernetes service proxy",
        words,
        (paths.binary("kube-proxy"), config, paths.kubeconfig("kube-proxy"), paths.cert("ca")),
        residue=(
            "nft-table:ip kube-proxy",
            "nft-table:ip6 kube-proxy",
            "firewall-chains:KUBE-",
            "new-nft-tables:$nft-tables",
        ),
    )


_COMPONENT = Component(
    _ROLE,
    "kube-proxy",
    _TAGS,
    _service,
    _files,
    ("kube_proxy_mode", "kube_pods_subnet", "kube_log_level", "kube_apiserver_port"),
)


def _files_tasks(context: HostContext) -> list[Task]:
    return [_COMPONENT.files(context)]


def _tasks(context: HostContext) -> list[Task]:
    return [_COMPONENT.binary(context), _COMPONENT.start(context)]


def _handlers(context: HostContext) -> list[Handler]:
    return [_COMPONENT.handler(context)]


KUBE_PROXY_FILES = Role(_ROLE, _files_tasks)
KUBE_PROXY = Role(_ROLE, _tasks, _handlers, lambda _: ("kube-proxy",))
