"""Dynamic inventories: a program that prints groups and hosts as JSON for ``--list``, as Ansible runs it.

Host variables are in ``_meta.hostvars``; where that is missing the program is asked for each host with
``--host NAME``. A value has the program as its place: there is no line to name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from nidome.declare.files import fail
from nidome.declare.patterns import check_host_name
from nidome.declare.programs import run_program
from nidome.declare.yamlmarks import MAX_DEPTH, Field, Node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nidome.declare.groups import InventoryDraft
    from nidome.declare.vault import Vault

__all__ = ["read_dynamic"]

_SECTIONS = ("hosts", "children", "vars")


def read_dynamic(path: Path, draft: InventoryDraft, vault: Vault) -> None:
    """Run the program and add what it says to the draft."""
    _Reader(path, draft, vault).read()


class _Reader:
    """The state of one program's answer: the hosts that it has put into groups."""

    def __init__(self, path: Path, draft: InventoryDraft, vault: Vault) -> None:
        self.path = path
        self.file = str(path)
        self.draft = draft
        self.vault = vault
        self.hosts: dict[str, None] = {}

    def read(self) -> None:
        answer = self.ask("--list")
        meta = self.mapping(answer.get("_meta", {}), "_meta")
        for name, group in answer.items():
            if name != "_meta":
                self.group(name, group)
        given = self.mapping(meta["hostvars"], "_meta.hostvars") if "hostvars" in meta else None
        for host in self.hosts:
            own = self.ask("--host", host) if given is None else given.get(host, {})
            for name, value in self.mapping(own, f"the variables of '{host}'").items():
                self.draft.set_host_variable(host, name, self.field(value))

    def ask(self, *words: str) -> dict[str, Any]:
        said = run_program(self.path, *words)
        if not said.strip() and words[0] == "--host":
            return {}
        try:
            answer = json.loads(said.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            reasons = {json.JSONDecodeError: str(error), UnicodeDecodeError: "it is not UTF-8 text"}
            reason = reasons.get(type(error), "it cannot be read")
            self.fail(f"what it prints for {' '.join(words)} is not JSON: {reason}")
        return self.mapping(answer, f"what it prints for {' '.join(words)}")

    def fail(self, message: str) -> NoReturn:
        fail("inventory-output", message, self.file, 0, f"run it by hand: {self.file} --list")

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(f"{what} must be a mapping")
        return value

    def group(self, name: str, said: Any) -> None:
        """Read a group: a mapping with sections; a list of its hosts; or the variables of a host so named."""
        self.draft.group(name, self.file, 0)
        if not isinstance(said, dict):
            said = {"hosts": said}
        elif said and not any(section in said for section in _SECTIONS):
            said = {"hosts": [name], "vars": said}
        for host in self.names(said.get("hosts", []), f"the hosts of '{name}'"):
            self.hosts[host] = None
            self.draft.add_host(check_host_name(host, self.file, 0), name, None, (self.file, 0))
        for key, value in self.mapping(said.get("vars", {}), f"the vars of '{name}'").items():
            self.draft.set_group_variable(name, key, self.field(value))
        for child in self.names(said.get("children", []), f"the children of '{name}'"):
            self.draft.group(child, self.file, 0)
            self.draft.add_child(name, child, self.file, 0)

    def names(self, value: Any, what: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.fail(f"{what} must be a list of names")
        return value

    def field(self, value: Any) -> Field:
        return Field(0, 0, self.node(value, MAX_DEPTH))

    def node(self, value: Any, levels: int) -> Node:
        if not levels:
            fail("yaml-depth", f"values are nested in more than {MAX_DEPTH} levels", self.file)
        if isinstance(value, dict):
            return self.fields(value, levels)
        if isinstance(value, list):
            items = tuple(self.node(item, levels - 1) for item in value)
            secret = any(item.secret for item in items)
            return Node([i.value for i in items], self.file, items=items, secret=secret)
        if isinstance(value, str) and not value.isascii():
            self.require_text(value)
        return Node(value, self.file)

    def fields(self, value: Mapping[str, Any], levels: int) -> Node:
        """Read a mapping, or one of the two that stand for a text: encrypted, or not to be templated."""
        if set(value) == {"__ansible_vault"} and isinstance(text := value["__ansible_vault"], str):
            return Node(self.vault.open(text, self.file), self.file, untyped=True, secret=True)
        if set(value) == {"__ansible_unsafe"} and isinstance(value["__ansible_unsafe"], str):
            return self.node(value["__ansible_unsafe"], levels)._replace(literal=True)
        fields = {key: Field(0, 0, self.node(item, levels - 1)) for key, item in value.items()}
        plain = {key: field.node.value for key, field in fields.items()}
        secret = any(field.node.secret for field in fields.values())
        return Node(plain, self.file, fields=fields, secret=secret)

    def require_text(self, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError:
            fail("not-utf8", "a text holds a character that UTF-8 cannot express", self.file)
