"""The two ways to a host: artifacts and agent over ssh, and everything on the host itself."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from clusters import Cluster

import nidome

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.hosts

_INVENTORY = """\
all:
  hosts:
    node1: {{ansible_connection: local, ip: {address}}}
  children:
    kube_control_plane: {{hosts: {{node1: }}}}
    kube_node: {{hosts: {{node1: }}}}
  vars:
    etcd_deployment_type: kine
"""


@pytest.fixture
def cluster(cluster_cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Give a host of which nothing is known yet."""
    made = Cluster(tmp_path, cluster_cache)
    try:
        yield made
    finally:
        made.remove()


def test_artifacts_are_sent_once(cluster: Cluster) -> None:
    """A host that is not lent the cache is sent each artifact once, keeps no second copy, and needs none again."""
    cluster.nidome("machines", "create", cluster.name)
    done = cluster.nidome("up", "--view", "json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    sent = [e for e in events if e["type"] == "staged"]
    assert len(sent) == 1
    assert sent[0]["size"] > 300_000_000
    assert events[-1]["ok"]
    assert cluster.host("ls /var/lib/nidome/blobs", check=False) == ""
    again = cluster.apply()
    assert [e for e in again if e["type"] == "staged"] == []
    assert again[-1]["recap"]["node1"]["changed"] == 0
    cluster.host("echo >> /usr/local/bin/runc")
    repaired = cluster.apply()
    assert [e["count"] for e in repaired if e["type"] == "staged"] == [1]
    assert [e["task"] for e in repaired if e.get("status") == "changed"] == [
        "container-engine/containerd : Install containerd binaries"
    ]


def _program() -> bytes:
    """Return nidome and its parser of YAML as a tar, to run with the host's own Python."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for package in (nidome, yaml):
            root = Path(str(package.__file__)).parent
            archive.add(root, root.name, filter=lambda f: None if "__pycache__" in f.name else f)
    return packed.getvalue()


def test_local_connection(cluster: Cluster) -> None:
    """Run on the host itself with ansible_connection=local, nidome converges, and again changes nothing."""
    blobs = cluster.cache / "blobs" / "sha256"
    cluster.nidome("machines", "create", cluster.name, "--blobs", str(blobs))
    address = cluster.host("hostname -I").split()[0]
    index = (cluster.cache / "index.json").read_bytes()
    for path, content in (
        ("/root/program.tgz", _program()),
        ("/root/cache/index.json", index),
        ("/root/lab/hosts.yaml", _INVENTORY.format(address=address).encode()),
    ):
        command = cluster.command(
            "machines", "ssh", cluster.name, "--", f"mkdir -p $(dirname {path}); cat > {path}"
        )
        subprocess.run(command, input=content, env=cluster.environment, check=True)
    cluster.host(
        "mkdir -p /root/program /root/cache/blobs; tar -xzf /root/program.tgz -C /root/program; "
        "ln -s /run/host/nidome/blobs /root/cache/blobs/sha256"
    )
    run = "cd /root; NIDOME_CACHE_DIR=/root/cache PYTHONPATH=/root/program python3 -m nidome.cli.main"
    first = cluster.host(f"{run} apply -i lab --view json").splitlines()
    assert json.loads(first[-1])["ok"]
    second = json.loads(cluster.host(f"{run} apply -i lab --view json").splitlines()[-1])
    assert second["recap"]["node1"]["changed"] == 0
    assert "node1" in cluster.host(f"{run} kubectl --inventory lab -- get nodes -o name")
    cluster.host(f"{run} reset -i lab --yes")
    assert cluster.host("ls /etc/kubernetes /var/lib/nidome 2>/dev/null", check=False) == ""
