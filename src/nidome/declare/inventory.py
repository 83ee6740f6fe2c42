"""Read an inventory: hosts, groups, ``group_vars/`` and ``host_vars/``, each value with its file and line.

Sources add to one draft (:mod:`nidome.declare.groups`); the result is immutable. The order of layers is
Ansible's, weakest first: the inventory's own variables of ``all``, then of the host's groups; group_vars of
``all``, then of those groups; the inventory's variables of the host; its host_vars; the command line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nidome.declare.groups import Entry, InventoryDraft
from nidome.declare.patterns import expand_hosts
from nidome.declare.yamlmarks import Field, Node, fail, parse_yaml, read_text, read_yaml
from nidome.errors import DeclarationError
from nidome.model.findings import DeclarationWarning
from nidome.provenance import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Inventory", "Layer", "read_inventory"]

_YAML = (".yaml", ".yml", ".json")
_IGNORED = (
    ".bak", ".cfg", ".md", ".orig", ".pyc", ".pyo", ".retry", ".rpm", ".rst", ".swp", ".txt", "~",
)  # fmt: skip
_CLUSTER = "k8s_cluster"
_CLUSTER_PARTS = ("kube_node", "kube_control_plane", "calico_rr")


class Layer(NamedTuple):
    """A place that gives a host variables: a group, the host, a file of group_vars or host_vars."""

    name: str
    entries: Mapping[str, Entry]


@dataclass(frozen=True, eq=False, repr=False)
class Inventory:
    """An inventory as read; ``groups`` and ``hosts`` are in the order in which they were written."""

    path: Path
    hosts: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    warnings: tuple[DeclarationWarning, ...]
    extra: Layer
    _draft: InventoryDraft
    _group_files: Mapping[str, tuple[Layer, ...]]
    _host_files: Mapping[str, tuple[Layer, ...]]
    _groups_of: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def groups_of(self, host: str) -> tuple[str, ...]:
        """Return the groups of a host, ``all`` left out, the one that wins last."""
        if host not in self._groups_of:
            self._groups_of[host] = self._draft.groups_of(host)
        return self._groups_of[host]

    def host_origin(self, host: str) -> Origin:
        """Return the place where a host is first mentioned."""
        return self._draft.places[host]

    def layers(self, host: str) -> tuple[Layer, ...]:
        """Return every layer that says something for a host, the weakest first."""
        names = ("all", *self.groups_of(host))
        drafts = (self._draft.groups[name] for name in names)
        layers = [Layer(f"group {draft.name}", draft.variables) for draft in drafts]
        layers.extend(layer for name in names for layer in self._group_files.get(name, ()))
        layers.append(Layer(f"host {host}", self._draft.hosts[host]))
        layers.extend(self._host_files.get(host, ()))
        layers.append(self.extra)
        return tuple(layer for layer in layers if layer.entries)

    def variables(self, host: str) -> dict[str, Entry]:
        """Return the variables in force for a host."""
        merged: dict[str, Entry] = {}
        for layer in self.layers(host):
            merged.update(layer.entries)
        return merged


def read_inventory(
    path: Path, *, extra_vars: Mapping[str, Any] | None = None, derive: bool = True
) -> Inventory:
    """Read an inventory file, or a directory of them, with the group_vars and host_vars beside it.

    ``derive`` puts every control-plane and worker host into ``k8s_cluster``, as kubespray does when it runs.
    A value of ``extra_vars`` is plain (text is then read by the variable's own type) or a Node.
    """
    draft = InventoryDraft()
    base = path if path.is_dir() else path.parent
    for source in _sources(path):
        _read_source(source, draft)
    if not draft.hosts:
        fail(
            "inventory-empty", "the inventory holds no host", str(path), 0, "add a host to kube_control_plane"
        )
    if derive:
        _derive_cluster(draft, str(path))
    draft.finish()
    warnings: list[DeclarationWarning] = []
    group_files = _vars_files(base, "group_vars", draft.groups, warnings)
    host_files = _vars_files(base, "host_vars", draft.hosts, warnings)
    return Inventory(
        path=path,
        hosts=tuple(draft.hosts),
        groups={name: draft.members(name) for name in draft.groups},
        warnings=tuple(warnings),
        extra=_extra_layer(extra_vars or {}),
        _draft=draft,
        _group_files=group_files,
        _host_files=host_files,
    )


def _sources(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        names = sorted(_listing(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        fail("file-unreadable", f"the inventory cannot be read: {reason}", str(path))
    found = [path / name for name in names if not name.startswith(".") and not name.endswith(_IGNORED)]
    files = [entry for entry in found if entry.name not in ("group_vars", "host_vars") and entry.is_file()]
    if not files:
        fail("inventory-empty", "the directory holds no inventory file", str(path), 0, "add a hosts.yaml")
    return files


def _read_source(path: Path, draft: InventoryDraft) -> None:
    file = str(path)
    if not path.exists():
        fail("file-unreadable", "there is no such inventory", file, 0, "give a file or a directory with -i")
    text = read_text(path)
    suffix = path.suffix
    if suffix in _YAML:
        _read_groups(parse_yaml(text, file), draft)
    elif suffix == ".toml" or text.startswith("#!") or os.access(path, os.X_OK):
        hint = "use YAML or INI"
        fail("inventory-kind", "TOML and executable inventories are not supported yet", file, 0, hint)
    elif suffix == "" and (root := _as_mapping(text, file)) is not None:
        _read_groups(root, draft)
    else:
        from nidome.declare.ini import read_ini  # noqa: PLC0415 - only an INI inventory pays for its parser

        read_ini(text, file, draft)


def _as_mapping(text: str, file: str) -> Node | None:
    """Return the YAML mapping that a file without a suffix holds, None where it is something else."""
    try:
        root = parse_yaml(text, file)
    except DeclarationError as error:
        if error.code in ("yaml-syntax", "yaml-key", "yaml-tab"):
            return None
        raise
    return root if isinstance(root.value, dict) else None


def _read_groups(root: Node, draft: InventoryDraft) -> None:
    if not isinstance(root.value, dict):
        fail(
            "inventory-shape",
            "a YAML inventory is a mapping of groups",
            root.file,
            root.line or 1,
            "start with all:",
        )
    if "plugin" in root.fields:
        fail("inventory-kind", "inventory plugins are not supported", root.file, root.fields["plugin"].line)
    for name, group in root.fields.items():
        _read_group(name, group, draft)


def _read_group(name: object, group: Field, draft: InventoryDraft) -> str:
    file = group.node.file
    known = draft.group(name, file, group.line).name
    for section, part in _mapping(group, f"the group '{known}'").items():
        if section not in ("vars", "children", "hosts"):
            hint = "a group has hosts, children and vars"
            fail("inventory-shape", f"'{section}' is not part of a group", part.node.file, part.line, hint)
        for key, value in _mapping(part, f"'{section}' of the group '{known}'").items():
            if section == "children":
                draft.add_child(known, _read_group(key, value, draft), value.node.file, value.line)
            elif section == "hosts":
                _read_hosts(known, key, value, draft)
            else:
                draft.set_group_variable(known, _variable_name(key, value), value)
    return known


def _mapping(part: Field, what: str) -> Mapping[Any, Field]:
    node = part.node
    if node.value is None:
        return {}
    if isinstance(node.value, str):
        return {node.value: Field(part.line, part.column, Node(None, node.file, node.line))}
    if not isinstance(node.value, dict):
        fail("inventory-shape", f"{what} must be a mapping", node.file, part.line)
    return node.fields


def _read_hosts(group: str, pattern: object, value: Field, draft: InventoryDraft) -> None:
    names, port = expand_hosts(pattern, value.node.file, value.line)
    if value.node.value is not None and not isinstance(value.node.value, dict):
        hint = "write the host's variables as name: value beneath it"
        fail(
            "inventory-shape", f"the host '{pattern}' must hold a mapping", value.node.file, value.line, hint
        )
    for name in names:
        draft.add_host(name, group, port, (value.node.file, value.line))
        for key, variable in value.node.fields.items():
            draft.set_host_variable(name, _variable_name(key, variable), variable)


def _variable_name(key: object, field: Field) -> str:
    if not isinstance(key, str):
        fail(
            "variable-name",
            f"the variable name {key!r} is not text",
            field.node.file,
            field.line,
            "put it in quotes",
        )
    return key


def _derive_cluster(draft: InventoryDraft, file: str) -> None:
    parts = [name for name in _CLUSTER_PARTS if name in draft.groups]
    wanted = {host: None for name in parts for host in draft.members(name)}
    have = set(draft.members(_CLUSTER)) if _CLUSTER in draft.groups else set()
    missing = [host for host in wanted if host not in have]
    if missing:
        draft.group(_CLUSTER, file, 0).hosts.update(dict.fromkeys(missing))


def _extra_layer(values: Mapping[str, Any]) -> Layer:
    origin = Origin("command line")
    entries = {}
    for name, value in values.items():
        node = value if isinstance(value, Node) else _plain_node(value)
        entries[name] = Entry(node, Origin("command line", node.file, node.line) if node.line else origin)
    return Layer("command line", entries)


def _plain_node(value: Any) -> Node:
    """Return a value without a place, with the parts of a mapping or a list as nodes too."""
    place = "command line"
    if isinstance(value, dict):
        fields = {k: Field(0, 0, _plain_node(v)) for k, v in value.items()}
        return Node(value, place, fields=fields)
    if isinstance(value, list | tuple):
        return Node(list(value), place, items=tuple(_plain_node(v) for v in value))
    return Node(value, place, untyped=isinstance(value, str))


def _vars_files(
    base: Path, kind: str, owners: Mapping[str, Any], warnings: list[DeclarationWarning]
) -> dict[str, tuple[Layer, ...]]:
    """Read group_vars or host_vars: for each owner, its files in the order in which they apply."""
    folder = base / kind
    if not folder.is_dir():
        return {}
    names = _listing(folder)
    used: set[str] = set()
    layers = {}
    for owner in owners:
        candidates = [owner + suffix for suffix in ("", *_YAML) if owner + suffix in names]
        used.update(candidates)
        if candidates:
            layers[owner] = tuple(_layer(file, base) for file in _files(folder / candidates[0]))
        warnings.extend(_not_read(folder / n, f"{candidates[0]} is read instead") for n in candidates[1:])
    word = "group" if kind == "group_vars" else "host"
    unread = [name for name in sorted(names - used) if not name.startswith(".") and not name.endswith("~")]
    warnings.extend(_not_read(folder / name, f"the inventory has no {word} of that name") for name in unread)
    return layers


def _not_read(path: Path, reason: str) -> DeclarationWarning:
    return DeclarationWarning("file-not-read", f"the file is not read: {reason}", str(path))


def _listing(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        fail("file-unreadable", f"the directory cannot be read: {error.strerror}", str(folder))


def _files(path: Path, level: int = 0) -> list[Path]:
    if not path.is_dir():
        return [path]
    if level > 16:  # noqa: PLR2004 - no declaration nests folders like this; a link to a parent does
        fail(
            "file-unreadable",
            "the directories are nested too deeply",
            str(path),
            0,
            "look for a link to a parent",
        )
    found: list[Path] = []
    for name in sorted(_listing(path)):
        entry = path / name
        if name.startswith(".") or name.endswith("~"):
            continue
        if entry.is_dir() and not entry.suffix:
            found.extend(_files(entry, level + 1))
        elif entry.is_file() and entry.suffix in ("", *_YAML):
            found.append(entry)
    return found


def _layer(path: Path, base: Path) -> Layer:
    root = read_yaml(path)
    name = path.relative_to(base).as_posix()
    if root.value is None:
        return Layer(name, {})
    if not isinstance(root.value, dict):
        fail("variables-shape", "a file of variables is a mapping of name: value", root.file, root.line)
    entries = {
        _variable_name(key, value): Entry(value.node, Origin(name, root.file, value.line))
        for key, value in root.fields.items()
    }
    return Layer(name, entries)
