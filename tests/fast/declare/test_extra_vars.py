"""Values given on the command line, of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.declare.resolve import load
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

_HOSTS = """\
all:
  hosts: {node1: {ansible_host: 192.168.50.5}}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: }}
    etcd: {hosts: {node1: }}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of one host."""
    (tmp_path / "hosts.yaml").write_text(_HOSTS)
    return tmp_path


def test_lists_and_mappings(inventory: Path) -> None:
    """A list and a mapping given on the command line arrive whole."""
    extra = {
        "supplementary_addresses_in_ssl_keys": ["a.b", "192.0.2.7"],
        "eviction_hard": {"memory.available": "50Mi"},
    }
    spec, _ = load(inventory, extra_vars=extra)
    assert spec.supplementary_addresses_in_ssl_keys.value == ("a.b", "192.0.2.7")
    assert dict(spec.eviction_hard.value) == {"memory.available": "50Mi"}
    assert spec.eviction_hard.origin.layer == "command line"


def test_wrong_item(inventory: Path) -> None:
    """A list with an item of the wrong type is refused, not shortened."""
    with pytest.raises(DeclarationError, match="supplementary_addresses_in_ssl_keys"):
        load(inventory, extra_vars={"supplementary_addresses_in_ssl_keys": ["a.b", {"c": 1}]})
