"""Read an inventory: hosts, groups, ``group_vars/`` and ``host_vars/``, each value with its file and line.

Sources add to one draft (:mod:`nidome.declare.groups`); the result is immutable. The order of layers is
Ansible's, weakest first: the inventory's own variables of ``all``, then of the host's groups; group_vars of
``all``, then of those groups; the inventory's variables of the host; its host_vars; the command line. Of
several sources, all group_vars of a later one beat those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.declare.groups import Entry, InventoryDraft
from nidome.declare.sources import bases, given, read_sources
from nidome.declare.varsfiles import Layer, VarsFiles, read_vars_files
from nidome.declare.vault import NO_VAULT
from nidome.declare.yamlmarks import Field, Node, fail
from nidome.model.findings import DeclarationWarning
from nidome.provenance import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nidome.declare.vault import Vault

__all__ = ["Inventory", "Layer", "read_inventory"]

_CLUSTER = "k8s_cluster"
_CLUSTER_PARTS = ("kube_node", "kube_control_plane", "calico_rr")
# Names that kubespray took before it used underscores, and what it makes of them when it runs.
_OLD_NAMES = {
    "kube-master": "kube_control_plane",
    "kube-control-plane": "kube_control_plane",
    "kube-node": "kube_node",
    "k8s-cluster": _CLUSTER,
    "calico-rr": "calico_rr",
    "no-floating": "no_floating",
}


class _Members(Mapping[str, tuple[str, ...]]):
    """The hosts of each group, looked up when they are asked for: all of them together may be very many."""

    def __init__(self, draft: InventoryDraft) -> None:
        self._draft = draft

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name not in self._draft.groups:
            raise KeyError(name)
        return self._draft.members(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._draft.groups)

    def __len__(self) -> int:
        return len(self._draft.groups)


@dataclass(frozen=True, eq=False, repr=False)
class Inventory:
    """An inventory as read; ``groups`` and ``hosts`` are in the order in which they were written.

    ``source`` is what was given with ``-i``, joined by ", " where that is several; ``directory`` is that of
    the first one which is a file or a directory, else the working directory.
    """

    source: str
    directory: Path
    hosts: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    warnings: tuple[DeclarationWarning, ...]
    extra: Layer
    _draft: InventoryDraft
    _files: tuple[VarsFiles, ...]
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
        groups = self.groups_of(host)
        drafts = (self._draft.groups[name] for name in ("all", *groups))
        layers = [Layer(f"group {draft.name}", draft.variables) for draft in drafts]
        layers += [layer for files in self._files for layer in files.groups.get("all", ())]
        layers += [layer for files in self._files for name in groups for layer in files.groups.get(name, ())]
        layers.append(Layer(f"host {host}", self._draft.hosts[host]))
        layers += [layer for files in self._files for layer in files.hosts.get(host, ())]
        layers.append(self.extra)
        return tuple(layer for layer in layers if layer.entries)

    def with_value(self, name: str, value: Any) -> Inventory:
        """Return the inventory with a plain value that wins over every layer."""
        entries = {**self.extra.entries, **_extra_layer({name: value}).entries}
        return replace(self, extra=Layer(self.extra.name, entries))

    def variables(self, host: str) -> dict[str, Entry]:
        """Return the variables in force for a host."""
        merged: dict[str, Entry] = {}
        for layer in self.layers(host):
            merged.update(layer.entries)
        return merged


def read_inventory(
    sources: Path | str | Sequence[Path | str],
    *,
    extra_vars: Mapping[str, Any] | None = None,
    derive: bool = True,
    vault: Vault = NO_VAULT,
) -> Inventory:
    """Read what ``-i`` names, one value or several, with the group_vars and host_vars beside each.

    ``derive`` does what kubespray does when it runs: old group names with hyphens get their new ones, and
    every control-plane and worker host is in ``k8s_cluster``. A value of ``extra_vars`` is an Entry, a Node,
    or plain (text is then read by the variable's own type). ``vault`` opens what is encrypted.
    """
    chosen = given([sources] if isinstance(sources, Path | str) else sources)
    shown = ", ".join(each.text for each in chosen)
    draft = InventoryDraft()
    warnings: list[DeclarationWarning] = []
    read_sources(chosen, draft, vault, warnings)
    if not draft.hosts:
        fail("inventory-empty", "the inventory holds no host", shown, 0, "add a host to kube_control_plane")
    if derive:
        warnings += _rename_groups(draft)
        _derive_cluster(draft, shown)
    draft.finish()
    files = tuple(read_vars_files(base, draft, vault, warnings) for base in bases(chosen))
    return Inventory(
        source=shown,
        directory=next((folder for each in chosen for folder in bases((each,))), Path()),
        hosts=tuple(draft.hosts),
        groups=_Members(draft),
        warnings=tuple(warnings),
        extra=_extra_layer(extra_vars or {}),
        _draft=draft,
        _files=files,
    )


def _rename_groups(draft: InventoryDraft) -> Iterator[DeclarationWarning]:
    """Put the hosts of a group with an old name into the one that it is called now, too."""
    for old, new in _OLD_NAMES.items():
        group = draft.groups.get(old)
        if group is not None:
            place = group.place
            draft.group(new, place.file, place.line).hosts.update(dict.fromkeys(draft.members(old)))
            message = f"the group '{old}' has an old name; its hosts are taken as those of {new}"
            hint = f"write {new} in place of {old}, in group_vars too"
            yield DeclarationWarning("group-old-name", message, str(place), hint)


def _derive_cluster(draft: InventoryDraft, file: str) -> None:
    parts = [name for name in _CLUSTER_PARTS if name in draft.groups]
    wanted = {host: None for name in parts for host in draft.members(name)}
    have = set(draft.members(_CLUSTER)) if _CLUSTER in draft.groups else set()
    missing = [host for host in wanted if host not in have]
    if missing:
        draft.group(_CLUSTER, file, 0).hosts.update(dict.fromkeys(missing))


def _extra_layer(values: Mapping[str, Any]) -> Layer:
    return Layer("command line", {name: _extra_entry(value) for name, value in values.items()})


def _extra_entry(value: Any) -> Entry:
    if isinstance(value, Entry):
        return value
    node = value if isinstance(value, Node) else _plain_node(value)
    return Entry(node, Origin("command line", node.file if node.line else "", node.line))


def _plain_node(value: Any) -> Node:
    """Return a value without a place, with the parts of a mapping or a list as nodes too."""
    place = "command line"
    if isinstance(value, dict):
        fields = {k: Field(0, 0, _plain_node(v)) for k, v in value.items()}
        return Node(value, place, fields=fields)
    if isinstance(value, list | tuple):
        return Node(list(value), place, items=tuple(_plain_node(v) for v in value))
    return Node(value, place, untyped=isinstance(value, str))
