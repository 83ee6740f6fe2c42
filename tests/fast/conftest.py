"""A declared cluster for tests of what follows from a declaration: one host that is everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from nidome.declare.resolve import load
from nidome.roles.base import HostContext, InstalledArtifact
from nidome.roles.playbook import CLUSTER, artifact_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nidome.model.spec import ClusterSpec

# Times are measured by the bench; a busy machine is no failure.
settings.register_profile("nidome", deadline=None)
settings.load_profile("nidome")

_HOSTS = """\
all:
  hosts: {node1: {ansible_host: 192.168.50.5}}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: }}
    etcd: {hosts: {node1: }}
"""

FACTS: dict[str, Any] = {
    "hostname": "node1",
    "architecture": "amd64",
    "os": "debian",
    "os_like": [],
    "os_version": "12",
    "kernel": "6.1.0",
    "python": "3.11.2",
    "uid": 0,
    "systemd": 252,
    "cgroup": 2,
    "cgroup_controllers": ["cpu", "cpuset", "memory", "pids", "io"],
    "cap_sys_resource": True,
    "cpus": 2,
    "memory_mib": 4096,
    "free_mib": {"/var/lib/containerd": 20000},
    "writable": {"/var/lib/containerd": True},
    "filesystems": {"/var/lib/containerd": "ext4"},
    "listening": [22],
    "routes": ["192.168.50.0/24 eth0"],
    "addresses": ["127.0.0.1", "192.168.50.5"],
    "resolved": False,
    "openssl": True,
    "nft": "1.0.6",
    "sockets": [],
    "directories": [],
    "units": [],
    "ledger": [],
    "declared": {},
}


@pytest.fixture
def declared(tmp_path: Path) -> Callable[..., ClusterSpec]:
    """Return a function that declares variables for all hosts, in a file, and returns the cluster."""

    def make(**variables: Any) -> ClusterSpec:
        root = tmp_path / "declaration"
        (root / "group_vars").mkdir(parents=True, exist_ok=True)
        (root / "hosts.yaml").write_text(_HOSTS)
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in variables.items())
        (root / "group_vars" / "all.yml").write_text(text or "---\n")
        return load(root)[0]

    return make


@pytest.fixture
def facts() -> dict[str, Any]:
    """Return the facts of an empty, fit host."""
    return json.loads(json.dumps(FACTS))  # type: ignore[no-any-return]


@pytest.fixture
def context_of(facts: dict[str, Any]) -> Callable[..., HostContext]:
    """Return a function that gives a role's view of a cluster's first host, facts changed as told."""

    def make(spec: ClusterSpec, **changes: Any) -> HostContext:
        found = {
            name: InstalledArtifact("1.2.3", f"{number:064x}", 1000, f"registry.local/{name}:1.2.3")
            for number, name in enumerate(artifact_names(CLUSTER, spec))
        }
        return HostContext(spec, spec.hosts[0], {**facts, **changes}, found)

    return make
