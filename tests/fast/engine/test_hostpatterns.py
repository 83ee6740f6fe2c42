"""Which hosts --limit means, beside what Ansible makes of the same patterns."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nidome.engine.hostpatterns import chosen
from nidome.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from nidome.model.spec import ClusterSpec

_INVENTORY = """\
[kube_control_plane]
node1
[etcd:children]
kube_control_plane
[kube_node]
node[1:4]
edge-a
[edge]
edge-a
[k8s_cluster:children]
kube_control_plane
kube_node
"""
PATTERNS = (
    "all", "*", "node1", "node1,node2", "node2:node3", "kube_node:!node3", "kube_node,!node3,!node1", "node*",
    "kube_node:&etcd", "!node1", "&etcd", "~node[12]", "~edge", "edge-a", "kube_*:!edge", "kube_node[0]",
    "kube_node[1:2]", "kube_node[1:]", "kube_node[-1]", "k8s_cluster:!kube_control_plane:!edge", "node?",
    "etcd",
)  # fmt: skip
_ASK = """
import json, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
manager = InventoryManager(loader=DataLoader(), sources=[sys.argv[1]])
found = {}
for pattern in json.loads(sys.argv[2]):
    manager.subset(pattern)
    found[pattern] = sorted(h.name for h in manager.get_hosts("all"))
print(json.dumps(found))
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of five hosts in groups."""
    path = tmp_path / "inventory.ini"
    path.write_text(_INVENTORY, encoding="utf-8")
    return path


@pytest.fixture
def spec(inventory: Path) -> ClusterSpec:
    """Return the cluster of that inventory."""
    from nidome.declare.inventory import read_inventory  # noqa: PLC0415 - only the hosts and groups are wanted
    from nidome.declare.resolve import resolve  # noqa: PLC0415 - as above

    return resolve(read_inventory(inventory))


def _names(spec: ClusterSpec, *patterns: str) -> list[str]:
    return sorted(host.name for host in chosen(spec, patterns))


def test_patterns_mean_what_they_mean_in_ansible(inventory: Path, spec: ClusterSpec) -> None:
    """Names, groups, globs, expressions, slices, `&` and `!` choose the hosts that Ansible chooses."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK, str(inventory), json.dumps(PATTERNS)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {p: _names(spec, *p.split(",")) for p in PATTERNS} == json.loads(done.stdout)


def test_patterns_are_read_from_a_file(spec: ClusterSpec, tmp_path: Path) -> None:
    """`@FILE` has a host or a pattern a line, such as the file of hosts to try again."""
    file = tmp_path / "retry"
    file.write_text("node1\n# not this\n\nkube_node:!node3:!node2\n", encoding="utf-8")
    assert _names(spec, f"@{file}") == ["edge-a", "node1", "node4"]


def test_no_pattern_is_every_host(spec: ClusterSpec) -> None:
    """Without a limit all hosts are meant, in the inventory's order."""
    assert chosen(spec, ()) == spec.hosts


@pytest.mark.parametrize(
    ("pattern", "code", "hint"),
    [
        ("edge-b", "host-unknown", "did you mean edge-a?"),
        ("kube_node:!nobody", "host-unknown", "groups: "),
        ("etcd:!node1", "limit-empty", "hosts: node1"),
        ("kube_node[9]", "host-unknown", "hosts: "),
        ("~node[", "limit-pattern", "~node[12]"),
        ("@/nowhere", "limit-unreadable", "one host or pattern a line"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(spec: ClusterSpec, pattern: str, code: str, hint: str) -> None:
    """A pattern that nothing matches, or that leaves no host, is an error that says what there is."""
    with pytest.raises(UsageError) as caught:
        chosen(spec, (pattern,))
    assert caught.value.code == code
    assert hint in caught.value.hint
