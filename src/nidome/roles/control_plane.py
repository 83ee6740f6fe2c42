"""API server, controller manager, scheduler, and the approver of kubelets' serving certificates."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path

from nidome.agent import approver
from nidome.agent.resources.condition import Condition
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.roles.api_access import FIELDS, extras
from nidome.roles.arguments import command
from nidome.roles.base import Handler, HostContext, Role, Task, on_control_plane
from nidome.roles.kubeconfigs import kubeconfig
from nidome.roles.kubernetes import Component, kubernetes_binary
from nidome.roles.paths import Paths, access, client_access, server_url
from nidome.roles.store import CLIENT_PORT
from nidome.roles.units import Service

__all__ = ["APISERVER_UNIT", "APPROVER", "CONTROLLERS", "CONTROL_PLANE", "api_ready"]

_ROLE = "kubernetes/control-plane"
_TAGS = ("control-plane",)
APISERVER_UNIT = "kube-apiserver.service"
_ROOTS_CONFIG = "/root/.kube/config"
_APPROVER = "/usr/local/lib/nidome/approver.py"

# TLS 1.2 suites with forward secrecy and authenticated encryption; TLS 1.3 chooses its own.
_CIPHERS = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)


def _apiserver_arguments(context: HostContext) -> dict[str, object]:
    spec, paths = context.spec, Paths(context.spec)
    return {
        "advertise-address": context.host.ip.value,
        "secure-port": spec.kube_apiserver_port.value,
        "allow-privileged": True,
        "anonymous-auth": spec.kube_api_anonymous_auth.value,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": True,
        **_own_authentication(paths),
        "tls-cert-file": paths.cert("apiserver"),
        "tls-private-key-file": paths.key("apiserver"),
        "tls-min-version": "VersionTLS12",
        "tls-cipher-suites": _CIPHERS,
        "etcd-servers": f"https://127.0.0.1:{CLIENT_PORT}",
        "etcd-cafile": paths.cert("etcd-ca"),
        "etcd-certfile": paths.cert("apiserver-etcd-client"),
        "etcd-keyfile": paths.key("apiserver-etcd-client"),
        "kubelet-certificate-authority": paths.cert("ca"),
        "kubelet-client-certificate": paths.cert("apiserver-kubelet-client"),
        "kubelet-client-key": paths.key("apiserver-kubelet-client"),
        # Host names need not resolve; addresses always reach a kubelet.
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "proxy-client-cert-file": paths.cert("front-proxy-client"),
        "proxy-client-key-file": paths.key("front-proxy-client"),
        "service-account-issuer": f"https://kubernetes.default.svc.{spec.cluster_name.value}",
        "service-account-key-file": f"{paths.certs}/sa.pub",
        "service-account-signing-key-file": paths.key("sa"),
        "service-cluster-ip-range": spec.kube_service_addresses.value,
        # Without it a stop waits for open watches until it is killed: watchers are told to come back instead.
        "shutdown-watch-termination-grace-period": "1s",
        "event-ttl": spec.event_ttl_duration.value,
        "profiling": False,
        "v": spec.kube_log_level.value,
    }


def _apiserver(context: HostContext) -> Service:
    spec, paths, more = context.spec, Paths(context.spec), extras(context)
    words = command(
        paths.binary("kube-apiserver"),
        {**_apiserver_arguments(context), **more.arguments},
        spec.kube_kubeadm_apiserver_extra_args.value,
    )
    # Certificates and client CAs are read again by the server itself; these, and the kubelets' CA, are not.
    inputs = (paths.binary("kube-apiserver"), paths.key("sa"), paths.cert("etcd-ca"), paths.cert("ca"))
    return Service(
        "kube-apiserver",
        "Kubernetes API server",
        words,
        (*inputs, *more.inputs),
        notify=True,
        after=(paths.store_unit,),
        stop_seconds=20,
        residue=more.residue,
    )


def _own_authentication(paths: Paths) -> dict[str, object]:
    """Return the CAs that a component would else look up in the API, and end without until that is up."""
    names = {
        "allowed-names": "front-proxy-client",
        "extra-headers-prefix": "X-Remote-Extra-",
        "group-headers": "X-Remote-Group",
        "username-headers": "X-Remote-User",
    }
    headers: dict[str, object] = {f"requestheader-{name}": value for name, value in names.items()}
    return {
        "client-ca-file": paths.cert("ca"),
        "requestheader-client-ca-file": paths.cert("front-proxy-ca"),
        **headers,
    }


def _controller_manager(context: HostContext) -> Service:
    spec, paths = context.spec, Paths(context.spec)
    config = paths.kubeconfig("controller-manager")
    arguments = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        **_own_authentication(paths),
        # Each controller fetches a token of its own first; at the default rate of 20 a second that takes 5 s.
        "kube-api-qps": 200,
        "kube-api-burst": 400,
        "allocate-node-cidrs": True,
        "cluster-cidr": spec.kube_pods_subnet.value,
        "node-cidr-mask-size": spec.kube_network_node_prefix.value,
        "service-cluster-ip-range": spec.kube_service_addresses.value,
        "cluster-signing-cert-file": paths.cert("ca"),
        "cluster-signing-key-file": paths.key("ca"),
        "root-ca-file": paths.cert("ca"),
        "service-account-private-key-file": paths.key("sa"),
        "use-service-account-credentials": True,
        "controllers": "*,bootstrap-signer-controller,token-cleaner-controller",
        "terminated-pod-gc-threshold": 12500,
        # One replica has nobody to elect a leader from; waiting for an old lease would delay every restart.
        "leader-elect": len(spec.control_plane) > 1,
        "profiling": False,
        "v": spec.kube_log_level.value,
    }
    words = command(
        paths.binary("kube-controller-manager"), arguments, spec.kube_kubeadm_controller_extra_args.value
    )
    inputs = (paths.binary("kube-controller-manager"), config, paths.cert("ca"), paths.key("sa"))
    # It makes the directory in which it looks for volume plugins.
    residue = ("empty-tree:/usr/libexec/kubernetes",)
    return Service("kube-controller-manager", "Kubernetes controller manager", words, inputs, residue=residue)


def _scheduler(context: HostContext) -> Service:
    spec, paths = context.spec, Paths(context.spec)
    config = paths.kubeconfig("scheduler")
    arguments = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        **_own_authentication(paths),
        "leader-elect": len(spec.control_plane) > 1,
        "profiling": False,
        "v": spec.kube_log_level.value,
    }
    words = command(paths.binary("kube-scheduler"), arguments, spec.kube_kubeadm_scheduler_extra_args.value)
    inputs = (paths.binary("kube-scheduler"), config, paths.cert("ca"))
    return Service("kube-scheduler", "Kubernetes scheduler", words, inputs)


def _client_config(context: HostContext, name: str, user: str) -> File:
    paths = Paths(context.spec)
    credentials = {"client-certificate": paths.cert(name), "client-key": paths.key(name)}
    return kubeconfig(
        paths.kubeconfig(name), server_url(context.spec, context.host), paths.cert("ca"), user, credentials
    )


def api_ready(context: HostContext, timeout: float = 120) -> Condition:
    """Return the condition that this host's API server is ready."""
    units = (APISERVER_UNIT, Paths(context.spec).store_unit)
    return Condition("api-ready", units, timeout, access(context.spec, context.host))


