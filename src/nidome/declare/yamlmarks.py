"""YAML 1.1 as Ansible reads it, with the place of every key and value.

The tree is built from the parser's events, not by recursion, so that neither deep nesting nor an alias
to itself can harm the process. What Ansible reads differently for two people (a key given twice) or not
at all (a tag it has no type for) is an error with ``file:line`` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml

from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Field",
    "Node",
    "fail",
    "parse_yaml",
    "read_text",
    "read_yaml",
]

MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is read: far above any declaration, far below what would hold a machine up."""

MAX_DEPTH = 64
"""Levels of lists and mappings inside each other."""

MAX_VALUES = 1_000_000
"""Values in one file after its aliases are followed."""

_TAG = "tag:yaml.org,2002:"
_UNSAFE = "!unsafe"
_MERGE = object()
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Node(NamedTuple):
    """A value and the place where it was written.

    ``value`` is plain Python; ``fields`` (of a mapping) and ``items`` (of a list) are the same content with
    places. ``size`` counts the values in it, itself included. ``untyped`` says that the place can only hold
    text (``-e k=v``, an INI file), so that the reader of the value decides its type. ``literal`` text is no
    template, whatever stands in it (``!unsafe``, or what a template gave).
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

    @property
    def where(self) -> str:
        """Return ``file:line``, or the file where there is no line."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Field(NamedTuple):
    """A mapping's value with the line and column of its key."""

    line: int
    column: int
    node: Node


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


def fail(code: str, message: str, file: str, line: int = 0, hint: str = "") -> NoReturn:
    """Raise a DeclarationError at ``file:line``."""
    step = hint or "correct it and run again; docs/inventory.md says what the files may hold"
    raise DeclarationError(code, message, where=f"{file}:{line}" if line else file, hint=step)


def read_text(path: Path, shown: str = "") -> str:
    """Return a file's text; ``shown`` is the name it has in errors (the path by default)."""
    file = shown or str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        fail("file-unreadable", f"the file cannot be read: {error.strerror or error}", file)
    if len(data) > MAX_BYTES:
        fail("file-too-large", f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB", file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fail("not-utf8", "the file is not UTF-8 text", file, line, "save it with the encoding UTF-8")


def read_yaml(path: Path, shown: str = "") -> Node:
    """Read one YAML document; an empty file has the value None."""
    return parse_yaml(read_text(path, shown), shown or str(path))


def parse_yaml(text: str, file: str) -> Node:
    """Parse one YAML document from a text; ``file`` is the name it has in marks and errors."""
    try:
        return _Builder(_Loader(text), text, file).build()
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
    at = lines[line][column : column + 1] if line < len(lines) else ""
    if at == "\t":
        fail("yaml-tab", "a tab is used for indentation", file, line + 1, "indent with spaces")
    message = f"not valid YAML: {error.problem or error.context} (column {column + 1})"
    fail("yaml-syntax", message, file, line + 1)


class _Builder:
    """One pass over the events of one document."""

    def __init__(self, loader: Any, text: str, file: str) -> None:
        self.loader = loader
        self.file = file
        self.text = text
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Node | None] = {}  # None while the anchored value is still open
        self.root: Node | None = None
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
        value = self.scalar_value(event)
        literal = event.tag == _UNSAFE
        node = Node(value, self.file, mark.line + 1, mark.column + 1, literal=literal)
        if event.anchor:
            self.anchors[event.anchor] = node
        self.add(node, event)

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
            shown = event.value if len(event.value) <= 40 else event.value[:40] + "…"  # noqa: PLR2004 - a line's worth
            self.fail(
                "yaml-value", f"'{shown}' is not a valid {kind}", event, "put it in quotes if it is text"
            )

    def unsupported_tag(self, tag: str, event: Any) -> NoReturn:
        shown = tag.replace(_TAG, "!!")
        if tag in ("!vault", "!vault-encrypted"):
            self.fail(
                "vault-unsupported",
                "an Ansible Vault value is not supported yet",
                event,
                "write the value in plain text for now",
            )
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
                "yaml-size", f"more than {MAX_VALUES} values once aliases are followed", self.file, frame.line
            )
        if frame.anchor:
            self.anchors[frame.anchor] = node
        self.add(node, event)

    def sequence(self, frame: _Frame) -> Node:
        items = tuple(frame.items)
        size = 1 + sum(item.size for item in items)
        return Node([i.value for i in items], self.file, frame.line, frame.column, {}, items, size)

    def mapping(self, frame: _Frame) -> Node:
        fields: dict[Any, Field] = {}
        for merged in reversed(frame.merges):
            fields.update(merged.fields)
        fields.update(frame.fields)
        size = 1 + sum(field.node.size for field in fields.values())
        plain = {key: field.node.value for key, field in fields.items()}
        return Node(plain, self.file, frame.line, frame.column, fields, (), size)

    def add(self, node: Node, event: Any) -> None:
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
            message = f"the key '{node.value}' is given twice, first at line {first.line}"
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


_CONSTRUCTORS: Mapping[str, str] = {
    _TAG + "null": "construct_yaml_null",
    _TAG + "bool": "construct_yaml_bool",
    _TAG + "int": "construct_yaml_int",
    _TAG + "float": "construct_yaml_float",
    _TAG + "timestamp": "construct_yaml_timestamp",
}
