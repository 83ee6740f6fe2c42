"""kubelet: its configuration, its two ways to a client certificate, its service, its Node object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.condition import Condition
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.agent.resources.issued import IssuedCertificates
from nidome.agent.resources.taints import NodeTaints
from nidome.roles.arguments import command
from nidome.roles.base import Handler, HostContext, Role, Task
from nidome.roles.container_engine import socket_path
from nidome.roles.containerd_config import cgroup_driver
from nidome.roles.control_plane import APISERVER_UNIT
from nidome.roles.kubeconfigs import kubeconfig
from nidome.roles.kubernetes import Component
from nidome.roles.objects import kube_object
from nidome.roles.paths import KUBELET_ROOT, Paths, access, server_url
from nidome.roles.pki import TOKEN
from nidome.roles.units import Service

if TYPE_CHECKING:
    from nidome.agent.resources.base import Resource
    from nidome.agent.resources.kubeobject import KubeObject
    from nidome.model.spec import ClusterSpec

__all__ = ["KUBELET", "KUBELET_FILES", "NODE", "node_ready"]

_ROLE = "kubernetes/node"
_TAGS = ("node", "kubelet")
_MANIFESTS = "manifests"
_RESOURCES = ("cpu", "memory", "ephemeral_storage", "pid")
_RESOLVED = "/run/systemd/resolve/resolv.conf"


def _configuration(context: HostContext) -> dict[str, Any]:
    spec, paths, facts = context.spec, Paths(context.spec), context.facts
    values: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",  # noqa: S104 - the API server reaches it by the node's address; clients need certificates
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": paths.cert("ca")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": cgroup_driver(context),
        "clusterDNS": _dns_servers(context),
        "clusterDomain": spec.cluster_name.value,
        "containerRuntimeEndpoint": f"unix://{socket_path(context)}",
        "containerLogMaxFiles": spec.kubelet_logfiles_max_nr.value,
        "containerLogMaxSize": spec.kubelet_logfiles_max_size.value,
        # Swap is the host's own matter: pods do not use it, and nobody's swap is switched off.
        "failSwapOn": False,
        "maxPods": spec.kubelet_max_pods.value,
        "rotateCertificates": spec.kubelet_rotate_certificates.value,
        "serverTLSBootstrap": spec.kubelet_rotate_server_certificates.value,
        "resolvConf": _RESOLVED if facts["resolved"] else "/etc/resolv.conf",
        "staticPodPath": f"{paths.config}/{_MANIFESTS}",
        "tlsMinVersion": "VersionTLS12",
        "volumePluginDir": f"{KUBELET_ROOT}/volumeplugins",
    }
    if facts["cgroup"] == 1:
        values["failCgroupV1"] = False
    if not facts["cap_sys_resource"]:
        values["oomScoreAdj"] = 0
    if spec.eviction_hard.value:
        values["evictionHard"] = dict(spec.eviction_hard.value)
    return {**values, **_reserved(spec)}


def _dns_servers(context: HostContext) -> list[str]:
    spec = context.spec
    servers = {"coredns": spec.dns_service_ip, "manual": spec.manual_dns_server.value}
    server = servers.get(spec.dns_mode.value)
    return [server] if server else []


def _reserved(spec: ClusterSpec) -> dict[str, dict[str, str]]:
    """Return what is kept from pods, for whom that was asked for."""
    return {
        f"{scope}Reserved": {
            name.replace("_", "-"): getattr(spec, f"{scope}_{name}_reserved").value for name in _RESOURCES
        }
        for scope in ("kube", "system")
        if getattr(spec, f"{scope}_reserved").value
    }


def _files(context: HostContext) -> tuple[Resource, ...]:
    spec, paths = context.spec, Paths(context.spec)
    server, ca = server_url(spec, context.host), paths.cert("ca")
    own = {"client-certificate": paths.cert("kubelet"), "client-key": paths.key("kubelet")}
    user = f"system:node:{context.host.name}"
    config = json.dumps(_configuration(context), indent=2, sort_keys=True) + "\n"
    return (
        Directory(KUBELET_ROOT, "0750", owned=True),
        Directory(f"{paths.config}/{_MANIFESTS}"),
        File(f"{paths.config}/kubelet-config.yaml", config, "0640"),
        # A kubelet that had to come back with its token writes this file anew; the next run puts it right.
        kubeconfig(paths.kubeconfig("kubelet"), server, ca, user, own),
        kubeconfig(
            paths.kubeconfig("bootstrap-kubelet"),
            server,
            ca,
            "kubelet-bootstrap",
            {"tokenFile": f"{paths.certs}/{TOKEN}"},
        ),
    )


def _service(context: HostContext) -> Service:
    spec, paths, host = context.spec, Paths(context.spec), context.host
    config = f"{paths.config}/kubelet-config.yaml"
    arguments = {
        "config": config,
        "kubeconfig": paths.kubeconfig("kubelet"),
        "bootstrap-kubeconfig": paths.kubeconfig("bootstrap-kubelet"),
        "cert-dir": f"{KUBELET_ROOT}/pki",
        # Both always: without them kubelet looks its own name up, and waits for a slow DNS.
        "node-ip": host.ip.value,
        "hostname-override": host.name,
        # No pod may slip in before the taints are kept through the API.
        "register-with-taints": host.node_taints.value or None,
        "v": spec.kube_log_level.value,
    }
    words = [*command(paths.binary("kubelet"), arguments), *spec.kubelet_custom_flags.value]
    return Service(
        "kubelet",
        "Kubernetes node agent",
        words,
        (
            paths.binary("kubelet"),
            config,
            paths.cert("ca"),
            paths.kubeconfig("kubelet"),
            paths.kubeconfig("bootstrap-kubelet"),
        ),
        notify=True,
        after=("containerd.service",),
        settings=("KillMode=process", "Delegate=yes"),
        residue=(
            "cgroup:kubepods",
            "cgroup:kubepods.slice",
            f"mounts:{KUBELET_ROOT}",
            f"path:{KUBELET_ROOT}/*",
            "firewall-chains:KUBE-",
            "new-nft-tables:$nft-tables",
            "path:/var/log/pods/*",
            "path:/var/log/containers/*",
        ),
    )


def node_ready(context: HostContext, timeout: float = 120) -> Condition:
    """Return the condition that this host's Node is Ready, by the word of the kubelet that runs now."""
    units = ("kubelet.service", "containerd.service", APISERVER_UNIT)
    return Condition(
        "node-ready", units, timeout, access(context.spec, context.host), {"node": context.host.name}
    )


