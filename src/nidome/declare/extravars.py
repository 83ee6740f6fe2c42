"""``-e``: variables on the command line, in the three forms that Ansible has.

``NAME=VALUE …`` are texts, which the variable's own type reads; ``{…}`` is a YAML or JSON mapping; ``@FILE``
is a file of variables. Of two that set a variable the later one wins. A value may be a password: errors name
its place, and :func:`masked` gives what may be recorded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nidome.declare.groups import Entry
from nidome.declare.vault import NO_VAULT
from nidome.declare.yamlmarks import Node, parse_yaml, read_yaml
from nidome.errors import UsageError
from nidome.provenance import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.declare.vault import Vault

__all__ = ["LAYER", "masked", "read_extra_vars", "without_values"]

LAYER = "command line"
_PLACE = "-e"
_EXAMPLE = "for example: -e kube_log_level=4, -e '{\"kube_log_level\": 4}' or -e @FILE"
_OPENING, _CLOSING = "[{", "]}"
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\'\"abfnrtv]))")
_SINGLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LARGEST = 0x10FFFF
_MASK = "***"
# -e, after flags in the same word or not, or --extra-vars and what it can be shortened to; then the value.
_OPTION = re.compile(r"(-[bvhCDJkKy]*e=?|--e[a-z-]*=?)(.*)", re.DOTALL)


def read_extra_vars(values: Sequence[str], vault: Vault = NO_VAULT) -> dict[str, Entry]:
    """Return the variables that the values of ``-e`` set, in order; UsageError or DeclarationError."""
    found: dict[str, Entry] = {}
    for value in values:
        found.update(_read(value.strip(), vault))
    return found


def masked(value: str) -> str:
    """Return a value of ``-e`` with names but without values, for records and logs."""
    text = value.strip()
    if text.startswith("@"):
        return text
    if text[:1] in ("{", "["):
        return _MASK
    # A word without a name goes on with the value before it, for all that one can tell.
    names = [name for name, equals, _ in map(_parted, _words(text)[0]) if equals]
    return " ".join(f"{name}={_MASK}" for name in names) or _MASK


def without_values(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with every value of ``-e`` masked, however the option is written."""
    shown: list[str] = []
    follows = False
    for word in command:
        match = None if follows else _OPTION.fullmatch(word)
        option, value = (match[1], match[2]) if match and _is_ours(match[1]) else ("", "")
        shown.append(masked(word) if follows else f"{option}{masked(value)}" if option and value else word)
        follows = bool(option) and not value
    return tuple(shown)


def _is_ours(option: str) -> bool:
    return not option.startswith("--") or "--extra-vars".startswith(option.removesuffix("="))


def _parted(word: str) -> tuple[str, str, str]:
    return word.partition("=")


def _read(value: str, vault: Vault) -> Iterator[tuple[str, Entry]]:
    if value.startswith("@"):
        yield from _of_file(value[1:], vault)
    elif value[:1] in ("{", "["):
        yield from _of_mapping(parse_yaml(value, _PLACE, vault=vault))
    elif value[:1] in ("/", "."):
        _refuse("a file of variables is named with @", f"-e @{value}")
    else:
        yield from _of_pairs(value)


def _of_file(name: str, vault: Vault) -> Iterator[tuple[str, Entry]]:
    if not name:
        _refuse("@ is not followed by a file's name", _EXAMPLE)
    root = read_yaml(Path(name).expanduser(), name, vault=vault, pipes=True)
    yield from _of_mapping(root)


def _of_mapping(root: Node) -> Iterator[tuple[str, Entry]]:
    if root.value is None:
        return
    if not isinstance(root.value, dict) or not all(isinstance(key, str) for key in root.value):
        where = _PLACE if root.file == _PLACE else root.where
        raise UsageError("extra-vars", "it is not a mapping of names to values", where=where, hint=_EXAMPLE)
    for name, field in root.fields.items():
        origin = Origin(LAYER) if root.file == _PLACE else Origin(LAYER, field.node.file, field.line)
        yield name, Entry(field.node, origin)


def _of_pairs(value: str) -> Iterator[tuple[str, Entry]]:
    if not value:
        _refuse("it is empty", _EXAMPLE)
    before = ""
    words, closed = _words(value)
    if not closed:
        _refuse("a quote or a bracket is not closed", 'close it; or give a mapping: -e \'{"NAME": "VALUE"}\'')
    for word in words:
        name, equals, text = _parted(word)
        name = name.strip()
        if not equals or not name:
            after = f"after {before}=… " if before else ""
            quoted = f"quote what belongs together: -e '{before}=\"…\"'" if before else _EXAMPLE
            _refuse(f"{after}a word is not NAME=VALUE", quoted)
        if text == _MASK:
            _refuse(f"{_MASK} stands for a value of {name} that is not shown", f"type the value: -e {name}=…")
        before = name
        yield name, Entry(Node(_unquoted(_escaped(text).strip()), LAYER, untyped=True), Origin(LAYER))


def _words(text: str) -> tuple[list[str], bool]:
    """Split at spaces outside of quotes, of ``{{ }}`` and of the brackets that a value begins with.

    The second part of what is returned says whether all of them are closed; the rest is one word if not.
    """
    words: list[str] = []
    start = depth = 0
    quote = previous = ""
    for at, char in enumerate(f"{text} "):
        if quote:
            quote = "" if char == quote and previous != "\\" else quote
        elif char in "'\"" and previous != "\\":
            quote = char
        elif char in _OPENING and (depth or previous == "=" or text[at : at + 2] in ("{{", "{%", "{#")):
            depth += 1
        elif char in _CLOSING and depth:
            depth -= 1
        elif char.isspace() and not depth:
            words.append(text[start:at])
            start = at + 1
        previous = "" if previous == char == "\\" else char
    closed = not quote and not depth
    words += [] if closed else [text[start:]]
    return [word for word in words if word], closed


def _escaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    if match[4]:
        return _SINGLE.get(match[4], match[4])
    code = int(match[1] or match[2] or match[3], 16)
    return chr(code) if code <= _LARGEST and not 0xD800 <= code <= 0xDFFF else match[0]  # noqa: PLR2004 - surrogates


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[-2] != "\\":
        return text[1:-1]
    return text


def _refuse(message: str, hint: str) -> NoReturn:
    raise UsageError("extra-vars", message, where=_PLACE, hint=hint)
