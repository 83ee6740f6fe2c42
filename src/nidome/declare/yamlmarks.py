"""YAML 1.1 as Ansible reads it, with the place of every key and value.

The tree is built from the parser's events, not by recursion, so that neither deep nesting nor an alias
to itself can harm the process. What Ansible reads differently for two people (a key given twice) or not
at all (a tag it has no type for) is an error with ``file:line`` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml

from nidome.declare.files import MAX_BYTES, decode, fail, read_bytes, read_text
from nidome.declare.vault import HEADER, NO_VAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nidome.declare.vault import Vault

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Field",
    "Node",
    "Source",
    "as_secret",
    "fail",
    "parse_yaml",
    "read_source",
    "read_text",
    "read_yaml",
]

MAX_DEPTH = 64
"""Levels of lists and mappings inside each other."""

MAX_VALUES = 250_000
"""Values in one file after its aliases are followed: twelve for each host of the largest inventory."""

_TAG = "tag:yaml.org,2002:"
_UNSAFE = "!unsafe"
_VAULT_TAGS = ("!vault", "!vault-encrypted")
_SHOWN = 40
_MERGE = object()
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Node(NamedTuple):
    """A value and the place where it was written.

    ``value`` is plain Python; ``fields`` (of a mapping) and ``items`` (of a list) are the same content with
    places. ``size`` counts the values in it, itself included. ``untyped`` says that the place can only hold
    text (``-e k=v``, an INI file, a vault), so that the reader of the value decides its type. ``literal``
    text is no template, whatever stands in it (``!unsafe``, or what a template gave). ``secret`` says that
    it, or a part of it, was encrypted: it is never shown.
    """

    value: Any
    file: str = ""
    line: int = 0
    column: int = 0
    fields: Mapping[Any, Field] = {}
    items: tuple[Node, ...] = ()
    size: int = 1
    untyped: bool = False
    literal: bool = False
    secret: bool = False

    @property
    def where(self) -> str:
        """Return ``file:line``, or the file where there is no line."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Field(NamedTuple):
    """A mapping's value with the line and column of its key."""

    line: int
    column: int
    node: Node


def as_secret(node: Node) -> Node:
    """Return the node with everything in it marked as what was encrypted."""
    fields = {key: each._replace(node=as_secret(each.node)) for key, each in node.fields.items()}
    return node._replace(fields=fields, items=tuple(map(as_secret, node.items)), secret=True)


class _Frame:
    """A list or mapping that is still open."""

    __slots__ = ("anchor", "column", "fields", "is_map", "items", "key", "line", "merges")

    def __init__(self, event: Any) -> None:
        self.is_map = isinstance(event, yaml.MappingStartEvent)
        self.anchor: str | None = event.anchor
        self.line: int = event.start_mark.line + 1
        self.column: int = event.start_mark.column + 1
        self.fields: dict[Any, Field] = {}
        self.items: list[Node] = []
        self.merges: list[Node] = []
        self.key: Node | None = None


class Source(NamedTuple):
    """A file's text, and whether the file was encrypted."""

    text: str
    secret: bool


def read_source(path: Path, vault: Vault = NO_VAULT, *, shown: str = "", pipes: bool = False) -> Source:
    """Return a file's text, decrypted where Ansible Vault encrypted the whole file."""
    file = shown or str(path)
    text = decode(read_bytes(path, shown, pipes=pipes), file)
    return (
        Source(vault.open(text, file), secret=True) if text.startswith(HEADER) else Source(text, secret=False)
    )


def read_yaml(path: Path, shown: str = "", *, vault: Vault = NO_VAULT, pipes: bool = False) -> Node:
    """Read one YAML document; an empty file has the value None."""
    source = read_source(path, vault, shown=shown, pipes=pipes)
    return parse_yaml(source.text, shown or str(path), vault=vault, secret=source.secret)


