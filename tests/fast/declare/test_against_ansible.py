"""The same inventories, read by Nidome and by the real ansible-inventory."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nidome.declare.inventory import read_inventory
from nidome.declare.vault import Password, Vault

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each case: what is given with -i, one or several, and the files of the inventory. A text that begins with #!
# becomes a program. <<sealed LABEL TEXT>> becomes an encrypted value, <<file LABEL>> encrypts the whole file.
_CASES: dict[str, tuple[str | tuple[str, ...], dict[str, str]]] = {
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
    "several -i: later ones win, each with its group_vars": (
        ("one/hosts.yaml", "two/hosts.ini"),
        {
            "one/hosts.yaml": """\
all:
  vars: {v: one, w: one}
  children:
    parent: {children: {child: {hosts: {h1: {x: one, y: one}}}}}
""",
            "one/group_vars/all.yml": "a: one\nb: one\n",
            "one/group_vars/child.yml": "c: one-child\nd: one-child\n",
            "one/host_vars/h1.yml": "e: one\nf: one\n",
            "two/hosts.ini": "[child]\nh1 y=two\nh2\n[all:vars]\nw=two\n",
            "two/group_vars/all.yml": "b: two\nc: two-all\n",
            "two/group_vars/parent.yml": "d: two-parent\n",
            "two/host_vars/h1/main.yml": "f: two\n",
            "two/host_vars/h2.yml": "f: two\n",
        },
    ),
    "several -i: the same directory around another": (
        ("one/a.yaml", "two", "one/b.ini"),
        {
            "one/a.yaml": "g: {hosts: {h1: {p: a}}}\n",
            "one/b.ini": "[g]\nh1 p=b q=b\n",
            "one/group_vars/g.yml": "x: one\n",
            "two/c.yml": "g: {hosts: {h1: {p: c, q: c}}, vars: {y: c}}\n",
            "two/group_vars/g.yml": "x: two\ny: two\n",
        },
    ),
    "a list of hosts, with ports, and a file after it": (
        ("h1, h2:2222,10.0.0.9,", "more.ini"),
        {
            "more.ini": "h1 x=1\n[g]\nh2\nh3\n",
            "group_vars/all.yml": "a: 1\n",
            "group_vars/ungrouped.yml": "u: 1\n",
            "host_vars/h2.yml": "b: 2\n",
        },
    ),
    "a program with _meta": (
        "inventory.sh",
        {
            "inventory.sh": """\
#!/bin/sh
cat <<'END'
{"_meta": {"hostvars": {"h1": {"a": 1, "b": [true, null, 1.5], "c": {"d": "é"}}, "unlisted": {"x": 1}}},
 "all": {"children": ["web", "ungrouped"]},
 "web": {"hosts": ["h1", "h2"], "vars": {"v": "web", "n": 5}, "children": ["deep"]},
 "deep": {"hosts": ["h3"], "vars": {"v": "deep", "yes": "yes"}},
 "short": ["h2", "h4"],
 "empty": {"hosts": []}}
END
""",
            "group_vars/web.yml": "v: group_vars\n",
            "host_vars/h1.yml": "a: host_vars\n",
        },
    ),
    "a program that is asked for each host": (
        "inventory.sh",
        {
            "inventory.sh": """\
#!/bin/sh
case "$1 $2" in
"--list ") echo '{"g": {"hosts": ["h1", "h2", "h3"]}}' ;;
"--host h1") echo '{"a": "one", "ansible_host": "10.0.0.1"}' ;;
"--host "*) echo '{}' ;;
esac
""",
        },
    ),
    "a directory of static and dynamic sources, nested": (
        ".",
        {
            "10-static.yaml": "g: {hosts: {h1: {a: static, b: static}}}\n",
            "20-program": """\
#!/bin/sh
echo '{"_meta": {"hostvars": {"h1": {"b": "program"}}}, "g": {"hosts": ["h1", "h9"], "vars": {"v": 1}}}'
""",
            "30-nested/hosts.yml": "g: {hosts: {h1: {c: nested}}, vars: {v: 2}}\n",
            "30-nested/group_vars/g.yml": "never: read\n",
            "group_vars/g.yml": "w: 3\n",
        },
    ),
    "encrypted values of two labels": (
        "hosts.yaml",
        {
            "hosts.yaml": """\
g:
  hosts:
    h1:
      token: !vault |
<<sealed default s3cret token>>
  vars:
    plain: 1
