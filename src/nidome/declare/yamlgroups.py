"""YAML inventories: groups with ``hosts``, ``children`` and ``vars``, nested as their author likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.declare.patterns import expand_hosts
from nidome.declare.yamlmarks import Field, Node, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nidome.declare.groups import InventoryDraft

__all__ = ["read_groups", "variable_name"]


def read_groups(root: Node, draft: InventoryDraft) -> None:
    """Add what a YAML inventory says to the draft."""
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
                draft.set_group_variable(known, variable_name(key, value), value)
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
            draft.set_host_variable(name, variable_name(key, variable), variable)


def variable_name(key: object, field: Field) -> str:
    """Return the key if it can be a variable's name."""
    if not isinstance(key, str):
        fail(
            "variable-name",
            f"the variable name {key!r} is not text",
            field.node.file,
            field.line,
            "put it in quotes",
        )
    return key