_COMPONENT = Component(
    _ROLE,
    "kubelet",
    _TAGS,
    _service,
    _files,
    (
        "kubelet_max_pods",
        "kubelet_logfiles_max_nr",
        "kubelet_logfiles_max_size",
        *(
            name
            for scope in ("kube", "system")
            for name in (f"{scope}_reserved", *(f"{scope}_{n}_reserved" for n in _RESOURCES))
        ),
        "eviction_hard",
        "dns_mode",
        "manual_dns_server",
        "cluster_name",
        "kube_service_addresses",
        "kubelet_rotate_certificates",
        "kubelet_rotate_server_certificates",
        "kubelet_custom_flags",
        "kube_log_level",
        "node_taints",
        "kube_apiserver_port",
        "ip",
    ),
    node_ready,
)


def _kept(context: HostContext) -> Task:
    files = tuple(f"{KUBELET_ROOT}/pki/kubelet-{kind}-current.pem" for kind in ("client", "server"))
    kept = IssuedCertificates(files, Paths(context.spec).cert("ca"), "kubelet.service")
    return Task(_ROLE, "Drop kubelet certificates of an earlier authority", (kept,), _TAGS)


def _files_tasks(context: HostContext) -> list[Task]:
    return [_COMPONENT.files(context)]


def _tasks(context: HostContext) -> list[Task]:
    return [_COMPONENT.binary(context), _kept(context), _COMPONENT.start(context)]


def _handlers(context: HostContext) -> list[Handler]:
    return [_COMPONENT.handler(context)]


def _labels(context: HostContext) -> KubeObject:
    """Return the Node's labels: kept through the API, which allows names that kubelet may not set itself."""
    role = {"node-role.kubernetes.io/control-plane": ""} if context.host.is_control_plane else {}
    labels = {**role, **context.host.node_labels.value}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": context.host.name, "labels": labels}}
    return kube_object(context, node, patch=True)


def _node_tasks(context: HostContext) -> list[Task]:
    """Return what is waited for and kept of the Node once kubelet runs."""
    spec, host = context.spec, context.host
    tasks = [
        Task(_ROLE, "Wait for the node to be Ready", (node_ready(context),), _TAGS),
        Task(
            "kubernetes/node-label",
            "Label the node",
            (_labels(context),),
            (*_TAGS, "node-label"),
            ("node_labels",),
        ),
    ]
    if host.node_taints.value:
        store, admin = Paths(spec).store_data, access(spec, host)
        taints = NodeTaints(host.name, host.node_taints.value, admin, APISERVER_UNIT, store)
        tags = (*_TAGS, "node-taint")
        tasks.append(Task("kubernetes/node-taint", "Taint the node", (taints,), tags, ("node_taints",)))
    return tasks


# Its files are written in kubespray's play. Its program comes after the API server's, of which it must not be
# ahead, and is started once that answers: a refused client waits for seconds.
KUBELET_FILES = Role(_ROLE, _files_tasks)
KUBELET = Role(_ROLE, _tasks, _handlers, lambda _: ("kubelet",))
NODE = Role(_ROLE, _node_tasks)
