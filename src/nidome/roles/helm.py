"""Helm's command line on control-plane hosts, where it is asked for."""

from __future__ import annotations

from nidome.roles.base import HostContext, Role, Task
from nidome.roles.kubernetes import kubernetes_binary

__all__ = ["HELM"]


def _tasks(context: HostContext) -> list[Task]:
    binary = (kubernetes_binary(context, "helm"),)
    return [
        Task(
            "kubernetes-apps/helm",
            "Helm | Install helm",
            binary,
            ("apps", "helm"),
            ("helm_enabled", "bin_dir"),
        )
    ]


HELM = Role(
    "kubernetes-apps/helm",
    _tasks,
    artifacts=lambda spec: ("helm",) if spec.helm_enabled.value else (),
    applies=lambda context: context.spec.helm_enabled.value,
)
