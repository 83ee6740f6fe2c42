"""Kinds of one subject each: versions, addresses, quantities, thresholds, certificates, lists of records.

Made of the general ones in :mod:`nidome.declare.kinds`, under the same contract.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from nidome.declare.kinds import Kind, choice, scalar, text_of, wrong
from nidome.declare.yamlmarks import Node, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CERTIFICATES",
    "LISTENER",
    "QUANTITY",
    "REQUIRED",
    "SIGNALS",
    "THRESHOLDS",
    "Part",
    "one_or_more",
    "records",
    "url",
    "version",
]

_MOST_PORTS = 65535
_QUANTITY = r"[0-9]{1,18}(\.[0-9]{1,9})?(m|k|[MGTPE]|[KMGTPE]i)?"
_PERCENT = r"(100|[0-9]{1,2}(\.[0-9]{1,6})?)%"
_PEM = "-----BEGIN CERTIFICATE-----"

SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "allocatableMemory.available",
    "pid.available",
)
"""What the kubelet can evict pods at; its own table, see tests/hosts/test_versions.py."""


def version(*supported: str) -> Kind:
    """Return the kind of a few releases, with or without a leading v, as kubespray takes both."""
    plain = choice(*supported)

    def read(node: Node, name: str) -> str:
        value = node.value
        if isinstance(value, str) and value.startswith("v"):
            node = Node(value[1:], node.file, node.line)
        found: str = plain.read(node, name)
        return found

    return Kind("version", plain.expected, read)


def url(*schemes: str) -> Kind:
    """Return the kind of the addresses with one of these schemes, and of the empty text."""
    expected = f"an address such as {schemes[0]}://host.example:8443, or ''"
    pattern = rf"(?:{'|'.join(schemes)})://[^\s/\"'\\]+(?:/[^\s\"'\\]*)?|"

    def read(node: Node, name: str) -> str:
        value = text_of(node, name, expected)
        if not re.fullmatch(pattern, value):
            # What was written may hold a password: it is not repeated.
            fail("variable-type", f"{name}: expected {expected}", node.file, node.line)
        return value

    return Kind("url", expected, read)


def _read_listener(node: Node, name: str) -> str:
    value = text_of(node, name, LISTENER.expected)
    match = re.fullmatch(r"([A-Za-z0-9.-]+):([0-9]{1,5})", value)
    if value and (match is None or not 0 < int(match[2]) <= _MOST_PORTS):
        wrong(node, name, LISTENER.expected)
    return value


LISTENER = Kind("address", "an address with a port such as 127.0.0.1:1338, or ''", _read_listener)


def _read_quantity(node: Node, name: str) -> str:
    return scalar(node, name, _QUANTITY, QUANTITY.expected)


QUANTITY = Kind("quantity", "a quantity such as 100m or 256Mi", _read_quantity)


def _read_thresholds(node: Node, name: str) -> dict[str, str]:
    if not isinstance(node.value, dict):
        wrong(node, name, THRESHOLDS.expected)
    found = {}
    for key, field in node.fields.items():
        if key not in SIGNALS:
            message = f"{name}: '{key}' is no eviction signal"
            fail("variable-choice", message, node.file, field.line, f"signals: {', '.join(SIGNALS)}")
        expected = "a quantity such as 100Mi or a share such as 10%"
        found[key] = scalar(field.node, f"{name}.{key}", f"{_QUANTITY}|{_PERCENT}", expected)
    return found


THRESHOLDS = Kind("thresholds", "a mapping of eviction signals to quantities or shares", _read_thresholds)


def _read_certificates(node: Node, name: str) -> str:
    value = "".join(text_of(node, name, CERTIFICATES.expected).split())
    try:
        decoded = base64.b64decode(value, validate=True).decode("ascii") if value else _PEM
    except (binascii.Error, UnicodeDecodeError):
        decoded = ""
    if _PEM not in decoded:
        wrong(node, name, CERTIFICATES.expected, "base64 -w0 FILE makes it of a file")
    return value


CERTIFICATES = Kind("certificates", "certificates in PEM, encoded with base64, or ''", _read_certificates)


def one_or_more(kind: Kind) -> Kind:
    """Return the kind of a value, or of a list of them; read as several."""

    def read(node: Node, name: str) -> tuple[Any, ...]:
        nodes = node.items if isinstance(node.value, list) else (node,)
        return tuple(kind.read(item, name) for item in nodes)

    return Kind(f"list[{kind.name}]", f"{kind.expected}, or a list of them", read)


REQUIRED = object()
"""The default of a part that must be written."""


class Part(NamedTuple):
    """A named part of a record; a ``secret`` one is never repeated in an error."""

    kind: Kind
    default: Any = REQUIRED
    secret: bool = False


def records(plural: str, parts: Mapping[str, Part]) -> Kind:
    """Return the kind of a list of mappings that have these parts and no others."""
    expected = f"a list of {plural}, each with {', '.join(parts)}"

    def read(node: Node, name: str) -> tuple[dict[str, Any], ...]:
        if not isinstance(node.value, list):
            wrong(node, name, expected)
        return tuple(_record(item, f"{name}[{number}]", parts) for number, item in enumerate(node.items))

    return Kind("list[dict]", expected, read)


def _record(node: Node, name: str, parts: Mapping[str, Part]) -> dict[str, Any]:
    keys = f"a mapping of {', '.join(parts)}"
    if not isinstance(node.value, dict):
        wrong(node, name, keys)
    for key, field in node.fields.items():
        if key not in parts:
            message = f"{name}: '{str(key)[:60]}' is not supported, supported: {', '.join(parts)}"
            fail("variable-choice", message, node.file, field.line, f"remove {str(key)[:60]}")
    return {key: _part(node, f"{name}.{key}", key, part) for key, part in parts.items()}


def _part(node: Node, name: str, key: str, part: Part) -> Any:
    if key in node.fields:
        written = node.fields[key].node
        if part.secret and not (isinstance(written.value, str) and written.value.isprintable()):
            message = f"{name}: expected one line of text"
            fail("variable-type", message, written.file, written.line, "put it in quotes")
        return part.kind.read(written, name)
    if part.default is REQUIRED:
        fail("variable-type", f"{name} is missing", node.file, node.line, f"write {part.kind.expected}")
    return part.default
