"""``nidome up``: disposable hosts with a Ready cluster on them, and the inventory they came from."""

from __future__ import annotations

import importlib
import json
import shlex
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.again import completed, declaring
from nidome.cli.apply import converge
from nidome.cli.views import view
from nidome.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from nidome.machines.model import Machine
    from nidome.model.spec import ClusterSpec

__all__ = ["HOSTS_FILE", "MACHINE_FILE", "configure", "run", "write_declaration"]

HOSTS_FILE = "hosts.yaml"
MACHINE_FILE = "machine.yml"
_NEEDED_LATER = (
    "nidome.declare.writer",
    "nidome.declare.resolve",
    "nidome.engine.run",
    "nidome.roles.playbook",
    "nidome.artifacts.obtain",
    "nidome.prove.records",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    common.add_run(parser)
    common.add_artifacts(parser)
    parser.add_argument("--nodes", type=int, default=1, help="how many hosts (this release: 1)")
    parser.add_argument("--os", help="debian:11, debian:12 (the default) or debian:13")


def _host_variables(machine: Machine) -> dict[str, Any]:
    arguments = f"-o UserKnownHostsFile={machine.known_hosts} -o StrictHostKeyChecking=yes"
    return {
        "ansible_host": machine.address,
        "ansible_user": machine.user,
        "ansible_port": machine.port,
        "ansible_ssh_private_key_file": str(machine.key),
        "ansible_ssh_common_args": arguments,
    }


def _machines(args: argparse.Namespace, directory: Path, names: Sequence[str]) -> list[Machine]:
    from nidome import machines  # noqa: PLC0415 - not needed for --help
    from nidome.artifacts.store import Store  # noqa: PLC0415 - as above
    from nidome.progress import Progress  # noqa: PLC0415 - as above

    existing = {m.name: m for m in machines.listing()}
    _require_os(args.os, [existing[n] for n in names if n in existing])
    for name in names:
        _require_own(directory, name)
    blobs = Store(common.settings(args).cache).blobs
    blobs.mkdir(parents=True, exist_ok=True)
    missing = [n for n in names if n not in existing]
    made = (
        machines.create_many(missing, os=args.os or machines.DEFAULT_OS, blobs=blobs, progress=Progress())
        if missing
        else []
    )
    found = {m.name: m for m in made}
    return [found.get(n) or _powered(existing[n]) for n in names]


def _owner_file(name: str) -> Path:
    from nidome.machines.places import machines_root  # noqa: PLC0415 - not needed for --help

    return machines_root() / name / "inventory"


def _require_own(inventory: Path, name: str) -> None:
    """Refuse a host on which another inventory's cluster lives."""
    try:
        owner = _owner_file(name).read_text(encoding="utf-8").strip()
    except OSError:
        return
    if owner != str(inventory.absolute()) and Path(owner).exists():
        raise UsageError(
            "machine-taken",
            f"the host {name} has the cluster of the inventory {owner}",
            where=str(inventory),
            hint=f"nidome down -i {owner}; or keep these hosts apart: NIDOME_MACHINES_DIR=DIR",
        )


def _require_os(wanted: str | None, existing: Sequence[Machine]) -> None:
    """Refuse a system that does not exist, or another one than a host has already."""
    from nidome.machines.model import valid_os  # noqa: PLC0415 - not needed for --help

    if wanted is None:
        return
    valid_os(wanted)
    for machine in existing:
        if machine.os != wanted:
            raise UsageError(
                "machine-os-differs",
                f"{machine.name} exists with {machine.os}, not {wanted}",
                where="--os",
                hint="nidome down removes it first",
            )


def _powered(machine: Machine) -> Machine:
    from nidome import machines  # noqa: PLC0415 - not needed for --help

    return machine if machine.running else machines.start(machine.name)


def write_declaration(directory: Path, names: Sequence[str]) -> None:
    """Write the inventory of a cluster on hosts of these names, where there is none yet."""
    from nidome.declare.writer import write_inventory  # noqa: PLC0415 - not needed for --help

    variables: dict[str, Any] = {"etcd_deployment_type": "kine"} if len(names) == 1 else {}
    write_inventory(directory, hosts={name: {} for name in names}, variables=variables)


def _write(directory: Path, made: Sequence[Machine]) -> None:
    write_declaration(directory, [machine.name for machine in made])
    for machine in made:
        # A disposable host may have another address next time: this file is Nidome's, the others are yours.
        path = directory / "host_vars" / machine.name / MACHINE_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}: {json.dumps(value)}\n" for name, value in _host_variables(machine).items()]
        common.write_file(_owner_file(machine.name), f"{directory.absolute()}\n")
        common.write_file(
            path, "# How to reach the disposable host. Written anew by each `nidome up`.\n" + "".join(lines)
        )


def _path_hint() -> list[str]:
    """Return how the shell finds this command, where it does not yet."""
    program = Path(sys.argv[0]).absolute()
    if program.name != "nidome" or shutil.which("nidome"):
        return []
    return [f"  export PATH={shlex.quote(str(program.parent))}:$PATH"]


def _import_ahead() -> None:
    for name in _NEEDED_LATER:
        importlib.import_module(name)


def _fetch(args: argparse.Namespace, spec: ClusterSpec) -> None:
    """Have all artifacts before a host is locked: what is not in the cache yet may take minutes to build."""
    from nidome.roles.playbook import CLUSTER, artifact_names  # noqa: PLC0415 - not needed for --help

    common.fetcher(common.settings(args), spec)(artifact_names(CLUSTER, spec))


def run(args: argparse.Namespace) -> int:
    """Make hosts, write the inventory, converge; return 0 when the cluster is Ready."""
    if args.nodes != 1:
        raise UsageError(
            "nodes-unsupported",
            f"{args.nodes} nodes are not supported yet",
            where="--nodes",
            hint="use --nodes 1",
        )
    names = [f"node{n + 1}" for n in range(args.nodes)]
    directory = common.one_directory(args)
    # What is needed once the hosts have booted is imported while they do.
    threading.Thread(target=_import_ahead, daemon=True).start()
    _write(directory, _machines(args, directory, names))
    spec, warnings = common.declared(args)
    _fetch(args, spec)
    show = view(args.view, verbose=args.verbose)
    with common.recorded(spec, show, sys.argv, playbook="cluster.yml", scope=common.scope(args)) as sink:
        common.warn(warnings, sink)
        ok = converge(spec, args, sink)
    if ok and args.view != "json":
        words = "".join(f" {word}" for word in map(shlex.quote, declaring(args)))
        print(f"\nThe cluster is Ready. Its inventory is {directory}; edit it and run: nidome apply{words}")
        for line in _path_hint():
            print(line)
        for command in ("kubectl get nodes", "status", "plan", "down"):
            print(f"  {completed(f'nidome {command}', args)}")
    return 0 if ok else 1