_COMPONENTS = (
    Component(
        _ROLE,
        "kube-apiserver",
        _TAGS,
        _apiserver,
        lambda c: (_client_config(c, "admin", "kubernetes-admin"), *extras(c).resources),
        (
            "kube_apiserver_port",
            "kube_api_anonymous_auth",
            "kube_service_addresses",
            "cluster_name",
            "event_ttl_duration",
            "kube_log_level",
            "kube_kubeadm_apiserver_extra_args",
            "ip",
            "kube_cert_dir",
            *FIELDS,
        ),
        api_ready,
    ),
    Component(
        _ROLE,
        "kube-controller-manager",
        _TAGS,
        _controller_manager,
        lambda c: (_client_config(c, "controller-manager", "system:kube-controller-manager"),),
        (
            "kube_pods_subnet",
            "kube_network_node_prefix",
            "kube_service_addresses",
            "kube_kubeadm_controller_extra_args",
            "kube_log_level",
            "kube_apiserver_port",
        ),
    ),
    Component(
        _ROLE,
        "kube-scheduler",
        _TAGS,
        _scheduler,
        lambda c: (_client_config(c, "scheduler", "system:kube-scheduler"),),
        ("kube_kubeadm_scheduler_extra_args", "kube_log_level", "kube_apiserver_port"),
    ),
)


