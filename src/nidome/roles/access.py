"""Who may do what before anybody else has been given a right: RBAC and the bootstrap token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.roles.base import HostContext, Role, Task, on_control_plane
from nidome.roles.objects import binding, kube_object, metadata, rule
from nidome.roles.paths import Paths
from nidome.roles.pki import TOKEN, TOKEN_ID

if TYPE_CHECKING:
    from nidome.agent.resources.kubeobject import KubeObject

__all__ = ["ACCESS"]

_ROLE = "kubernetes/kubeadm"
_SIGN = "certificatesigningrequests"
_BOOTSTRAP_GROUP = "system:bootstrappers:nidome"

_BINDINGS = (
    # The API server asks kubelets for logs, exec and port-forward.
    binding("nidome:apiserver-kubelet", "system:kubelet-api-admin", "User", "kube-apiserver-kubelet-client"),
    # A kubelet with only a bootstrap token asks for a client certificate, which is signed without a person.
    binding("nidome:kubelet-bootstrap", "system:node-bootstrapper", "Group", _BOOTSTRAP_GROUP),
    binding(
        "nidome:approve-bootstrap",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "Group",
        _BOOTSTRAP_GROUP,
    ),
    binding(
        "nidome:approve-rotation",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "Group",
        "system:nodes",
    ),
    binding("nidome:kube-proxy", "system:node-proxier", "User", "system:kube-proxy"),
    binding("nidome:approver", "nidome:approver", "User", "nidome:approver"),
)


def _approver_role() -> dict[str, Any]:
    group = ["certificates.k8s.io"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata("nidome:approver"),
        "rules": [
            rule(group, [_SIGN], ["get", "list", "watch"]),
            rule(group, [f"{_SIGN}/approval"], ["update"]),
            rule(group, ["signers"], ["approve"], ["kubernetes.io/kubelet-serving"]),
            rule([""], ["nodes"], ["get"]),
        ],
    }


def _token(context: HostContext) -> KubeObject:
    """Return the Secret of the bootstrap token; its value stays in a file of the host."""
    path = f"{Paths(context.spec).certs}/{TOKEN}"
    data = {
        "token-id": TOKEN_ID,
        "token-secret": {"$file": path, "part": 1},
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": _BOOTSTRAP_GROUP,
        "description": "Nidome: a kubelet that lost its certificate gets a new one with this token",
    }
    return kube_object(
        context,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": metadata(f"bootstrap-token-{TOKEN_ID}", "kube-system"),
            "stringData": data,
        },
    )


def _tasks(context: HostContext) -> list[Task]:
    roles = (
        kube_object(context, _approver_role()),
        *(kube_object(context, manifest) for manifest in _BINDINGS),
    )
    return [
        Task(_ROLE, "Grant components their rights", roles, ("control-plane", "rbac")),
        Task(_ROLE, "Publish the bootstrap token", (_token(context),), ("control-plane", "rbac")),
    ]


ACCESS = Role(_ROLE, _tasks, applies=on_control_plane)
