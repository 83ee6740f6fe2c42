"""The playbook that ansible-core is measured with: the files and services that Nidome keeps on the host."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from bench.__main__ import Bench

__all__ = ["playbook_command"]

_FIND = "find /etc/kubernetes /etc/containerd /etc/cni /etc/systemd/system -maxdepth 1 -type f -size -64k -printf '%m %p\\n'"


def _tasks(bench: Bench) -> tuple[list[dict[str, Any]], int, int]:
    files = [line.split(" ", 1) for line in bench.host(_FIND).splitlines()]
    units = [path.rsplit("/", 1)[1] for _, path in files if path.endswith(".service")]
    tasks: list[dict[str, Any]] = []
    for mode, path in files:
        copy = bench.home / "files" / path.replace("/", "_")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(bench.host(f"cat {path}"), encoding="utf-8")
        tasks.append(
            {"name": path, "ansible.builtin.copy": {"src": str(copy), "dest": path, "mode": mode.zfill(4)}}
        )
    tasks += [
        {"name": u, "ansible.builtin.systemd_service": {"name": u, "state": "started", "enabled": True}}
        for u in units
    ]
    return tasks, len(files), len(units)


def playbook_command(bench: Bench) -> tuple[list[str], int, int]:
    """Write the playbook and return the command that runs it, with the number of files and of services."""
    tasks, files, services = _tasks(bench)
    play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
    playbook = bench.home / "playbook.yml"
    playbook.write_text(yaml.safe_dump(json.loads(json.dumps(play))), encoding="utf-8")
    inventory = bench.home / "inventory" / "nidome" / "hosts.yaml"
    return (
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(playbook)],
        files,
        services,
    )
