"""INI inventories: ``[group]`` with a host and its ``k=v`` a line, ``[group:children]``, ``[group:vars]``.

As in Ansible, a value is a Python literal where it is one (``True``, ``5``, ``['a']``) and text otherwise.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.declare.patterns import check_group_name, expand_hosts
from nidome.declare.yamlmarks import Field, Node, as_secret, fail
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from nidome.declare.groups import InventoryDraft

__all__ = ["read_ini"]

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_LITERAL = re.compile(r"[-+.0-9'\"\[({]|True|False|None|set\(|[bBuUrR]{1,2}['\"]")
_KINDS = ("hosts", "children", "vars")
# The literal parser recurses on these; a host's variable never needs that many.
_MOST_NESTED = 200
_MOST_VALUES = 100_000
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")


def read_ini(text: str, file: str, draft: InventoryDraft, *, secret: bool = False) -> None:
    """Add what an INI inventory says to the draft; with ``secret`` the file was encrypted."""
    reader = _Reader(draft, file, secret=secret)
    try:
        with warnings.catch_warnings():
            # The literals of values may be odd Python; nobody but their author can mend that.
            warnings.simplefilter("ignore", SyntaxWarning)
            reader.read_all(text)
    except DeclarationError as error:
        if secret:  # the message may quote the line
            error.message = "the line is not valid; it is not shown because the file is encrypted"
        raise


class _Reader:
    """The state between two lines: the section that is open, and groups referred to before they exist."""

    def __init__(self, draft: InventoryDraft, file: str, *, secret: bool) -> None:
        self.draft = draft
        self.file = file
        self.secret = secret
        self.group = "ungrouped"
        self.kind = "hosts"
        self.values = 0
        self.children: list[_Child] = []
        self.only_variables: dict[str, int] = {}
        self.declared = set(draft.groups)

    def read_all(self, text: str) -> None:
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if line and line[0] not in ";#":
                self.read(line, number)
        self.finish()

    def fail(self, message: str, number: int, hint: str = "") -> None:
        fail("ini-syntax", message, self.file, number, hint)

    def read(self, line: str, number: int) -> None:
        section = _SECTION.fullmatch(line)
        if section:
            self.open(section[1], section[2] or "hosts", number)
        elif line.startswith("[") and "]" not in line.split("#", maxsplit=1)[0]:
            self.fail(f"'{line}' begins a section and has no ]", number, "write ] at its end, as in [group]")
        elif line.startswith("[") and line.endswith("]"):
            self.fail(f"'{line}' is not a section", number, "write [group], [group:children] or [group:vars]")
        else:
            {"hosts": self.host, "children": self.child, "vars": self.variable}[self.kind](line, number)

    def open(self, name: str, kind: str, number: int) -> None:
        if kind not in _KINDS:
            self.fail(f"a section [{name}:{kind}] does not exist", number, "use :children or :vars")
        self.group, self.kind = name, kind
        if kind != "vars":
            self.declared.add(name)
        else:
            self.only_variables.setdefault(name, number)
        self.draft.group(name, self.file, number)

    def host(self, line: str, number: int) -> None:
        try:
            first, *pairs = shlex.split(line, comments=True)
        except ValueError as error:
            fail("ini-syntax", f"the line cannot be split into words: {error}", self.file, number)
        names, port = expand_hosts(first, self.file, number)
        fields = [self.pair(pair, number) for pair in pairs]
        for name in names:
            self.draft.add_host(name, self.group, port, (self.file, number))
            for key, field in fields:
                self.draft.set_host_variable(name, key, field)

    def pair(self, text: str, number: int) -> tuple[str, Field]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            self.fail(f"'{text}' is not of the form name=value; a value with blanks is put in quotes", number)
        return key, self.field(value, number)

    def child(self, line: str, number: int) -> None:
        match = _GROUP.fullmatch(line)
        if not match:
            fail("ini-syntax", f"'{line}' is not a group name", self.file, number)
        self.children.append(_Child(self.group, check_group_name(match[1], self.file, number), number))

    def variable(self, line: str, number: int) -> None:
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            self.fail(f"'{line}' is not of the form name=value", number)
        self.draft.set_group_variable(self.group, key, self.field(value, number))

    def field(self, text: str, number: int) -> Field:
        self.values += 1
        if self.values > _MOST_VALUES:
            hint = "move variables to group_vars and host_vars"
            fail("ini-size", f"the file holds more than {_MOST_VALUES} values", self.file, number, hint)
        value = _literal(text, self.file, number)
        node = _node(value, self.file, number)
        return Field(number, 1, as_secret(node) if self.secret else node)

    def finish(self) -> None:
        for name, number in self.only_variables.items():
            if name not in self.declared and name not in {child.name for child in self.children}:
                self.fail(f"[{name}:vars] belongs to a group that does not exist", number, f"add [{name}]")
        for child in self.children:
            if child.name not in self.declared:
                hint = f"add a section [{child.name}]"
                self.fail(f"the group '{child.name}' does not exist", child.line, hint)
            self.draft.add_child(child.parent, child.name, self.file, child.line)


@dataclass(frozen=True, slots=True)
class _Child:
    parent: str
    name: str
    line: int


def _literal(text: str, file: str, number: int) -> Any:
    if not _LITERAL.match(text):
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if sum(map(text.count, "([{-+")) > _MOST_NESTED:
        fail(
            "ini-syntax",
            "the value is nested too deeply",
            file,
            number,
            "write it in group_vars or host_vars",
        )
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _node(value: Any, file: str, line: int) -> Node:
    """Return the value with lists for tuples and sets, and text for what YAML has no type for."""
    if isinstance(value, (list, tuple, set)):
        items = tuple(_node(item, file, line) for item in value)
        return Node([item.value for item in items], file, line, 1, {}, items)
    if isinstance(value, dict):
        fields = {key: Field(line, 1, _node(item, file, line)) for key, item in value.items()}
        return Node({key: field.node.value for key, field in fields.items()}, file, line, 1, fields)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    elif value is ...:
        value = "..."
    elif isinstance(value, complex):
        value = str(value)
    return Node(value, file, line, 1, untyped=isinstance(value, str))
