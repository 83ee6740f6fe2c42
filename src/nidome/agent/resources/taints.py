"""The taints of a Node that somebody declared; those that controllers and people set stay theirs.

Server-side apply cannot keep them: to the API the list is one value with one owner.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence, Tuple

from nidome.agent.kube import MERGE
from nidome.agent.resources.base import Observed, Resource, failed
from nidome.agent.resources.kubeobject import service_up, wait_for_api
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host
    from nidome.agent.kube import Api

__all__ = ["NodeTaints", "apply", "observe", "remove"]

_ATTEMPTS = 5


@dataclass(frozen=True)
class NodeTaints(Resource):
    """``node`` has these taints, written ``key=value:effect`` or ``key:effect``.

    ``access``, ``unit`` and ``store`` are as in a KubeObject. The ledger knows which keys were declared
    before: those are removed when they are declared no more.
    """

    kind: ClassVar[str] = "NodeTaints"
    node: str
    taints: Tuple[str, ...]
    access: Tuple[str, str, str, str]
    unit: str
    store: str

    @property
    def key(self) -> str:
        """The node's name."""
        return self.node

    def desired(self) -> Dict[str, Any]:
        """Return the taints, in order of their text."""
        return {"taints": sorted(self.taints)}


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def _parse(text: str) -> Dict[str, str]:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _text(taint: Dict[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _ours(resource: NodeTaints, host: Host) -> List[str]:
    """Return the keys that are declared now or were before."""
    entry = host.ledger.entries.get(resource.id) or {}
    before = (entry.get("data") or {}).get("keys") or []
    return sorted({_parse(t)["key"] for t in resource.taints} | set(before))


def observe(resources: Sequence[NodeTaints], host: Host) -> List[Observed]:
    """Read the taints whose keys are or were declared."""
    return [_observe_one(resource, host) for resource in resources]


def _observe_one(resource: NodeTaints, host: Host) -> Observed:
    if not os.path.exists(resource.store):
        return None
    down = service_up(resource, host)
    if down is not None:
        return down
    try:
        node = host.api(resource.access).get(_path(resource.node))
    except ResourceError as error:
        return failed(error.to_json())
    if node is None:
        return None
    ours = _ours(resource, host)
    return {"taints": sorted(_text(t) for t in node["spec"].get("taints", []) if t["key"] in ours)}


def apply(resource: NodeTaints, host: Host) -> None:
    """Set the declared taints and remove those that were declared before."""
    api = host.api(resource.access)
    wait_for_api(api, 120)
    wanted = [_parse(text) for text in resource.taints]
    keys = sorted({taint["key"] for taint in wanted})
    gone = [key for key in _ours(resource, host) if key not in keys]
    # Both until the change is made: a run killed in between still knows what it has to remove.
    data = {"keys": sorted({*keys, *gone}), "access": list(resource.access)}
    host.ledger.add(resource.kind, resource.key, data=data)
    _replace(api, resource, data["keys"], wanted)
    host.ledger.add(resource.kind, resource.key, data={**data, "keys": keys})


def _replace(api: Api, resource: NodeTaints, ours: Sequence[str], wanted: Sequence[Dict[str, str]]) -> None:
    """Put the wanted taints in the place of ours; again where somebody else changed the list meanwhile."""
    for attempt in range(_ATTEMPTS):
        live = api.get(_path(resource.node))
        if live is None:
            raise ResourceError(
                "object-missing",
                "the node to be tainted does not exist",
                where=resource.id,
                hint="nidome logs kubelet says why the node has not registered",
            )
        others = [t for t in live["spec"].get("taints", []) if t["key"] not in ours]
        version = {"resourceVersion": live["metadata"]["resourceVersion"]}
        try:
            api.patch(
                _path(resource.node), {"metadata": version, "spec": {"taints": [*others, *wanted]}}, MERGE
            )
        except ResourceError as error:
            if error.code != "object-conflict" or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Remove the taints that were declared."""
    data = entry["data"]
    resource = NodeTaints(entry["key"], (), tuple(data["access"]), "", "")
    api = host.api(resource.access)
    if api.get(_path(resource.node)) is not None:
        apply(resource, host)
