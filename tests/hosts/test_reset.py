"""A reset leaves a host as it was before Nidome came, whenever and however it is interrupted.

The tests of this file share one host, in this order.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster
from empty import empty_host
from traces import differences, look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts

_WORKLOAD = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "registry.k8s.io/pause:3.10",
                        "ports": [{"containerPort": 80, "hostPort": 8080}],
                        "volumeMounts": [{"name": "memory", "mountPath": "/memory"}],
                    }
                ],
                "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
    ],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_cache: Path) -> Iterator[Cluster]:
    """Return a host on which nothing was installed yet, and an inventory for it."""
    found = Cluster(tmp_path_factory.mktemp("reset"), cluster_cache, name="reset1")
    try:
        empty_host(found)
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="module")
def untouched(cluster: Cluster) -> dict[str, str]:
    """Return what the host was like before anything was installed."""
    return look(cluster)


def _install(cluster: Cluster) -> None:
    """Make the cluster and something on it: a pod with a mount and a host port, and a Service."""
    cluster.apply()
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_WORKLOAD))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")


def _reset(cluster: Cluster) -> list[dict[str, Any]]:
    done = cluster.nidome("reset", "--yes", "--view", "json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _changed(events: list[dict[str, Any]]) -> list[str]:
    return [c["resource"] for e in events if e["type"] == "task_finished" for c in e["changes"]]


def test_no_trace(cluster: Cluster, untouched: dict[str, str]) -> None:
    """After a reset the host is as it was before the install, by files, units, mounts, network and kernel."""
    _install(cluster)
    events = _reset(cluster)
    assert differences(untouched, look(cluster)) == []
    assert events[-1]["ok"] is True
    assert {"Unit:kubelet.service", "Directory:/var/lib/kine"} <= set(_changed(events))


def test_recorded(cluster: Cluster) -> None:
    """A reset is a run like others: it is recorded, with what was removed."""
    shown = cluster.nidome("runs", "show", "last").stdout
    assert "nidome reset --yes" in shown
    assert "[reset : Stop and remove kube-apiserver]" in shown
    assert "  - Unit:kube-apiserver.service" in shown


def test_again(cluster: Cluster, untouched: dict[str, str]) -> None:
    """A reset of a host on which nothing is installed removes nothing and leaves nothing."""
    events = _reset(cluster)
    assert _changed(events) == []
    assert events[-1]["recap"][cluster.name]["changed"] == 0
    assert differences(untouched, look(cluster)) == []


def test_after_a_reset(cluster: Cluster) -> None:
    """Where nothing is installed, status, logs, kubectl and kubeconfig say so and what to do."""
    assert "nothing is installed (nidome apply)" in cluster.nidome("status", status=1).stdout
    assert (
        "error[component-unknown]: nothing is installed" in cluster.nidome("logs", "kubelet", status=1).stderr
    )
    for words in (("kubectl", "get", "nodes"), ("kubeconfig",)):
        assert cluster.nidome(*words, status=1).stderr.startswith("error[cluster-missing]")


def _agents(cluster: Cluster) -> list[int]:
    """Return the agents that run on the host, by what they were started with."""
    return [int(pid) for pid in cluster.host("pgrep -f '[n]idome.agent.main' || true").split()]


@pytest.mark.parametrize("victim", ["nidome", "agent"])
@pytest.mark.parametrize("seed", range(3 if os.environ.get("NIDOME_SOAK") else 1))
def test_killed(cluster: Cluster, untouched: dict[str, str], victim: str, seed: int) -> None:
    """A reset that is killed at any moment, here or on the host, is finished by the next one."""
    _install(cluster)
    chance = random.Random(f"{victim}-{seed}")  # noqa: S311 - chooses a moment, guards nothing
    for _ in range(2):
        resetting = cluster.start("reset", "--yes")
        time.sleep(chance.uniform(0.2, 2.5))
        if victim == "nidome":
            os.kill(resetting.pid, signal.SIGKILL)
        else:
            for pid in _agents(cluster):
                cluster.host(f"kill -9 {pid}", check=False)
        resetting.communicate(timeout=120)
    _reset(cluster)
    assert differences(untouched, look(cluster)) == []


def test_half_an_install(cluster: Cluster, untouched: dict[str, str]) -> None:
    """A reset removes an install that was killed half-way."""
    installing = cluster.start("apply")
    time.sleep(4)
    os.kill(installing.pid, signal.SIGKILL)
    installing.communicate(timeout=120)
    _reset(cluster)
    assert differences(untouched, look(cluster)) == []


def test_what_others_put_there_stays(cluster: Cluster, untouched: dict[str, str]) -> None:
    """Files that somebody else put beside Nidome's stay, and what Nidome replaced is put back."""
    cluster.host(
        "cd /etc; mkdir containerd; echo mine > containerd/config.toml; chmod 600 containerd/config.toml"
    )
    cluster.host("mkdir -p /var/lib/nidome/machines/other; echo mine > /var/lib/nidome/machines/other/disk")
    _install(cluster)
    cluster.host("echo mine > /etc/kubernetes/mine; echo mine > /usr/local/bin/mine")
    _reset(cluster)
    left = {line.partition(":")[0] for line in differences(untouched, look(cluster))}
    places = (
        "/etc/containerd",
        "/etc/kubernetes",
        "/var/lib/nidome",
        "/var/lib/nidome/machines",
        "/var/lib/nidome/machines/other",
    )
    files = (
        "/etc/containerd/config.toml",
        "/etc/kubernetes/mine",
        "/usr/local/bin/mine",
        "/var/lib/nidome/machines/other/disk",
    )
    assert left == {f"file {path}" for path in (*places, *files)}
    assert (
        cluster.host("cat /etc/containerd/config.toml; stat -c %a /etc/containerd/config.toml") == "mine\n600"
    )
    cluster.host("rm -rf /etc/kubernetes /etc/containerd /usr/local/bin/mine")


# Last: the packages that it purges were there when the host was looked at first.
def test_packages(cluster: Cluster) -> None:
    """Packages that the host lacked are purged again, and with them the lists that had to be fetched."""
    cluster.host("apt-get purge -qq -y socat ethtool 2>/dev/null; rm -f /var/lib/apt/lists/*Packages")
    before = look(cluster)
    _install(cluster)
    assert "file /usr/bin/socat" in look(cluster)
    _reset(cluster)
    assert differences(before, look(cluster)) == []


def test_a_lost_ledger_removes_nothing(cluster: Cluster) -> None:
    """With its ledger lost a host is left as it is, and the reset says so; with the ledger back it removes all."""
    before = look(cluster)
    _install(cluster)
    ledger = "/var/lib/nidome/ledger.jsonl"
    cluster.host(f"cp -p {ledger} /root/kept; : > {ledger}")
    done = cluster.nidome("reset", "--yes", "--view", "plain", status=1)
    assert "error[ledger-lost]" in done.stdout
    assert "kubelet.service" in done.stdout
    assert cluster.host("systemctl is-active kubelet kube-apiserver").split() == ["active", "active"]
    cluster.host(f"mv /root/kept {ledger}")
    _reset(cluster)
    assert differences(before, look(cluster)) == []
