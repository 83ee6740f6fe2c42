"""Reading a large inventory: 200 hosts with 300 variables each, by Nidome and by ansible-inventory."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, timed

if TYPE_CHECKING:
    from bench.__main__ import Bench

__all__ = ["inventory_figures"]

_HOSTS = 200
_EACH = 100  # variables in each of three places
_READ = """
import sys
from nidome.declare.inventory import read_inventory
from nidome.declare.resolve import check_names, resolve
read = read_inventory(sys.argv[1])
check_names(read)
spec = resolve(read)
assert len(spec.hosts) == int(sys.argv[2]) and spec.kube_log_level.value == 4
assert all(len(read.variables(host.name)) >= int(sys.argv[3]) for host in spec.hosts)
"""
# What stands in such files: texts, numbers, switches, lists, mappings, and templates.
_SHAPES = (
    "{0}_{1}: value-{1}",
    "{0}_{1}: {1}",
    "{0}_{1}: yes",
    "{0}_{1}: [one, two, {1}]",
    "{0}_{1}: {{key: {1}, other: 'text {1}'}}",
    '{0}_{1}: "{{{{ {0}_0 }}}}-{1}"',
)


def _variables(name: str) -> str:
    return "".join(_SHAPES[n % len(_SHAPES)].format(name, n) + "\n" for n in range(_EACH))


def _write(root: Path) -> None:
    for folder in ("group_vars/all", "group_vars/k8s_cluster", "host_vars"):
        (root / folder).mkdir(parents=True)
    own = "".join(f"node{n} ansible_host=10.1.{n // 250}.{n % 250 + 1}\n" for n in range(1, _HOSTS + 1))
    groups = f"[kube_control_plane]\nnode[1:3]\n[etcd]\nnode[1:3]\n[kube_node]\nnode[1:{_HOSTS}]\n"
    (root / "inventory.ini").write_text(
        f"{own}{groups}[k8s_cluster:children]\nkube_control_plane\nkube_node\n", encoding="utf-8"
    )
    level = 'level: 2\nkube_log_level: "{{ level * 2 }}"\n'
    (root / "group_vars/all/all.yml").write_text(level + _variables("wide"), encoding="utf-8")
    (root / "group_vars/k8s_cluster/main.yml").write_text(_variables("cluster"), encoding="utf-8")
    for number in range(1, _HOSTS + 1):
        (root / f"host_vars/node{number}.yml").write_text(_variables("own"), encoding="utf-8")


def inventory_figures(bench: Bench, runs: int) -> list[Figure]:
    """Measure both as whole processes, from their start to their end."""
    root = bench.home / "large"
    _write(root)
    file = str(root / "inventory.ini")
    mine = [sys.executable, "-c", _READ, file, str(_HOSTS), str(3 * _EACH)]
    theirs = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", file, "--list"]
    shape = f"{_HOSTS} hosts × {3 * _EACH} variables"
    ours = Figure(f"**(g) {shape}: read, checked and resolved, whole process**", "s", "≤ 1.0")
    other = Figure(f"ansible-inventory --list of the same {shape}", "s", note="reads; renders no template")
    for _ in range(runs):
        for figure, command in ((ours, mine), (other, theirs)):
            figure.samples.append(timed(partial(_run, command, bench)))
    return [ours, other, Figure("**(g) ansible-inventory ÷ nidome**", "×", "", [other.median / ours.median])]


def _run(command: list[str], bench: Bench) -> None:
    environment = {**os.environ, "HOME": str(bench.home)}
    subprocess.run(command, cwd=bench.home, env=environment, check=True, stdout=subprocess.DEVNULL)
