"""``nidome down``: remove the disposable hosts that ``nidome up`` made; their inventory stays."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.up import HOSTS_FILE, MACHINE_FILE, write_declaration
from nidome.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from nidome.machines.model import Machine

__all__ = ["configure", "edited", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    parser.add_argument(
        "--purge", action="store_true", help="remove the inventory too, if you have not edited it"
    )


def run(args: argparse.Namespace) -> int:
    """Remove the hosts; return 0 when none is left."""
    directory = common.one_directory(args, files=True)
    if not directory.exists():
        raise UsageError(
            "inventory-missing",
            f"there is no inventory at {directory}",
            where="-i",
            hint=f"{common.missing_hint(args, str(directory))}; nidome machines list shows disposable hosts",
        )
    files = sorted(directory.glob(f"host_vars/*/{MACHINE_FILE}"))
    changed = edited(directory) if args.purge else []
    for path in files:
        _remove(path)
    if not files:
        print(f"{directory} has no disposable hosts")
    if args.purge and not changed:
        shutil.rmtree(directory)
        print(f"removed the inventory {directory}")
    else:
        kept = f" with your changes ({', '.join(changed)})" if changed else ""
        # Only what `up` wrote, or a directory that had its hosts, is one that it can use again.
        ours = bool(files) or HOSTS_FILE not in edited(directory)
        up = shlex.join(["nidome", "up", *(word for name in args.inventory or () for word in ("-i", name))])
        again = f"; {up} makes its cluster anew" if ours else ""
        print(f"kept the inventory {directory}{kept}{again}")
    return 0


def _remove(file: Path) -> None:
    """Remove a host, then the file that says how to reach it: a kill in between loses neither."""
    from nidome import machines  # noqa: PLC0415 - not needed for --help

    name = file.parent.name
    found = {machine.name: machine for machine in machines.listing()}.get(name)
    if found is not None and not _same(found, _variables(file)):
        raise UsageError(
            "machine-differs",
            f"the disposable host '{name}' is not the one of this inventory",
            where=str(file),
            hint=f"remove that file, or the host itself: nidome machines rm {name}",
        )
    if name in machines.names():
        machines.remove(name)
        print(f"removed the disposable host {name}")
    file.unlink(missing_ok=True)
    if not any(file.parent.iterdir()):
        file.parent.rmdir()


def _same(machine: Machine, variables: Mapping[str, Any]) -> bool:
    return (variables.get("ansible_host"), variables.get("ansible_ssh_private_key_file")) == (
        machine.address,
        str(machine.key),
    )


def _variables(file: Path) -> dict[str, Any]:
    """Return what ``nidome up`` wrote: a name and a JSON value on each line."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, colon, value = line.partition(": ")
        if colon and not line.startswith("#"):
            try:
                found[name] = json.loads(value)
            except ValueError:
                found[name] = value
    return found


def edited(directory: Path) -> list[str]:
    """Return the files of an inventory that are not as ``nidome up`` writes them for the same hosts."""
    names = _host_names(directory / HOSTS_FILE)
    if not names:
        return [HOSTS_FILE]
    with tempfile.TemporaryDirectory() as place:
        fresh = Path(place) / "inventory"
        write_declaration(fresh, names)
        original = _contents(fresh)
    own = {f"host_vars/{name}/{MACHINE_FILE}" for name in names}
    present = {name: text for name, text in _contents(directory).items() if name not in own}
    return sorted(name for name, text in present.items() if original.get(name) != text)


def _host_names(path: Path) -> tuple[str, ...]:
    """Return the names of the hosts in a file that may be anything by now."""
    import yaml  # noqa: PLC0415 - not needed for --help

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))["all"]["hosts"]
        return tuple(str(name) for name in found)
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return ()


def _contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
