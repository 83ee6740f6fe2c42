"""Making Kubernetes objects of the cluster: how they are reached, and small builders for the common kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.agent.resources.kubeobject import KubeObject
from nidome.roles.control_plane import APISERVER_UNIT
from nidome.roles.paths import Paths, access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.roles.base import HostContext

__all__ = ["binding", "kube_object", "metadata", "rule"]


def kube_object(context: HostContext, manifest: dict[str, Any], *, patch: bool = False) -> KubeObject:
    """Return an object kept through this host's API server; ``patch`` for one that somebody else creates."""
    return KubeObject(
        manifest,
        access(context.spec, context.host),
        APISERVER_UNIT,
        Paths(context.spec).store_data,
        patch=patch,
    )


def metadata(name: str, namespace: str = "", **labels: str) -> dict[str, Any]:
    """Return metadata that says who keeps the object."""
    meta: dict[str, Any] = {"name": name, "labels": {"app.kubernetes.io/managed-by": "nidome", **labels}}
    if namespace:
        meta["namespace"] = namespace
    return meta


def rule(
    groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a rule of a ClusterRole."""
    made: dict[str, Any] = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    if names:
        made["resourceNames"] = list(names)
    return made


def binding(name: str, role: str, kind: str, subject: str, namespace: str = "") -> dict[str, Any]:
    """Return a ClusterRoleBinding of a role to one user, group or service account."""
    who: dict[str, Any] = {"kind": kind, "name": subject}
    if namespace:
        who["namespace"] = namespace
    else:
        who["apiGroup"] = "rbac.authorization.k8s.io"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [who],
    }
