"""How a cluster is doing, by what its hosts say: components, and the conditions that make it Ready."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.base import encode
from nidome.agent.resources.condition import Condition
from nidome.engine.transport import AgentConnection
from nidome.errors import NidomeError
from nidome.roles.base import HostContext
from nidome.roles.control_plane import api_ready
from nidome.roles.dns import DNS_READY, ENDPOINT
from nidome.roles.health import HEALTH
from nidome.roles.kubelet import node_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["ClusterStatus", "Component", "Holding", "HostStatus", "cluster_status", "conditions", "units"]

_TITLES = {
    "api-ready": "API server",
    "dns": "DNS",
    "kubernetes-endpoint": "kubernetes Service",
    "node-ready": "node Ready",
}
_FORKS = 20


@dataclass(frozen=True)
class Component:
    """One component on one host; ``since`` is a UTC time, ``result`` systemd's word on how it last ended.

    ``steady`` is false for the latest start of a unit that keeps ending. ``unhealthy`` is what the component
    itself has to say against being well, "" where it is well or was not asked.
    """

    component: str
    unit: str
    version: str
    state: str
    substate: str
    restarts: int
    since: str
    result: str
    steady: bool = True
    unhealthy: str = ""

    @property
    def running(self) -> bool:
        """Whether systemd says that it runs."""
        return (self.state, self.substate) == ("active", "running")

    @property
    def up(self) -> bool:
        """Whether it runs, will go on running by all that is known, and is well."""
        return self.running and self.steady and not self.unhealthy


@dataclass(frozen=True)
class Holding:
    """A condition of the cluster, whether it holds now, and if not why."""

    condition: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class HostStatus:
    """One host; ``error`` is why it could not be asked."""

    host: str
    address: str
    components: tuple[Component, ...] = ()
    conditions: tuple[Holding, ...] = ()
    error: NidomeError | None = None

    @property
    def up(self) -> bool:
        """Whether the host answers, has components, and all of them run and all conditions hold."""
        good = all(c.up for c in self.components) and all(c.holds for c in self.conditions)
        return self.error is None and bool(self.components) and good

    def to_json(self) -> dict[str, Any]:
        """Return the host as plain data."""
        return {
            "host": self.host,
            "address": self.address,
            "up": self.up,
            "components": [{**asdict(c), "up": c.up} for c in self.components],
            "conditions": [asdict(c) for c in self.conditions],
            "error": self.error.to_json() if self.error else None,
        }


@dataclass(frozen=True)
class ClusterStatus:
    """The whole cluster; ``version`` is the declared one of Kubernetes."""

    cluster: str
    version: str
    store: str
    hosts: tuple[HostStatus, ...]

    @property
    def up(self) -> bool:
        """Whether everything is up."""
        return all(host.up for host in self.hosts)

    def to_json(self) -> dict[str, Any]:
        """Return the cluster as plain data."""
        return {
            "cluster": self.cluster,
            "version": self.version,
            "store": self.store,
            "up": self.up,
            "hosts": [host.to_json() for host in self.hosts],
        }


def conditions(spec: ClusterSpec, host: HostSpec) -> list[Condition]:
    """Return what must hold on a host for the cluster to be Ready: the conditions that an apply waits for."""
    return list(_conditions(HostContext(spec, host, {}, {})))


def _conditions(context: HostContext) -> Iterator[Condition]:
    if context.host.is_control_plane:
        yield api_ready(context)
    if context.host.is_node:
        yield node_ready(context)
        roles = [role for role in (ENDPOINT, DNS_READY) if role.applies(context)]
        found = (r for role in roles for task in role.tasks(context) for r in task.resources)
        yield from (r for r in found if isinstance(r, Condition))


def _health(context: HostContext) -> list[Condition]:
    return [r for task in HEALTH.tasks(context) for r in task.resources if isinstance(r, Condition)]


def cluster_status(spec: ClusterSpec, answered: Callable[[], None] = lambda: None) -> ClusterStatus:
    """Ask every host, side by side, one question each; a host that does not answer is part of the result.

    ``answered`` is called after each host.
    """

    def ask(host: HostSpec) -> HostStatus:
        status = _host_status(spec, host)
        answered()
        return status

    with ThreadPoolExecutor(_FORKS) as pool:
        hosts = tuple(pool.map(ask, spec.hosts))
    store = "etcd" if spec.uses_etcd else "kine (sqlite)"
    return ClusterStatus(spec.source, spec.kube_version.value, store, hosts)


def _host_status(spec: ClusterSpec, host: HostSpec) -> HostStatus:
    asked, health = conditions(spec, host), _health(HostContext(spec, host, {}, {}))
    try:
        agent = AgentConnection(host)
        try:
            said = agent.call("status", conditions=[encode(c) for c in (*asked, *health)])
        finally:
            agent.close()
    except NidomeError as error:
        return HostStatus(host.name, host.address.value, error=error)
    found = [Component(**each) for each in said["components"]]
    # Where nothing is installed there is nothing that could hold.
    pairs = list(zip((*asked, *health), said["conditions"], strict=True)) if found else []
    ill = {c.units[0]: _holding(c, state).detail for c, state in pairs[len(asked) :]}
    components = tuple(replace(c, unhealthy=ill.get(c.unit, "") if c.running else "") for c in found)
    held = tuple(_holding(condition, state) for condition, state in pairs[: len(asked)])
    return HostStatus(host.name, host.address.value, components, held)


def _holding(condition: Condition, state: dict[str, Any]) -> Holding:
    title = _TITLES.get(condition.probe, condition.probe)
    if "$error" in state:
        return Holding(title, holds=False, detail=state["$error"]["message"])
    return Holding(title, holds=bool(state["holds"]), detail=state.get("$detail", ""))


def units(host: HostSpec) -> list[str]:
    """Return the units that Nidome made on a host, in the order of their start."""
    agent = AgentConnection(host)
    try:
        return [entry["key"] for entry in agent.call("ledger") if entry["kind"] == "Unit"]
    finally:
        agent.close()
