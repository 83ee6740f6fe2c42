"""CoreDNS behind the cluster's DNS Service."""

from __future__ import annotations

import hashlib
from typing import Any

from nidome.agent.resources.condition import Condition
from nidome.roles.base import HostContext, Role, Task
from nidome.roles.control_plane import APISERVER_UNIT
from nidome.roles.objects import binding, kube_object, metadata, rule
from nidome.roles.paths import access

__all__ = ["DNS", "DNS_READY", "ENDPOINT"]

_ROLE = "kubernetes-apps/ansible"
_TAGS = ("apps", "coredns")
_NAME = "coredns"
_NAMESPACE = "kube-system"
_LABELS = {"k8s-app": "kube-dns"}


def _corefile(context: HostContext) -> str:
    spec = context.spec
    upstream = " ".join(spec.upstream_dns_servers.value) or "/etc/resolv.conf"
    return f"""\
.:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {spec.cluster_name.value} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :9153
    forward . {upstream} {{
        prefer_udp
        max_concurrent 1000
    }}
    cache 30
    loop
    reload
    loadbalance
}}
"""


def _account() -> list[dict[str, Any]]:
    reads = [
        rule([""], ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]),
        rule(["discovery.k8s.io"], ["endpointslices"], ["list", "watch"]),
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata("system:coredns"),
        "rules": reads,
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(_NAME, _NAMESPACE)}
    return [account, role, binding("system:coredns", "system:coredns", "ServiceAccount", _NAME, _NAMESPACE)]


def _container(context: HostContext) -> dict[str, Any]:
    ports = [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP")]
    return {
        "name": _NAME,
        "image": context.artifacts["image-coredns"].reference,
        "imagePullPolicy": context.spec.k8s_image_pull_policy.value,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"requests": {"cpu": "100m", "memory": "70Mi"}, "limits": {"memory": "170Mi"}},
        "ports": [
            {"name": name, "containerPort": port, "protocol": protocol} for name, port, protocol in ports
        ],
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        # Probed each second: the Service answers as soon as the server does.
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _deployment(context: HostContext) -> dict[str, Any]:
    # A changed Corefile is read again by the server itself; the digest makes its Pods follow at once.
    digest = hashlib.sha256(_corefile(context).encode()).hexdigest()[:16]
    pod = {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ],
        "containers": [_container(context)],
        "volumes": [
            {
                "name": "config",
                "configMap": {"name": _NAME, "items": [{"key": "Corefile", "path": "Corefile"}]},
            }
        ],
    }
    template = {"metadata": {"labels": _LABELS, "annotations": {"nidome.io/corefile": digest}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(_NAME, _NAMESPACE, **_LABELS),
        "spec": {
            "replicas": context.spec.dns_min_replicas.value,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": _LABELS},
            "template": template,
        },
    }


def _service(context: HostContext) -> dict[str, Any]:
    ports = [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP")]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata("kube-dns", _NAMESPACE, **_LABELS),
        "spec": {
            "clusterIP": context.spec.dns_service_ip,
            "selector": _LABELS,
            "ports": [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in ports],
        },
    }


def _config_map(context: HostContext) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(_NAME, _NAMESPACE),
        "data": {"Corefile": _corefile(context)},
    }


def _tasks(context: HostContext) -> list[Task]:
    # The Service first: its address must be free, and is taken by nobody else from then on.
    manifests = [_service(context), *_account(), _config_map(context), _deployment(context)]
    fields = (
        "upstream_dns_servers",
        "dns_min_replicas",
        "dns_mode",
        "cluster_name",
        "kube_service_addresses",
        "k8s_image_pull_policy",
    )
    objects = tuple(kube_object(context, manifest) for manifest in manifests)
    return [Task(_ROLE, "Kubernetes Apps | CoreDNS", objects, _TAGS, fields)]


def _endpoint_tasks(context: HostContext) -> list[Task]:
    endpoint = Condition("kubernetes-endpoint", (APISERVER_UNIT,), 60, access(context.spec, context.host))
    return [Task(_ROLE, "Wait for the kubernetes Service to have its endpoint", (endpoint,), _TAGS)]


def _answer_tasks(context: HostContext) -> list[Task]:
    spec, units = context.spec, (APISERVER_UNIT, "kube-proxy.service", "kubelet.service")
    name = f"kubernetes.default.svc.{spec.cluster_name.value}"
    asked = {"name": name, "server": spec.dns_service_ip, "address": spec.api_service_ip}
    answer = Condition("dns", units, 120, parameters=asked)
    return [Task(_ROLE, "Wait for DNS to answer through its ClusterIP", (answer,), (*_TAGS, "resolvconf"))]


def _is_ours(context: HostContext) -> bool:
    return context.spec.dns_mode.value == "coredns"


DNS = Role(_ROLE, _tasks, applies=_is_ours)
DNS_READY = Role(_ROLE, _answer_tasks, applies=_is_ours)
ENDPOINT = Role(_ROLE, _endpoint_tasks)
