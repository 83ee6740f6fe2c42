"""A host on which nothing was installed yet, with the inventory that ``nidome up`` would write for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nidome.cli.up import write_declaration

if TYPE_CHECKING:
    from pathlib import Path

    from clusters import Cluster

__all__ = ["empty_host"]


def empty_host(cluster: Cluster) -> None:
    """Make the host and its inventory."""
    blobs = cluster.cache / "blobs" / "sha256"
    cluster.nidome("machines", "create", cluster.name, "--blobs", str(blobs))
    machines = json.loads(cluster.nidome("machines", "list", "--json").stdout)
    machine = next(m for m in machines if m["name"] == cluster.name)
    write_declaration(cluster.inventory, [cluster.name])
    variables = {
        "ansible_host": machine["address"],
        "ansible_user": machine["user"],
        "ansible_ssh_private_key_file": machine["key"],
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={machine['known_hosts']}",
    }
    _write(cluster.inventory / "host_vars" / cluster.name / "machine.yml", variables)


def _write(file: Path, variables: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{n}: {json.dumps(v)}\n" for n, v in variables.items()), encoding="utf-8")
