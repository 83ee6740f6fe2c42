"""The same inventories, read by Nidome and by the real ansible-inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nidome.declare.inventory import read_inventory

# Each case: the file given with -i, and the files of the inventory.
_CASES: dict[str, tuple[str, dict[str, str]]] = {
    "yaml, one host, group_vars as directories": (
        "hosts.yaml",
        {
            "hosts.yaml": """\
all:
  hosts:
    node1: {ansible_host: 10.0.0.5, ansible_user: root}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: }}
    etcd: {hosts: {node1: }}
""",
            "group_vars/all/all.yml": "bin_dir: /opt/bin\nyes_is_true: yes\noctal: 0777\nsexagesimal: 1:20\n",
            "group_vars/all/containerd.yml": "bin_dir: /usr/local/bin\nbig: 1_000\nnothing: ~\ntext: '010'\n",
            "group_vars/k8s_cluster/k8s-cluster.yml": "kube_log_level: 4\n",
        },
    ),
    "yaml, parents and children, vars in the inventory against group_vars": (
        "hosts.yaml",
        {
            "hosts.yaml": """\
all:
  vars: {a: all-inventory, b: all-inventory, c: all-inventory}
  children:
    k8s_cluster:
      vars: {a: cluster-inventory, d: cluster-inventory}
      children:
        kube_control_plane:
          vars: {d: control-plane-inventory}
          hosts:
            cp1: {e: host-inventory}
            cp2:
        kube_node:
          vars: {d: node-inventory, f: node-inventory}
          hosts:
            w1: {f: host-inventory}
            cp1:
    etcd: {children: {kube_control_plane: }}
""",
            "group_vars/all.yml": "b: all-group_vars\nf: all-group_vars\n",
            "group_vars/k8s_cluster.yml": "c: cluster-group_vars\nd: cluster-group_vars\n",
            "group_vars/etcd.yaml": "c: etcd-group_vars\n",
            "host_vars/cp1.yml": "e: host_vars\nlist: [1, two, 3.0]\n",
            "host_vars/w1/a.yml": "g: first\nh: first\n",
            "host_vars/w1/b.yml": "h: second\n",
        },
    ),
    "yaml, group priority and names of equal depth": (
        "hosts.yaml",
        {
            "hosts.yaml": """\
zeta: {hosts: {n1: , n2: }, vars: {x: zeta, y: zeta}}
alpha: {hosts: {n1: }, vars: {x: alpha, y: alpha, ansible_group_priority: 10}}
beta: {children: {zeta: }, vars: {x: beta, z: beta}}
""",
            "group_vars/zeta": "w: {from: zeta, deep: {er: 1}}\n",
            "group_vars/alpha": "w: {from: alpha}\n",
        },
    ),
    "ini, kubespray's shape": (
        "inventory.ini",
        {
            "inventory.ini": """\
# a comment
[kube_control_plane]
node1 ansible_host=10.0.0.1 etcd_member_name=etcd1 flag=True number=5 word=yes # trailing

[etcd:children]
kube_control_plane

[kube_node]
node[2:4] ansible_user=root
db-[a:c]-x:2222 note="two words" list="['a', 'b']"

[all:vars]
ansible_port=22
quoted='single'
dict={'k': 1, 'l': [1, 2]}
spaces = around the equals
octal=010
version=1.36.4

[k8s_cluster:children]
kube_node
kube_control_plane
""",
            "group_vars/all/x.yml": "ansible_port: 2200\n",
            "group_vars/kube_node/x.yml": "a: 1\n",
            "group_vars/kube_node/y.yml": "a: 2\n",
            "group_vars/kube_node/sub/z.yml": "a: 3\nb: 4\n",
            "group_vars/kube_node/.hidden.yml": "a: 9\n",
            "group_vars/kube_node/old.yml~": "a: 9\n",
            "group_vars/kube_node/note.txt": "a: 9\n",
        },
    ),
    "ini, ungrouped hosts and padded ranges": (
        "hosts.ini",
        {
            "hosts.ini": """\
lonely x=1
n[08:11:2].example.org
[g]
lonely2
[empty]
[g:vars]
v=None
w=1.5
s='5'
""",
            "group_vars/ungrouped.yml": "u: 1\n",
            "host_vars/lonely.yaml": "x: 2\n",
        },
    ),
    "a directory with several sources": (
        ".",
        {
            "a.yaml": "all: {hosts: {h1: {p: a, q: a}}, children: {g: {hosts: {h1: }}}}\n",
            "b.ini": "[g]\nh1 q=b\nh2\n[g:vars]\nr=b\n",
            "c": "[other]\nh3 s=c\n",
            "notes.md": "not an inventory\n",
            "group_vars/g/one.yml": "r: one\n",
            "group_vars/g.yml": "r: shadowed by the directory\n",
            "host_vars/h2.json": '{"t": [1, {"u": null}]}\n',
        },
    ),
    "yaml, anchors, merge keys and strings as hosts": (
        "inventory",
        {
            "inventory": """\
---
all:
  vars:
    base: &base {cpu: 1, memory: 2}
    more: {<<: *base, memory: 3}
    list: [*base, [*base]]
  children:
    kube_node: {hosts: w1}
    kube_control_plane:
      hosts:
        "c[1:2]": {role: cp}
        "10.0.0.7:2022": {role: address}
""",
            "group_vars/all/empty.yml": "---\n",
            "group_vars/all/dates.yml": "hex: 0x1F\nfloat: 1e3\nreal: 1.5e+3\nswitched: Off\nword: null\n",
        },
    ),
}


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _ansible(path: Path, home: Path) -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(path), "--list"]
    environment = {
        **os.environ,
        "HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        # ansible-core 2.18 leaves .ini files of a directory out; 2.19 reads them, as Nidome does.
        "ANSIBLE_INVENTORY_IGNORE": "~,.orig,.cfg,.retry,.pyc,.pyo,.bak,.rpm,.md,.txt,.rst,.swp",
    }
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("case", _CASES)
def test_inventory_reads_as_ansible_reads_it(case: str, tmp_path: Path) -> None:
    """Hosts, groups and every host's merged variables are what ansible-inventory says they are."""
    given, files = _CASES[case]
    root, home = tmp_path / "inventory", tmp_path / "home"
    home.mkdir()
    _write(root, files)
    theirs = _ansible(root / given, home)
    ours = read_inventory(root / given, derive=False)

    hostvars = theirs["_meta"]["hostvars"]
    values = {host: {k: e.node.value for k, e in ours.variables(host).items()} for host in ours.hosts}
    assert values == {host: hostvars.get(host, {}) for host in ours.hosts}
    assert set(hostvars) <= set(ours.hosts)
    for name, members in ours.groups.items():
        assert set(members) == _members(theirs, name), name
    assert set(theirs) - {"_meta"} <= set(ours.groups)


def _members(listing: dict[str, Any], group: str) -> set[str]:
    entry = listing.get(group, {})
    below = (_members(listing, child) for child in entry.get("children", []))
    return set(entry.get("hosts", [])).union(*below)
