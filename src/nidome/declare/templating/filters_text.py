"""Filters for texts: regular expressions, JSON, YAML, base64, hashes, words, paths and URLs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os.path
import re
import shlex
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import yaml

from nidome.declare.templating.filters_data import is_list, kind
from nidome.declare.templating.problems import FilterError

__all__ = [
    "as_text", "b64decode", "b64encode", "from_json", "from_yaml", "from_yaml_all", "get_hash", "is_url",
    "match", "path_join", "path_text", "quote", "regex", "regex_escape", "regex_findall", "regex_replace",
    "regex_search", "search", "split", "to_json", "to_nice_json", "to_nice_yaml", "to_uuid", "to_yaml",
    "url_split",
]  # fmt: skip


def as_text(value: Any) -> str:
    """Return a value as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _flags(*, ignorecase: bool, multiline: bool) -> int:
    return (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0)


def regex_replace(
    value: Any = "",
    pattern: str = "",
    replacement: str = "",
    ignorecase: bool = False,
    multiline: bool = False,
    count: int = 0,
    mandatory_count: int = 0,
) -> str:
    """Return the text with what a regular expression matches replaced."""
    compiled = re.compile(pattern, _flags(ignorecase=ignorecase, multiline=multiline))
    result, found = compiled.subn(replacement, as_text(value), count)
    if mandatory_count and found != mandatory_count:
        raise FilterError(f"regex_replace: '{pattern}' must match {mandatory_count} times, and does {found}")
    return result


def regex_search(
    value: Any, pattern: str, *groups: str, ignorecase: bool = False, multiline: bool = False
) -> Any:
    r"""Return what a regular expression matches first, or the groups (``'\1'``, ``'\g<name>'``), or None."""
    wanted: list[int | str] = []
    for group in groups:
        match = re.fullmatch(r"\\g<(\S+)>|\\(\d+)", group)
        if not match:
            raise FilterError(f"regex_search: '{group}' names no group", r"write '\1' or '\g<name>'")
        wanted.append(match[1] or int(match[2]))
    found = re.search(pattern, as_text(value), _flags(ignorecase=ignorecase, multiline=multiline))
    if not found:
        return None
    return [found.group(group) for group in wanted] if wanted else found.group()


def regex_findall(
    value: Any,
    pattern: str,
    multiline: bool = False,
    ignorecase: bool = False,
) -> list[Any]:
    """Return all that a regular expression matches."""
    return re.findall(pattern, as_text(value), _flags(ignorecase=ignorecase, multiline=multiline))


def regex_escape(value: Any, re_type: str = "python") -> str:
    """Return the text with what means something in a regular expression escaped."""
    if re_type == "python":
        return re.escape(as_text(value))
    if re_type == "posix_basic":
        return re.sub(r"([].[^$*\\])", r"\\\1", as_text(value))
    raise FilterError(f"regex_escape: '{re_type}' is not supported", "use python or posix_basic")


def _matches(value: Any, pattern: str, *, how: str, ignorecase: bool, multiline: bool) -> bool:
    compiled = re.compile(pattern, _flags(ignorecase=ignorecase, multiline=multiline))
    return bool(
        {"match": compiled.match, "search": compiled.search, "fullmatch": compiled.fullmatch}[how](
            as_text(value)
        )
    )


