"""The plays of a cluster, in order, under the names that kubespray's users know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.roles.access import ACCESS
from nidome.roles.base import Handler, HostContext, Play, Role, Task
from nidome.roles.container_engine import CONTAINERD, DNS_IMAGE, SANDBOX_IMAGE, USER_IMAGES
from nidome.roles.control_plane import APPROVER, CONTROL_PLANE, CONTROLLERS
from nidome.roles.dns import DNS, DNS_READY, ENDPOINT
from nidome.roles.health import HEALTH
from nidome.roles.helm import HELM
from nidome.roles.kube_proxy import KUBE_PROXY
from nidome.roles.kubelet import KUBELET, NODE
from nidome.roles.pki import CLIENT_PKI, PKI
from nidome.roles.store import STORE
from nidome.roles.system import BOOTSTRAP, PREINSTALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec

__all__ = ["CLUSTER", "HostPlay", "artifact_names", "evaluate"]

_ALL = ("k8s_cluster", "etcd")
_CLUSTER = ("k8s_cluster",)
_CONTROL = ("kube_control_plane",)

# The API server takes longest to start, so what it needs comes first, and the rest is done while it starts.
CLUSTER: tuple[Play, ...] = (
    Play("Bootstrap hosts for Ansible", _ALL, (BOOTSTRAP,)),
    Play("Prepare for etcd install", _ALL, (PREINSTALL, PKI)),
    Play("Install etcd", ("etcd", "kube_control_plane"), (STORE,)),
    Play("Install the control plane", _CONTROL, (CONTROL_PLANE,)),
    Play("Install Kubernetes nodes", _CLUSTER, (CONTAINERD, CLIENT_PKI, SANDBOX_IMAGE, DNS_IMAGE)),
    Play("Invoke kubeadm and install a CNI", _CONTROL, (CONTROLLERS, KUBELET, KUBE_PROXY, ACCESS, APPROVER)),
    Play("Install Kubernetes apps", _CONTROL, (DNS, USER_IMAGES, HELM)),
    Play("Wait for the cluster", _CLUSTER, (NODE, ENDPOINT, DNS_READY, HEALTH)),
)


@dataclass(frozen=True)
class HostPlay:
    """A play as one host sees it: its tasks and handlers."""

    play: Play
    tasks: tuple[Task, ...]
    handlers: tuple[Handler, ...]


def _roles(plays: Sequence[Play], context: HostContext) -> list[tuple[Play, Role]]:
    return [
        (play, role)
        for play in plays
        if play.concerns(context.host)
        for role in play.roles
        if role.applies(context)
    ]


def evaluate(plays: Sequence[Play], context: HostContext) -> list[HostPlay]:
    """Return what a host must have, play by play."""
    found = []
    for play in plays:
        roles = [role for mine, role in _roles([play], context) if mine is play]
        tasks = tuple(task for role in roles for task in role.tasks(context))
        handlers = tuple(handler for role in roles for handler in role.handlers(context))
        if tasks:
            found.append(HostPlay(play, tasks, handlers))
    return found


def artifact_names(plays: Sequence[Play], spec: ClusterSpec) -> tuple[str, ...]:
    """Return the artifacts that the plays' roles need for this cluster, each once."""
    return tuple(
        dict.fromkeys(name for play in plays for role in play.roles for name in role.artifacts(spec))
    )
