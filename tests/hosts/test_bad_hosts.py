"""Hosts that are not fit, and hosts that are lost: a short error with code, place and next step, nothing half-written.

The tests share one host; each puts it back as it was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts


@dataclass(frozen=True)
class _Case:
    """What is done to the host, how it is undone, what is said then, and further arguments of apply."""

    name: str
    spoil: str
    mend: str
    code: str
    arguments: tuple[str, ...] = ()


_SERVE = "systemd-run -q --unit=busy python3 -m http.server {}; for i in $(seq 50); do ss -ltn | grep -q :{} && break; sleep 0.1; done"

_CASES = (
    _Case("no Python", "mv /usr/bin/python3 /root/", "mv /root/python3 /usr/bin/", "host-no-python"),
    _Case("API port in use", _SERVE.format(6443, 6443), "systemctl stop busy", "preflight-ports"),
    _Case("store port in use", _SERVE.format(2379, 2379), "systemctl stop busy", "preflight-ports"),
    _Case(
        "a container runtime", "echo '[Service]' > /etc/systemd/system/docker.service", "rm /etc/systemd/system/docker.service",
        "preflight-foreign-runtime",
    ),
    _Case(
        "another Kubernetes", "mkdir -p /var/lib/k0s && touch /var/lib/k0s/x", "rm -r /var/lib/k0s", "preflight-foreign-runtime"
    ),
    _Case(
        "no disk space", "mkdir /var/lib/kine && mount -t tmpfs -o size=20M tmpfs /var/lib/kine", "umount /var/lib/kine; rmdir /var/lib/kine",
        "preflight-disk-space",
    ),
    _Case(
        "read-only directory", "mount --bind -o ro /usr/local/bin /usr/local/bin", "umount /usr/local/bin", "preflight-writable"
    ),
    _Case("route in the pod network", "ip route add 10.233.70.0/24 dev lo", "ip route del 10.233.70.0/24", "preflight-networks"),
    _Case(
        "no root", "useradd -m plain; mkdir -p ~plain/.ssh; cp /root/.ssh/authorized_keys ~plain/.ssh; chown -R plain: ~plain/.ssh",
        "userdel -r plain 2>/dev/null", "host-no-root", ("-e", "ansible_user=plain"),
    ),
    _Case("unsupported version", "true", "true", "variable-choice", ("-e", "kube_version=1.29.3")),
    _Case("an address of another host", "true", "true", "preflight-address", ("-e", "ip=192.0.2.99")),
    _Case("an access address of another host", "true", "true", "preflight-access-address", ("-e", "access_ip=192.0.2.99")),
    _Case("unknown flag", "true", "true", "flag-unknown", ("-e", "kubelet_custom_flags=[--no-such-flag]")),
    _Case("overlay on overlay", "true", "true", "preflight-snapshots", ("-e", "containerd_storage_dir=/srv/containerd")),
    _Case("overlapping networks", "true", "true", "cidr-overlap", ("-e", "kube_pods_subnet=10.233.0.0/17")),
    _Case("wrong type", "true", "true", "variable-type", ("-e", "kubelet_max_pods=many")),
    _Case("unknown host", "true", "true", "host-unknown", ("--limit", "node7")),
    _Case(
        "disk full in the middle", "mount -t tmpfs -o size=70M tmpfs /usr/local/bin", "systemctl stop kine; umount /usr/local/bin", "host-refused",
        ("--ignore-preflight-errors", "disk-space"),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster(cluster_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a host without a cluster, and the inventory for one."""
    made = Cluster(tmp_path_factory.mktemp("bad"), cluster_cache)
    try:
        made.nidome("up", "-e", "kube_apiserver_port=22", status=1)
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("case", _CASES, ids=lambda c: c.name)
def test_refused(cluster: Cluster, case: _Case) -> None:
    """What is wrong is said in a few lines, with a code, a place and a next step, and exit 1."""
    cluster.host(case.spoil)
    try:
        done = cluster.nidome("apply", "--view", "plain", *case.arguments, status=1)
        left = cluster.host("find / -xdev -name '*.nidome-tmp'")
    finally:
        cluster.host(case.mend)
    said = done.stdout + done.stderr
    assert f"error[{case.code}]" in said, said
    assert "next:" in said
    assert "where:" in said
    assert "Traceback" not in said
    assert left == ""


def test_host_lost_in_the_middle(cluster: Cluster) -> None:
    """A host whose plug is pulled in the middle of a run is an error that names it; the next run finishes."""
    running = cluster.start("apply", "--view", "plain")
    time.sleep(3)
    cluster.nidome("machines", "stop", "--force", cluster.name)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 1, said
    assert "error[host-" in said
    assert "Traceback" not in said
    cluster.nidome("machines", "start", cluster.name)
    assert cluster.apply()[-1]["ok"]
    again = cluster.apply()
    assert [e["changes"] for e in again if e["type"] == "task_finished" and e["status"] == "changed"] == []


def test_two_runs_at_once(cluster: Cluster) -> None:
    """Two applies at the same time do not mix: the second waits for the first, and both end well."""
    first, second = cluster.start("apply", "--view", "plain"), cluster.start("apply", "--view", "plain")
    for running in (first, second):
        said, _ = running.communicate(timeout=120)
        assert running.returncode == 0, said


def test_immutable_setting(cluster: Cluster) -> None:
    """What cannot change on a living cluster is refused with the place it was written and what to do."""
    for setting in (
        "kube_service_addresses=10.111.0.0/16",
        "etcd_deployment_type=host",
        "cluster_name=other.local",
    ):
        done = cluster.nidome("apply", "-e", setting, status=1)
        assert "error[immutable-setting]" in done.stderr + done.stdout
        assert "reset" in done.stderr + done.stdout