def _approver(context: HostContext) -> Service:
    paths = Paths(context.spec)
    words = [
        "/usr/bin/python3",
        "-I",
        "-S",
        _APPROVER,
        *client_access(context.spec, context.host, "approver"),
    ]
    return Service(
        "nidome-approver",
        "Nidome: approves kubelet serving certificates",
        words,
        (_APPROVER, paths.cert("ca"), paths.cert("approver"), paths.key("approver")),
        after=(APISERVER_UNIT,),
    )


def _approver_tasks(context: HostContext) -> list[Task]:
    source = Path(approver.__file__).read_text(encoding="utf-8")
    return [
        Task(
            _ROLE, "Install the approver of serving certificates", (File(_APPROVER, source, "0755"),), _TAGS
        ),
        Task(
            _ROLE,
            "Start the approver of serving certificates",
            (_approver(context).unit(context.facts),),
            _TAGS,
        ),
    ]


def _tasks(context: HostContext) -> list[Task]:
    client = Task(
        "kubernetes/client",
        "Install kubectl",
        (kubernetes_binary(context, "kubectl"),),
        ("client", "download", "upgrade"),
        ("kube_version", "bin_dir"),
    )
    # Where kubectl looks by itself; somebody's access to another cluster stays.
    admin = _client_config(context, "admin", "kubernetes-admin")
    admin = replace(admin, path=_ROOTS_CONFIG, ownership="unclaimed")
    kept = Task(
        "kubernetes/client",
        "Copy admin kubeconfig to root user home",
        (Directory(posixpath.dirname(_ROOTS_CONFIG), "0700"), admin),
        ("client",),
        ("kube_apiserver_port", "access_ip", "kube_cert_dir"),
    )
    api, *others = _COMPONENTS
    files = [task for component in others for task in component.install(context)]
    return [*api.install(context), api.start(context), *files, client, kept]


def _controller_tasks(context: HostContext) -> list[Task]:
    """Start what asks the API server for everything once it answers: a refused client waits for seconds."""
    wait = Task(_ROLE, "Wait for the API server", (api_ready(context),), _TAGS)
    return [wait, *(component.start(context) for component in _COMPONENTS[1:])]


def _handlers(context: HostContext) -> list[Handler]:
    return [_COMPONENTS[0].handler(context)]


def _controller_handlers(context: HostContext) -> list[Handler]:
    return [component.handler(context) for component in _COMPONENTS[1:]]


def _approver_handlers(context: HostContext) -> list[Handler]:
    unit = _approver(context).unit(context.facts)
    return [Handler(_ROLE, "Restart the approver of serving certificates", unit.name, unit.inputs, _TAGS)]


CONTROLLERS = Role(_ROLE, _controller_tasks, _controller_handlers, applies=on_control_plane)
APPROVER = Role(_ROLE, _approver_tasks, _approver_handlers, applies=on_control_plane)
CONTROL_PLANE = Role(_ROLE, _tasks, _handlers, lambda _: (*(c.name for c in _COMPONENTS), "kubectl"))