""",
            "group_vars/all.yml": "password: !vault |\n<<sealed prod hunter2>>\nlist: [1, 2]\n",
            "host_vars/h1.yml": "nested:\n  - key: !vault |\n<<sealed default 12345>>\n",
        },
    ),
    "encrypted files: variables and the inventory itself": (
        "hosts.yml",
        {
            "hosts.yml": "<<file default>>\ng: {hosts: {h1: {a: 1}, h2: }, vars: {b: yes}}\n",
            "group_vars/g/open.yml": "c: open\nd: open\n",
            "group_vars/g/vault.yml": "<<file prod>>\nd: sealed\ne: [1, {f: ~}]\n",
        },
    ),
    "group names with hyphens stay as they are written": (
        "hosts.ini",
        {
            "hosts.ini": """\
[kube-master]
m1 ip=10.0.0.1
[kube-node]
w[1:3]
[etcd:children]
kube-master
[k8s-cluster:children]
kube-master
kube-node
[k8s-cluster:vars]
x=1
""",
            "group_vars/k8s-cluster/k8s-cluster.yml": "y: 1\n",
            "group_vars/kube-node.yml": "y: 2\n",
        },
    ),
    "ini: ranges with steps, padding and letters, ports and addresses": (
        "hosts",
        {
            "hosts": """\
[a]
n[1:10:3]
m[001:005:2].example.org
db-[a:e:2]
s-[x:z]-[1:2]
p[1:2]:2200 v=1
10.0.0.[1:3]
[b:children]
a
[c]
""",
        },
    ),
    "ini: quoting, comments and values": (
        "hosts",
        {
            "hosts": """\
; a comment
[a] # another
h1 a='single quoted' b="double # not a comment" c=un"quo"ted d=\\ escaped e= f='"x"' # comment
h2 a=0x1F b=1e3 c=-5 d=1_000 e=None f=[1,2,] g="{'k': [1, {'l': None}]}" h=0o17 i=007 j=(1,2) k="'q'" l=""
h3 ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p bastion"' u=http://x/#y v==x w=a=b z=TRUE
[a:vars]
one = value # not a comment
two='quoted' and more
three="double"
four = ['a', 'b']
five = yes
six =
seven = a = b
eight = "{{ one }}"
nine=1,2
ten = {'a': 1}
""",
        },
    ),
    "yaml: what YAML 1.1 takes values for": (
        "hosts.yml",
        {
            "hosts.yml": "all: {hosts: {h1: }}\n",
            "group_vars/all.yml": """\
bools: [yes, No, ON, off, True, FALSE, y, n]
nulls: [~, null, Null, NULL, '', ""]
also_null:
octal: [0777, 010, 08, 0o17, "010"]
numbers: [1_000, 0b101, 0x1F, -5, +5, 1e3, 1.5e+3, 6.8523015e+5, .5, 1., -.5]
sexagesimal: [1:20, 190:20:30, 20:30.15]
dates: [2020-01-31, "2020-01-31", 2001-12-14t21:59:43.10, 2001-12-15 02:59:43]
texts: [a b, "a: b", 'it''s', "tab\\t", 1.2.3, v1.36, "{{ x }}"]
folded: >
  one
  two

  three
literal: |-
  one
    two
kept: |+
  x

merge_base: &base {a: 1, b: 2}
merged: {<<: *base, b: 3}
merged_list: {<<: [{a: 9, c: 9}, *base], d: 1}
alias: *base
quoted_key: {"a b": 1, 'c': 2}
nested: {a: [1, [2, {b: [3]}]]}
"numeric-looking": {"1": a}
""",
        },
    ),
    "precedence: depth, priority, names, and a child of two parents": (
        "hosts.yml",
        {
            "hosts.yml": """\
all:
  children:
    a:
      vars: {p: a, q: a, r: a}
      children: {shared: }
    b:
      vars: {p: b, q: b, ansible_group_priority: 5}
      children:
        shared:
          vars: {r: shared, s: shared}
          hosts: {h1: , h2: {s: host}}
    c:
      children: {d: {children: {e: {hosts: {h1: }, vars: {q: e, s: e}}}}}
      vars: {s: c, t: c}
    z:
      hosts: {h2: }
      vars: {s: z, t: z}
