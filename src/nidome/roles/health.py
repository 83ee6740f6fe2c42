"""The last word of a run: every component is asked itself whether it is well."""

from __future__ import annotations

from nidome.agent.resources.condition import Condition
from nidome.roles.base import HostContext, Role, Task
from nidome.roles.control_plane import APISERVER_UNIT
from nidome.roles.paths import Paths

__all__ = ["HEALTH"]

_SECONDS = 60.0

# Units, and where each answers on its host; "" where systemd's word is all there is.
_NODE_UNITS = {
    "containerd.service": "",
    "kubelet.service": "http://127.0.0.1:10248/healthz",
    "kube-proxy.service": "http://127.0.0.1:10256/healthz",
}
_CONTROL_UNITS = {
    APISERVER_UNIT: "",  # asked for its readiness before anything else
    "kube-controller-manager.service": "https://127.0.0.1:10257/healthz",
    "kube-scheduler.service": "https://127.0.0.1:10259/healthz",
    "nidome-approver.service": "",
}


def _tasks(context: HostContext) -> list[Task]:
    units = {**_NODE_UNITS}
    if context.host.is_control_plane:
        units |= {Paths(context.spec).store_unit: "", **_CONTROL_UNITS}
    conditions = tuple(
        Condition("healthy", (unit,), _SECONDS, parameters={"url": url} if url else {})
        for unit, url in units.items()
    )
    return [Task("kubernetes/health", "Wait for the components to be healthy", conditions, ("health",))]


HEALTH = Role("kubernetes/health", _tasks)