def parse_yaml(text: str, file: str, *, vault: Vault = NO_VAULT, secret: bool = False) -> Node:
    """Parse one YAML document from a text; ``file`` is the name it has in marks and errors.

    ``vault`` opens its encrypted values; with ``secret`` all of it was encrypted.
    """
    try:
        return _Builder(_Loader(text), file, vault, secret=secret).build()
    except yaml.MarkedYAMLError as error:
        _syntax_error(error, text, file)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        fail(
            "yaml-syntax",
            "a control character is not allowed in YAML",
            file,
            line,
            "remove it, or quote and escape it",
        )
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        fail("not-utf8", "the text holds a character that UTF-8 cannot express", file, line)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: str) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    # What is missing at the end is missing in the last line that there is.
    line = max(0, min(line, len(lines) - 1))
    at = lines[line][column : column + 1] if line < len(lines) else ""
    if at == "\t":
        fail("yaml-tab", "a tab is used for indentation", file, line + 1, "indent with spaces")
    message = f"not valid YAML: {error.problem or error.context} (column {column + 1})"
    fail("yaml-syntax", message, file, line + 1)


class _Builder:
    """One pass over the events of one document."""

    def __init__(self, loader: Any, file: str, vault: Vault, *, secret: bool) -> None:
        self.loader = loader
        self.file = file
        self.vault = vault
        self.secret = secret
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Node | None] = {}  # None while the anchored value is still open
        self.root: Node | None = None
        self.count = 0
        self.plain: dict[str, Any] = {}  # plain scalars resolve by their text alone

    def build(self) -> Node:
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.AliasEvent: self.alias,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.DocumentStartEvent: self.document,
        }
        try:
            while self.loader.check_event():
                event = self.loader.get_event()
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(event)
        finally:
            self.loader.dispose()
        return self.root or Node(None, self.file, 1, 1)

    def fail(self, code: str, message: str, event: Any, hint: str = "") -> NoReturn:
        fail(code, message, self.file, event.start_mark.line + 1, hint)

    def document(self, event: Any) -> None:
        if self.root is not None:
            self.fail(
                "yaml-documents",
                "the file holds a second YAML document",
                event,
                "keep one document in a file",
            )

    def scalar(self, event: Any) -> None:
        mark = event.start_mark
        sealed, literal = event.tag in _VAULT_TAGS, event.tag == _UNSAFE
        value = self.opened(event) if sealed else self.scalar_value(event)
        place = (self.file, mark.line + 1, mark.column + 1)
        node = Node(value, *place, untyped=sealed, literal=literal, secret=sealed or self.secret)
        if event.anchor:
            self.anchors[event.anchor] = node
        self.add(node, event)

    def opened(self, event: Any) -> str:
        return self.vault.open(event.value, self.file, event.start_mark.line + 1)

    def scalar_value(self, event: Any) -> Any:
        tag, text = event.tag, event.value
        if tag is None or tag == "!":
            if not event.implicit[0]:
                return text
            if text in self.plain:
                return self.plain[text]
            tag = self.loader.resolve(yaml.ScalarNode, text, event.implicit)
            value = self.plain[text] = self.construct(tag, event)
            return value
        return self.construct(tag, event)

    def construct(self, tag: str, event: Any) -> Any:
        if tag in (_TAG + "str", _UNSAFE):
            return event.value
        if tag == _TAG + "merge":
            return _MERGE
        method = _CONSTRUCTORS.get(tag)
        if method is None:
            self.unsupported_tag(tag, event)
        try:
            return getattr(self.loader, method)(yaml.ScalarNode(tag, event.value))
        except (ValueError, OverflowError, LookupError, AttributeError, TypeError):
            kind = tag.removeprefix(_TAG)
            shown = "***" if self.secret else shortened(event.value)
            self.fail(
                "yaml-value", f"'{shown}' is not a valid {kind}", event, "put it in quotes if it is text"
            )

    def unsupported_tag(self, tag: str, event: Any) -> NoReturn:
        shown = shortened(tag.replace(_TAG, "!!"))
        self.fail("yaml-tag", f"the tag {shown} is not supported yet", event, "remove the tag")

    def alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self.anchors:
            self.fail("yaml-alias", f"the alias *{name} has no anchor &{name} before it", event)
        node = self.anchors[name]
        if node is None:
            self.fail("yaml-recursion", f"the value of &{name} holds itself", event)
        self.add(node, event)

    def open(self, event: Any) -> None:
        tag = _TAG + ("map" if isinstance(event, yaml.MappingStartEvent) else "seq")
        if event.tag not in (None, "!", tag):
            self.unsupported_tag(event.tag, event)
        if len(self.stack) == MAX_DEPTH:
            self.fail("yaml-depth", f"values are nested in more than {MAX_DEPTH} levels", event)
        if self.stack and self.stack[-1].is_map and self.stack[-1].key is None:
            self.fail(
                "yaml-key",
                "a list or a mapping cannot be a key",
                event,
                "put a value that starts with { or [ in quotes",
            )
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(event))

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        node = self.mapping(frame) if frame.is_map else self.sequence(frame)
        if node.size > MAX_VALUES:
            fail(
                "yaml-size",
                f"the file holds more than {MAX_VALUES} values, aliases followed",
                self.file,
                frame.line,
            )
        if frame.anchor:
            self.anchors[frame.anchor] = node
        self.add(node, event)

    def sequence(self, frame: _Frame) -> Node:
        items = tuple(frame.items)
        size = 1 + sum(item.size for item in items)
        secret = any(item.secret for item in items)
        plain = [item.value for item in items]
        return Node(plain, self.file, frame.line, frame.column, {}, items, size, secret=secret)

    def mapping(self, frame: _Frame) -> Node:
        fields: dict[Any, Field] = {}
        for merged in reversed(frame.merges):
            fields.update(merged.fields)
        fields.update(frame.fields)
        size = 1 + sum(field.node.size for field in fields.values())
        plain = {key: field.node.value for key, field in fields.items()}
        secret = any(field.node.secret for field in fields.values())
        return Node(plain, self.file, frame.line, frame.column, fields, (), size, secret=secret)

    def add(self, node: Node, event: Any) -> None:
        self.count += 1
        if self.count > 2 * MAX_VALUES:  # a mapping has a key for each value
            self.fail("yaml-size", f"the file holds more than {MAX_VALUES} values", event, "split the file")
        if not self.stack:
            self.root = node._replace(value=None) if node.value is _MERGE else node
            return
        frame = self.stack[-1]
        if not frame.is_map:
            frame.items.append(node._replace(value="<<") if node.value is _MERGE else node)
        elif frame.key is None:
            self.add_key(frame, node, event)
        else:
            self.add_value(frame, frame.key, node)

    def add_key(self, frame: _Frame, node: Node, event: Any) -> None:
        if isinstance(node.value, (dict, list)):
            self.fail("yaml-key", "a list or a mapping cannot be a key", event)
        first = frame.fields.get(node.value)
        if first is not None:
            known = next(key for key in frame.fields if key == node.value)
            again = "is given twice, first" if type(known) is type(node.value) else f"is the same as {known},"
            message = f"the key '{shortened(str(node.value))}' {again} at line {first.line}"
            self.fail("yaml-duplicate-key", message, event, "keep one of the two")
        frame.key = node

    def add_value(self, frame: _Frame, key: Node, node: Node) -> None:
        frame.key = None
        if key.value is not _MERGE:
            value = node._replace(value="<<") if node.value is _MERGE else node
            frame.fields[key.value] = Field(key.line, key.column, value)
            return
        sources = node.items if isinstance(node.value, list) else (node,)
        for source in sources:
            if not isinstance(source.value, dict):
                fail("yaml-merge", "only a mapping can be merged with <<", self.file, key.line)
            frame.merges.append(source)


def shortened(text: str) -> str:
    """Return a text as an error shows it: a line's worth."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_CONSTRUCTORS: Mapping[str, str] = {
    _TAG + "null": "construct_yaml_null",
    _TAG + "bool": "construct_yaml_bool",
    _TAG + "int": "construct_yaml_int",
    _TAG + "float": "construct_yaml_float",
    _TAG + "timestamp": "construct_yaml_timestamp",
}