def match(value: Any, pattern: str = "", ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether a regular expression matches at the text's begin."""
    return _matches(value, pattern, how="match", ignorecase=ignorecase, multiline=multiline)


def search(value: Any, pattern: str = "", ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether a regular expression matches anywhere in the text."""
    return _matches(value, pattern, how="search", ignorecase=ignorecase, multiline=multiline)


def regex(
    value: Any,
    pattern: str = "",
    ignorecase: bool = False,
    multiline: bool = False,
    match_type: str = "search",
) -> bool:
    """Whether a regular expression matches; ``match_type`` is search, match or fullmatch."""
    if match_type not in ("search", "match", "fullmatch"):
        raise FilterError(f"regex: there is no match_type '{match_type}'", "use search, match or fullmatch")
    return _matches(value, pattern, how=match_type, ignorecase=ignorecase, multiline=multiline)


def _plain(value: Any) -> Any:
    """Return a value of plain Python types only: what JSON and YAML have words for."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if is_list(value):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return as_text(value)


# libyaml's, where it is there: it writes no "..." after a lone value.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def to_json(value: Any, **options: Any) -> str:
    """Return the value as JSON on one line."""
    return json.dumps(_plain(value), **options)


def to_nice_json(value: Any, indent: int = 4, sort_keys: bool = True, **options: Any) -> str:
    """Return the value as JSON on many lines, the keys sorted."""
    options["separators"] = (",", ": ")
    return json.dumps(_plain(value), indent=indent, sort_keys=sort_keys, **options)


def to_yaml(value: Any, default_flow_style: bool | None = None, **options: Any) -> str:
    """Return the value as YAML."""
    options = {"allow_unicode": True, "default_flow_style": default_flow_style, **options}
    return str(yaml.dump(_plain(value), Dumper=_DUMPER, **options))


def to_nice_yaml(value: Any, indent: int = 4, **options: Any) -> str:
    """Return the value as YAML with a line for each value."""
    options.pop("default_flow_style", None)
    return to_yaml(value, default_flow_style=False, indent=indent, **options)


def from_json(value: Any) -> Any:
    """Return the value that a JSON text stands for."""
    return json.loads(value)


def from_yaml(value: Any) -> Any:
    """Return the value that a YAML text stands for."""
    return yaml.safe_load(as_text(value)) if isinstance(value, str) else value


def from_yaml_all(value: Any) -> Any:
    """Return the values that the documents of a YAML text stand for."""
    return list(yaml.safe_load_all(as_text(value))) if isinstance(value, str) else value


def b64encode(value: Any, encoding: str = "utf-8") -> str:
    """Return the text in base64."""
    return base64.b64encode(as_text(value).encode(encoding)).decode("ascii")


def b64decode(value: Any, encoding: str = "utf-8") -> str:
    """Return the text that base64 stands for."""
    try:
        return base64.b64decode(as_text(value)).decode(encoding)
    except (binascii.Error, ValueError) as error:
        raise FilterError(f"b64decode: the value is not base64 of {encoding} text: {error}") from None


def get_hash(value: Any, hashtype: str = "sha1") -> str:
    """Return the hexadecimal hash of a text."""
    if hashtype not in hashlib.algorithms_available:
        raise FilterError(f"hash: there is no '{hashtype}'", "use sha256")
    return hashlib.new(hashtype, as_text(value).encode(), usedforsecurity=False).hexdigest()


def to_uuid(value: Any, namespace: str = "361E6D51-FAEC-444A-9079-341386DA8E2E") -> str:
    """Return the name-based UUID of a text; the namespace is Ansible's by default."""
    return str(uuid.uuid5(uuid.UUID(namespace), as_text(value)))


def quote(value: Any) -> str:
    """Return the text as one word of a shell command."""
    return shlex.quote("" if value is None else as_text(value))


def split(value: Any, separator: str | None = None, maxsplit: int = -1) -> list[str]:
    """Return the parts of a text between separators, between white space by default."""
    if not isinstance(value, str):
        raise FilterError(f"split: a text is needed, found {kind(value)}")
    return value.split(separator, maxsplit)


def path_text(value: Any) -> str:
    """Return a text that is a path or a URL; FilterError for another value."""
    if not isinstance(value, str):
        raise FilterError(f"a path or a URL is needed, found {kind(value)}")
    return value


def path_join(paths: Any) -> str:
    """Return the parts of a path joined; an absolute part drops what is before it."""
    if not isinstance(paths, str) and not is_list(paths):
        raise FilterError(f"path_join: a list of texts is needed, found {kind(paths)}")
    return os.path.join(paths) if isinstance(paths, str) else os.path.join(*paths)


def url_split(value: Any, query: str = "") -> Any:
    """Return the parts of a URL as a mapping, or the one that is asked for."""
    names = ("fragment", "hostname", "netloc", "password", "path", "port", "query", "scheme", "username")
    parts = urlsplit(path_text(value))
    found = {name: getattr(parts, name) for name in names}
    if query and query not in found:
        raise FilterError(f"urlsplit: a URL has no '{query}'", f"use one of {', '.join(names)}")
    return found[query] if query else found


def is_url(value: Any) -> bool:
    """Whether a text is a URL with a scheme and a host."""
    parts = urlsplit(as_text(value))
    return bool(parts.scheme and (parts.netloc or parts.scheme == "file"))
