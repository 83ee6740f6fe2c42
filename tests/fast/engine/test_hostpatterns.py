"""Which hosts --limit means, beside what Ansible makes of the same patterns."""

from __future__ import annotations

import json
import os
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
        ("@/dev/zero", "limit-unreadable", "one host or pattern a line"),
        ("kube_node[", "limit-pattern", "kube_node[0]"),
        ("kube_node[0]:node[1", "limit-pattern", "kube_node[0]"),
        ("[" * 200, "limit-pattern", "kube_node[0]"),
        ("!", "limit-pattern", "all:!node1"),
        ("node1:&", "limit-pattern", "all:&node1"),
        (":", "limit-pattern", "leave --limit out"),
        ("]", "host-unknown", "hosts: "),
    ],
)
def test_a_limit_that_means_nothing_is_refused(spec: ClusterSpec, pattern: str, code: str, hint: str) -> None:
    """A pattern that nothing matches, or that leaves no host, is an error that says what there is."""
    with pytest.raises(UsageError) as caught:
        chosen(spec, (pattern,))
    assert caught.value.code == code
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["", "\n\n", "# node1\n", "  # node1\n"])
def test_a_file_that_names_nobody_is_refused(spec: ClusterSpec, tmp_path: Path, text: str) -> None:
    """A file of patterns without one does not mean every host: it is an error that names the file."""
    file = tmp_path / "retry"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=str(file)) as caught:
        chosen(spec, (f"@{file}",))
    assert caught.value.code == "limit-pattern"


def test_a_file_of_patterns_names_no_further_file(spec: ClusterSpec, tmp_path: Path) -> None:
    """A file of patterns that names itself is refused instead of read for ever."""
    file = tmp_path / "retry"
    file.write_text(f"@{file}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        chosen(spec, (f"@{file}",))
    assert caught.value.code == "host-unknown"


def test_a_pipe_without_a_writer_is_given_up(
    spec: ClusterSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named pipe that nobody writes to is waited for as long as any pipe is, then it is an error."""
    monkeypatch.setattr("nidome.declare.files.PIPE_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="did not end") as caught:
        chosen(spec, (f"@{tmp_path / 'pipe'}",))
    assert caught.value.code == "limit-unreadable"


def test_a_process_substitution_is_read(spec: ClusterSpec) -> None:
    """`--limit @<(…)` is read to its end."""
    reading, writing = os.pipe()
    os.write(writing, b"node1\n")
    os.close(writing)
    try:
        assert _names(spec, f"@/dev/fd/{reading}") == ["node1"]
    finally:
        os.close(reading)
