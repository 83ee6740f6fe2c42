from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster
from empty import empty_host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts


@pytest.fixture
def cluster(tmp_path: Path, cluster_cache: Path) -> Iterator[Cluster]:
    """Return a host with its inventory, nothing installed on it."""
    found = Cluster(tmp_path, cluster_cache, name="down1")
    try:
        empty_host(found)
        yield found
    finally:
        found.remove()


def _names(cluster: Cluster) -> list[str]:
    return [machine["name"] for machine in json.loads(cluster.nidome("machines", "list", "--json").stdout)]


def test_down(cluster: Cluster) -> None:
    """``down`` removes the inventory's hosts and no others, keeps the inventory, and may be said twice."""
    cluster.nidome("machines", "create", "other")
    said = cluster.nidome("down").stdout
    assert "removed the disposable host down1" in said
    assert _names(cluster) == ["other"]
    assert (cluster.inventory / "hosts.yaml").exists()
    assert not (cluster.inventory / "host_vars" / "down1").exists()
    cluster.nidome("down")
    assert _names(cluster) == ["other"]


def test_somebody_elses_host(cluster: Cluster) -> None:
    """A host of the same name that the inventory does not mean is not removed."""
    file = cluster.inventory / "host_vars" / "down1" / "machine.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('ansible_host: "', 'ansible_host: "1'), encoding="utf-8")
    assert cluster.nidome("down", status=1).stderr.startswith("error[machine-differs]")
    assert _names(cluster) == ["down1"]
    file.write_text(text, encoding="utf-8")
    assert "removed the inventory" in cluster.nidome("down", "--purge").stdout
    assert _names(cluster) == []
    assert not cluster.inventory.exists()