""",
            "group_vars/c.yml": "t: c-group_vars\nu: c-group_vars\n",
            "group_vars/e.yml": "u: e-group_vars\n",
            "group_vars/shared": "u: shared-group_vars\n",
            "group_vars/z.json": '{"u": "z-group_vars"}\n',
        },
    ),
    "group_vars: which of several files of one name is read": (
        "hosts.ini",
        {
            "hosts.ini": "[a]\nh1\n[b]\nh1\n[c]\nh1\n[d]\nh1\n",
            "group_vars/a.yml": "x: yml\n",
            "group_vars/a.yaml": "x: yaml\n",
            "group_vars/b.yaml": "y: yaml\n",
            "group_vars/b.json": '{"y": "json"}\n',
            "group_vars/c/b/deep.yml": "z: deep\n",
            "group_vars/c/a.yml": "z: first\n",
            "group_vars/c/c.json": '{"w": 1}\n',
            "group_vars/c/none": "v: 1\n",
            "group_vars/c.yml": "z: shadowed\n",
            "group_vars/d": "u: no suffix\n",
            "group_vars/d.yml": "u: suffix\n",
        },
    ),
    "yaml: children by name, hosts in several groups, nothing below": (
        "hosts.yml",
        {
            "hosts.yml": """\
all:
  hosts: {h1: {a: 1}, h2: , lonely: {b: 1}}
  children:
    kube_control_plane: {hosts: {h1: }}
    kube_node: {hosts: {h1: {a: 2}, h2: {c: 3}}}
    k8s_cluster: {children: {kube_control_plane: , kube_node: }}
    calico_rr: {hosts: {}}
    nothing:
    etcd: {children: {kube_control_plane: {}}}
other: {hosts: {h2: , "h[5:6]": {d: 4}}}
""",
        },
    ),
}

_PASSWORDS = {"default": "swordfish", "prod": "open sesame"}


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_with_secrets(text))
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def _with_secrets(text: str) -> str:
    whole = re.fullmatch(r"<<file (\w+)>>\n(.*)", text, re.DOTALL)
    if whole:
        return _sealed(whole[1], whole[2])
    return re.sub(r"<<sealed (\w+) (.*)>>", lambda m: textwrap.indent(_sealed(m[1], m[2]), " " * 8), text)


def _sealed(label: str, text: str) -> str:
    """Encrypt as ansible-vault does, by its own code."""
    vault = importlib.import_module("ansible.parsing.vault")
    secret = vault.VaultSecret(_PASSWORDS[label].encode())
    return str(vault.VaultLib([(label, secret)]).encrypt(text, secret, label).decode())


def _vault() -> Vault:
    return Vault([Password(label, text.encode) for label, text in _PASSWORDS.items()])


def _ansible(given: Sequence[str], root: Path, home: Path) -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list"]
    command += [word for text in given for word in ("-i", text)]
    for label, password in _PASSWORDS.items():
        (home / label).write_text(password)
        command += ["--vault-id", f"{label}@{home / label}"]
    environment = {
        **os.environ,
        "HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        # ansible-core 2.18 leaves .ini files of a directory out; 2.19 reads them, as Nidome does.
        "ANSIBLE_INVENTORY_IGNORE": "~,.orig,.cfg,.retry,.pyc,.pyo,.bak,.rpm,.md,.txt,.rst,.swp",
    }
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("case", _CASES)
def test_inventory_reads_as_ansible_reads_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts, groups and every host's merged variables are what ansible-inventory says they are."""
    given, files = _CASES[case]
    sources = (given,) if isinstance(given, str) else given
    root, home = tmp_path / "inventory", tmp_path / "home"
    home.mkdir()
    _write(root, files)
    monkeypatch.chdir(root)
    theirs = _ansible(sources, root, home)
    ours = read_inventory(sources, derive=False, vault=_vault())

    hostvars = {host: _opened(values) for host, values in theirs["_meta"]["hostvars"].items()}
    values = {
        host: {k: _as_json(e.node.value) for k, e in ours.variables(host).items()} for host in ours.hosts
    }
    assert values == {host: hostvars.get(host, {}) for host in ours.hosts}
    assert set(hostvars) <= set(ours.hosts)
    for name, members in ours.groups.items():
        assert set(members) == _members(theirs, name), name
    assert set(theirs) - {"_meta"} <= set(ours.groups)


def _opened(value: Any) -> Any:
    """Return a value of ansible-inventory's output with what it shows encrypted decrypted by its own code."""
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"__ansible_vault"}:
        vault = importlib.import_module("ansible.parsing.vault")
        secrets = [(label, vault.VaultSecret(text.encode())) for label, text in _PASSWORDS.items()]
        return vault.VaultLib(secrets).decrypt(value["__ansible_vault"]).decode()
    return {key: _opened(item) for key, item in value.items()}


def _as_json(value: Any) -> Any:
    """Return a value as JSON has it: dates are texts there."""
    return json.loads(json.dumps(value, default=lambda date: date.isoformat()))


def _members(listing: dict[str, Any], group: str) -> set[str]:
    entry = listing.get(group, {})
    below = (_members(listing, child) for child in entry.get("children", []))
    return set(entry.get("hosts", [])).union(*below)
