"""The types a variable can have: what is expected, in words, and the reading of a written value.

A kind's ``read`` returns plain values: bool, int, str, tuple of str, mapping of str to str. It raises
DeclarationError with the place of the innermost value that is wrong. Patterns are compiled at their first
use: most runs use few of them.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from nidome.declare.yamlmarks import Node, fail, parse_yaml
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BOOL",
    "CIDR",
    "IP",
    "PATH",
    "Kind",
    "choice",
    "found",
    "integer",
    "list_of",
    "map_of",
    "scalar",
    "secret_texts",
    "text",
    "text_of",
    "text_or_empty",
    "typed",
    "wrong",
]

_TRUE = {"true", "yes", "on", "1", "y", "t"}
_FALSE = {"false", "no", "off", "0", "n", "f"}
_INTEGER = r"[-+]?[0-9]{1,18}"
_PATH = r"(/[A-Za-z0-9_+@][A-Za-z0-9._+@-]*|/\.[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+"
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_SHOWN = 60


class Kind(NamedTuple):
    """A type: its name in the reference, what it expects, and how a written value becomes a typed one.

    ``choices`` are all its values, where they are few words.
    """

    name: str
    expected: str
    read: Callable[[Node, str], Any]
    choices: tuple[str, ...] = ()


def found(node: Node) -> str:
    """Return a short description of a written value, for an error."""
    value = node.value
    if node.secret or value is None:
        return "an encrypted value that is something else" if node.secret else "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {str(value)[:_SHOWN]}"
    if not isinstance(value, str):
        return f"the date {value}"
    shown = re.sub(_CONTROL, "?", value)
    return f"the text '{shown[:_SHOWN]}…'" if len(shown) > _SHOWN else f"the text '{shown}'"


def wrong(node: Node, name: str, expected: str, hint: str = "") -> NoReturn:
    """Raise the error of a value that is not what a variable takes."""
    if node.value is None and not hint:
        hint = "remove the line to have the default"
    step = hint or f"docs/variables.md describes {name}"
    fail("variable-type", f"{name}: expected {expected}, found {found(node)}", node.file, node.line, step)


def _read_bool(node: Node, name: str) -> bool:
    if isinstance(node.value, bool):
        return node.value
    if node.untyped and node.value.lower() in _TRUE | _FALSE:
        return node.value.lower() in _TRUE
    wrong(node, name, BOOL.expected)


BOOL = Kind("bool", "true or false", _read_bool)


def integer(low: int, high: int) -> Kind:
    """Return the kind of the whole numbers from low to high."""
    expected = f"a whole number from {low} to {high}"

    def read(node: Node, name: str) -> int:
        value = node.value
        if node.untyped and re.fullmatch(_INTEGER, value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong(node, name, expected)
        return value

    return Kind("int", expected, read)


def text_of(node: Node, name: str, expected: str) -> str:
    """Return a value that is one line of text."""
    if isinstance(node.value, str) and not re.search(_CONTROL, node.value):
        return node.value
    quote = "put it in quotes" if isinstance(node.value, int | float) else ""
    wrong(node, name, expected, quote)


def text(expected: str, pattern: str, name: str = "str") -> Kind:
    """Return the kind of the texts that a pattern matches in full."""

    def read(node: Node, variable: str) -> str:
        value = text_of(node, variable, expected)
        if not re.fullmatch(pattern, value):
            wrong(node, variable, expected)
        return value

    return Kind(name, expected, read)


def text_or_empty(expected: str, pattern: str) -> Kind:
    """Return the kind of the empty text and of those that a pattern matches."""
    return text(f"{expected}, or ''", f"(?:{pattern})?")


def choice(*supported: str) -> Kind:
    """Return the kind of a few words; another word is an unsupported choice."""
    words = ", ".join(supported)
    expected = f"one of {words}" if len(supported) > 1 else words

    def read(node: Node, name: str) -> str:
        value = text_of(node, name, expected)
        if value not in supported:
            shown = "what is encrypted there" if node.secret else f"'{value[:_SHOWN]}'"
            message = f"{name}: {shown} is not supported, supported: {words}"
            fail(
                "variable-choice",
                message,
                node.file,
                node.line,
                f"set {name} to {supported[0]}, or remove it",
            )
        return value

    return Kind("choice", expected, read, supported)


def _read_cidr(node: Node, name: str) -> str:
    value = text_of(node, name, CIDR.expected)
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        wrong(node, name, CIDR.expected)
    if "/" not in value or value.split("/")[0] != str(network.network_address):
        wrong(node, name, CIDR.expected, f"write {network}")
    return str(network)


CIDR = Kind("cidr", "an IPv4 network such as 10.233.0.0/18", _read_cidr)


def _read_ip(node: Node, name: str) -> str:
    try:
        return str(IPv4Address(text_of(node, name, IP.expected)))
    except ValueError:
        wrong(node, name, IP.expected)


IP = Kind("ip", "an IPv4 address", _read_ip)


def _read_path(node: Node, name: str) -> str:
    value = text_of(node, name, PATH.expected)
    if value != "/" and value.endswith("/"):
        value = value[:-1]
    if not re.fullmatch(_PATH, value) or "/../" in f"{value}/":
        wrong(node, name, PATH.expected)
    return value


PATH = Kind("path", "an absolute path without spaces", _read_path)


def list_of(kind: Kind, plural: str) -> Kind:
    """Return the kind of a list whose items have one kind."""
    expected = f"a list of {plural}"

    def read(node: Node, name: str) -> tuple[Any, ...]:
        if not isinstance(node.value, list):
            wrong(node, name, expected)
        return tuple(kind.read(item, f"{name}[{number}]") for number, item in enumerate(node.items))

    return Kind(f"list[{kind.name}]", expected, read)


def map_of(keys: str, values: str, expected: str) -> Kind:
    """Return the kind of a mapping from text to text; numbers, true and false are taken as text."""

    def read(node: Node, name: str) -> dict[str, str]:
        if not isinstance(node.value, dict):
            wrong(node, name, expected)
        result = {}
        for key, field in node.fields.items():
            if not isinstance(key, str) or not re.fullmatch(keys, key):
                wrong(Node(key, node.file, field.line), f"a key of {name}", expected)
            result[key] = scalar(field.node, f"{name}.{key}", values)
        return result

    return Kind("dict[str, str]", expected, read)


def typed(kind: Kind, node: Node, name: str) -> Any:
    """Return a written value as its kind has it; DeclarationError with the place of what is wrong in it.

    Where only a text can be written (``-e``, a vault) and the kind takes none, the text is read as YAML.
    """
    if not node.untyped or node.value[:1] not in ("[", "{"):
        return kind.read(node, name)
    try:
        return kind.read(node, name)
    except DeclarationError:
        try:
            inner = parse_yaml(node.value, node.file, secret=node.secret)
        except DeclarationError:
            inner = None
        if inner is None:
            raise
    return kind.read(_moved(inner, node.line), name)


def secret_texts(node: Node) -> tuple[str, ...]:
    """Return the texts in a value that were encrypted."""
    if not node.secret:
        return ()
    if isinstance(node.value, dict | list):
        inner = (*node.items, *(field.node for field in node.fields.values()))
        return tuple(text for part in inner for text in secret_texts(part))
    return (str(node.value),)


def _moved(node: Node, line: int) -> Node:
    """Return the node and what is in it as written at one line: where the text stands that holds it."""
    fields = {k: f._replace(line=line, node=_moved(f.node, line)) for k, f in node.fields.items()}
    return node._replace(line=line, fields=fields, items=tuple(_moved(item, line) for item in node.items))


def scalar(node: Node, name: str, pattern: str, expected: str = "a short text or number") -> str:
    """Return a text, a number or a truth as text, where a pattern matches it in full."""
    value = node.value
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or re.search(_CONTROL, value) or not re.fullmatch(pattern, value):
        wrong(node, name, expected)
    return value
