"""The playbooks that people know from kubespray: their plays, in order and under their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.roles.access import ACCESS
from nidome.roles.base import Handler, HostContext, Play, Role, Task
from nidome.roles.checks import CONNECT, DOWNLOAD, FACTS, FIT, VALIDATE
from nidome.roles.container_engine import CNI, CONTAINERD, DNS_IMAGE, SANDBOX_IMAGE, USER_IMAGES
from nidome.roles.control_plane import APPROVER, CONTROL_PLANE, CONTROLLERS
from nidome.roles.dns import DNS, DNS_READY, ENDPOINT
from nidome.roles.health import HEALTH
from nidome.roles.helm import HELM
from nidome.roles.kube_proxy import KUBE_PROXY, KUBE_PROXY_FILES
from nidome.roles.kubelet import KUBELET, KUBELET_FILES, NODE
from nidome.roles.pki import CLIENT_PKI, PKI
from nidome.roles.secrecy import with_secrets
from nidome.roles.store import STORE
from nidome.roles.system import BOOTSTRAP, PREINSTALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec

__all__ = [
    "CLUSTER",
    "FACTS_ONLY",
    "KUBESPRAY",
    "RESET",
    "HostPlay",
    "artifact_names",
    "evaluate",
    "first_hosts",
]

KUBESPRAY = "v2.32.0"
"""The release of kubespray whose plays these are, by its tag."""

_HOSTS = ("k8s_cluster", "etcd", "calico_rr")
_ETCD = ("etcd", "kube_control_plane", "_kubespray_needs_etcd")
_CONTROL = ("kube_control_plane",)
_NODES = ("k8s_cluster",)

_BEGINNING = (
    Play("Check Ansible version", ("all",), (CONNECT,)),
    Play("Inventory setup and validation", ("all",), (VALIDATE,), ("always",)),
    Play("Install bastion ssh config", ("bastion[0]",), ()),
    Play("Bootstrap hosts for Ansible", _HOSTS, (BOOTSTRAP,)),
    Play("Gather facts", _HOSTS, (FACTS,), ("always",)),
)

FACTS_ONLY: tuple[Play, ...] = tuple(
    play if play.name != "Bootstrap hosts for Ansible" else Play(play.name, play.groups, ())
    for play in _BEGINNING
)
"""facts.yml: look at the hosts, and change nothing."""

# The numbers, names and host patterns are kubespray's, so that --list-tasks and logs read as its users know
# them; a play without roles concerns what does not exist here. The API server takes longest to start: images
# and certificates that others need come after its play, and are done while it starts. What is waited for of a
# restarted component comes in a play after the one whose handlers restart it.
CLUSTER: tuple[Play, ...] = (
    *_BEGINNING,
    Play("Prepare for etcd install", ("k8s_cluster", "etcd"), (FIT, PREINSTALL, PKI, CONTAINERD, DOWNLOAD)),
    Play("Add worker nodes to the etcd play if needed", ("kube_node",), ()),
    Play("Install etcd", _ETCD, (STORE,)),
    Play("Install Kubernetes nodes", _NODES, (KUBELET_FILES, KUBE_PROXY_FILES)),
    Play("Install the control plane", _CONTROL, (CONTROL_PLANE,)),
    Play(
        "Invoke kubeadm and install a CNI",
        _NODES,
        (
            CLIENT_PKI,
            CNI,
            SANDBOX_IMAGE,
            DNS_IMAGE,
            CONTROLLERS,
            KUBELET,
            KUBE_PROXY,
            ACCESS,
            APPROVER,
        ),
    ),
    Play("Install Calico Route Reflector", ("calico_rr",), ()),
    Play("Patch Kubernetes for Windows", ("kube_control_plane[0]",), ()),
    Play("Install Kubernetes apps", _CONTROL, (DNS, USER_IMAGES, HELM)),
    Play("Apply resolv.conf changes now that cluster DNS is up", _NODES, (NODE, ENDPOINT, DNS_READY, HEALTH)),
)


RESET: tuple[Play, ...] = (
    *(Play(play.name, play.groups, ()) for play in _BEGINNING),
    Play("Reset cluster", _HOSTS, ()),
)
"""reset.yml: what its last play removes is told by each host's own ledger."""


@dataclass(frozen=True)
class HostPlay:
    """A play as one host sees it: its tasks and handlers."""

    play: Play
    tasks: tuple[Task, ...]
    handlers: tuple[Handler, ...]


def first_hosts(spec: ClusterSpec) -> dict[str, str]:
    """Return the name of each group's first host, for patterns such as ``bastion[0]``."""
    firsts: dict[str, str] = {}
    for host in spec.hosts:
        for group in host.groups:
            firsts.setdefault(group, host.name)
    return firsts


def _roles(play: Play, context: HostContext) -> list[Role]:
    if not play.concerns(context.host, first_hosts(context.spec)):
        return []
    return [role for role in play.roles if role.applies(context)]


def evaluate(plays: Sequence[Play], context: HostContext) -> list[HostPlay]:
    """Return what a host must have, play by play."""
    found, secrets = [], context.spec.secret_fields
    for play in plays:
        roles = _roles(play, context)
        tasks = tuple(with_secrets(task, secrets) for role in roles for task in role.tasks(context))
        handlers = tuple(handler for role in roles for handler in role.handlers(context))
        if tasks:
            found.append(HostPlay(play, tasks, handlers))
    return found


def artifact_names(plays: Sequence[Play], spec: ClusterSpec) -> tuple[str, ...]:
    """Return the artifacts that the plays' roles need for this cluster, each once."""
    return tuple(
        dict.fromkeys(name for play in plays for role in play.roles for name in role.artifacts(spec))
    )
