from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nidome.cli.status import render
from nidome.engine.status import ClusterStatus, Component, Holding, HostStatus
from nidome.errors import TransportError

_NOW = 1_780_000_000.0
_KUBELET = Component(
    "kubelet", "kubelet.service", "1.36.4", "active", "running", 2, "2026-05-28T20:16:40Z", "success"
)
_HOST = HostStatus("node1", "10.61.0.2", (_KUBELET,), (Holding("node Ready", holds=True, detail=""),))
_LAST: dict[str, Any] = {
    "run": "20260528T201600Z-ab12",
    "status": "ok",
    "seconds": 12.345,
    "recap": {"node1": {"ok": 46, "changed": 40, "failed": 0}},
}


def _cluster(*hosts: HostStatus) -> ClusterStatus:
    return ClusterStatus("inventory/nidome", "1.36.4", "kine (sqlite)", hosts)


def test_up() -> None:
    """A cluster is up when all components run and all conditions hold; each is shown with its figures."""
    text = render(_cluster(_HOST), _LAST, _NOW)
    assert _cluster(_HOST).up
    run = _LAST["run"]
    assert text.splitlines() == [
        "inventory/nidome: Kubernetes 1.36.4, store kine (sqlite): up",
        "",
        "node1 (10.61.0.2)",
        "  COMPONENT  VERSION  STATE    RESTARTS  SINCE",
        "  kubelet    1.36.4   running  2         2026-05-28 20:16:40Z (10 min)",
        "  node Ready: ok",
        "",
        f"last run {run}: ok, 12.3 s, node1: changed=40, failed=0  (nidome runs show {run})",
    ]


def test_component_down() -> None:
    """One component that does not run keeps a cluster from being up, and systemd says how it ended."""
    failed = replace(_KUBELET, state="activating", substate="auto-restart", result="exit-code", since="")
    cluster = _cluster(_HOST, replace(_HOST, host="node2", components=(failed,)))
    text = render(cluster, None, _NOW)
    assert not cluster.up
    assert text.startswith("inventory/nidome: Kubernetes 1.36.4, store kine (sqlite): NOT UP")
    assert "activating (auto-restart, exit-code)  2         -" in text
    assert text.endswith("no run of this cluster is recorded here")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"steady": False, "restarts": 4}, "  kubelet    1.36.4   keeps ending  4 "),
        ({"unhealthy": "http://127.0.0.1:10248/healthz does not answer"}, "  kubelet: NO: http://127.0.0.1"),
    ],
)
def test_component_that_only_seems_up(found: dict[str, Any], said: str) -> None:
    """A component whose unit runs, but keeps ending or is not well, keeps a cluster from being up."""
    cluster = _cluster(replace(_HOST, components=(replace(_KUBELET, **found),)))
    assert not cluster.up
    assert said in render(cluster, None, _NOW)


def test_condition_missing() -> None:
    """A node that is not Ready is said not to be, with the reason, although its components run."""
    held = (Holding("node Ready", holds=False, detail="node node1 has not registered"),)
    cluster = _cluster(replace(_HOST, conditions=held))
    assert not cluster.up
    assert "  node Ready: NO: node node1 has not registered" in render(cluster, None, _NOW)


def test_nothing_installed() -> None:
    """A host without components is not up, and the next step is named."""
    cluster = _cluster(HostStatus("node1", "10.61.0.2"))
    assert not cluster.up
    assert "node1 (10.61.0.2): nothing is installed (nidome apply)" in render(cluster, None, _NOW)


def test_unreachable_beside_reachable() -> None:
    """A host that cannot be asked does not hide the others, and its error is part of the JSON."""
    lost = HostStatus(
        "node2", "10.61.0.3", error=TransportError("host-unreachable", "no route", where="node2")
    )
    cluster = _cluster(_HOST, lost)
    text = render(cluster, None, _NOW)
    assert "  kubelet    1.36.4" in text
    assert "node2 (10.61.0.3): cannot be asked" in text
    document = cluster.to_json()
    assert [(h["host"], h["up"]) for h in document["hosts"]] == [("node1", True), ("node2", False)]
    assert document["hosts"][1]["error"]["code"] == "host-unreachable"
    assert document["up"] is False
