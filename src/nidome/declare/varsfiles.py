"""``group_vars/`` and ``host_vars/``: for each group and host its files, in the order in which they apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nidome.declare.groups import Entry
from nidome.declare.sources import listing
from nidome.declare.yamlgroups import variable_name
from nidome.declare.yamlmarks import fail, read_yaml
from nidome.model.findings import DeclarationWarning
from nidome.provenance import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nidome.declare.groups import InventoryDraft
    from nidome.declare.vault import Vault

__all__ = ["Layer", "VarsFiles", "read_vars_files"]

# Ansible's order: of all.yml and all.yaml, the first one is read.
_SUFFIXES = ("", ".yml", ".yaml", ".json")
_DEEPEST = 16


class Layer(NamedTuple):
    """A place that gives a host variables: a group, the host, a file of group_vars or host_vars."""

    name: str
    entries: Mapping[str, Entry]


class VarsFiles(NamedTuple):
    """What lies beside one source of the inventory, by the name of the group or host."""

    groups: Mapping[str, tuple[Layer, ...]]
    hosts: Mapping[str, tuple[Layer, ...]]


def read_vars_files(
    base: Path, draft: InventoryDraft, vault: Vault, warnings: list[DeclarationWarning]
) -> VarsFiles:
    """Read the files of all groups and hosts; what applies to none is named in a warning."""
    return VarsFiles(
        _read(base, "group_vars", draft.groups, vault, warnings),
        _read(base, "host_vars", draft.hosts, vault, warnings),
    )


def _read(
    base: Path, kind: str, owners: Mapping[str, Any], vault: Vault, warnings: list[DeclarationWarning]
) -> dict[str, tuple[Layer, ...]]:
    folder = base / kind
    if not folder.is_dir():
        return {}
    names = listing(folder)
    used: set[str] = set()
    layers = {}
    for owner in owners:
        candidates = [owner + suffix for suffix in _SUFFIXES if owner + suffix in names]
        used.update(candidates)
        if candidates:
            files = _files(folder / candidates[0], 0, warnings)
            layers[owner] = tuple(_layer(file, base, vault) for file in files)
        warnings.extend(_not_read(folder / n, f"{candidates[0]} is read instead") for n in candidates[1:])
    word = "group" if kind == "group_vars" else "host"
    unread = [name for name in sorted(names - used) if not name.startswith(".") and not name.endswith("~")]
    warnings.extend(_not_read(folder / name, f"the inventory has no {word} of that name") for name in unread)
    return layers


def _not_read(path: Path, reason: str) -> DeclarationWarning:
    return DeclarationWarning("file-not-read", f"the file is not read: {reason}", str(path))


def _files(path: Path, level: int, warnings: list[DeclarationWarning]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    if level > _DEEPEST:  # no declaration nests folders like this; a link to a parent does
        hint = "look for a link to a parent"
        fail("file-unreadable", "the directories are nested too deeply", str(path), 0, hint)
    for name in sorted(listing(path)):
        entry = path / name
        if name.startswith(".") or name.endswith("~"):
            continue
        if entry.is_dir() and not entry.suffix:
            yield from _files(entry, level + 1, warnings)
        elif entry.suffix in _SUFFIXES and entry.is_file():
            yield entry
        elif entry.suffix in _SUFFIXES and not entry.is_dir():
            warnings.append(_not_read(entry, "it is no regular file"))


def _layer(path: Path, base: Path, vault: Vault) -> Layer:
    root = read_yaml(path, vault=vault)
    name = path.relative_to(base).as_posix()
    if root.value is None:
        return Layer(name, {})
    if not isinstance(root.value, dict):
        fail("variables-shape", "a file of variables is a mapping of name: value", root.file, root.line)
    entries = {
        variable_name(key, value): Entry(value.node, Origin(name, root.file, value.line))
        for key, value in root.fields.items()
    }
    return Layer(name, entries)
