"""The lookups that a template may ask: of the control machine's environment and files, and of variables.

A lookup gives a list of answers: ``query`` and ``q`` return it, ``lookup`` joins texts with commas. Relative
paths are looked for beside the inventory. Lookups that change something or differ at each run are left out.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import pass_context
from jinja2.utils import missing

from nidome.declare.files import read_bytes
from nidome.declare.templating.problems import FilterError, nearest
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2.runtime import Context

__all__ = ["ABSENT", "GLOBALS", "LOOKUPS"]

_MAX_FILE = 1024 * 1024
_PIPE_SECONDS = 60
ABSENT: Mapping[str, str] = {
    "password": "it would write a file while a declaration is read",
    "random_choice": "its result differs at each run",
    "template": "a template file is not part of a declaration",
    "url": "a declaration does not depend on the network",
}
"""Lookups of Ansible's that are left out on purpose, and why."""


def _environment(_scope: Any, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    default = options.pop("default", "")
    return [os.environ.get(str(term), default) for term in terms]


def _file(scope: Any, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    left, right = options.pop("lstrip", False), options.pop("rstrip", True)
    texts = [_read(_path(scope, term)) for term in terms]
    texts = [text.lstrip() if left else text for text in texts]
    return [text.rstrip() if right else text for text in texts]


def _path(scope: Any, term: Any) -> Path:
    return Path(scope.directory, os.path.expanduser(str(term)))  # noqa: PTH111 - a text that may hold any character


def _read(path: Path) -> str:
    try:
        data = read_bytes(path, limit=_MAX_FILE)
    except DeclarationError as error:
        hint = "a relative path is looked for beside the inventory"
        raise FilterError(f"the file {path}: {error.message}", hint) from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FilterError(f"the file {path} is not UTF-8 text", "save it with the encoding UTF-8") from None


def _first_found(scope: Any, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    skip = options.pop("skip", False)
    names = _words(options.pop("files", []))
    folders = _words(options.pop("paths", [])) or [""]
    for term in _flat(terms):
        if isinstance(term, dict):
            skip = term.get("skip", skip)
            names += [
                str(Path(p, f)) for p in _words(term.get("paths", [])) or [""] for f in _words(term["files"])
            ]
        else:
            names.append(str(term))
    for name in (str(Path(folder, name)) for name in names for folder in folders):
        if _path(scope, name).exists():
            return [str(_path(scope, name))]
    if skip:
        return []
    raise FilterError(f"none of the files exists: {', '.join(names)}", "give skip=true, or add one of them")


def _words(value: Any) -> list[str]:
    return value.replace(";", ",").split(",") if isinstance(value, str) else list(value)


def _flat(terms: list[Any]) -> list[Any]:
    return [item for term in terms for item in (term if isinstance(term, list) else [term])]


def _pipe(scope: Any, terms: list[Any], _options: dict[str, Any]) -> list[Any]:
    if not scope.allow_pipe:
        hint = "give --allow-pipe-lookup if you trust this inventory to run commands on this machine"
        raise FilterError("the lookup pipe runs a command on this machine, which is not allowed", hint)
    return [_run(str(term), scope.directory) for term in terms]


def _run(command: str, folder: str) -> str:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=folder, capture_output=True, timeout=_PIPE_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise FilterError(f"the command '{command:.60}' cannot be run: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise FilterError(
            f"the command '{command:.60}' ended with {done.returncode}: {said[-1] if said else 'no word'}"
        )
    return done.stdout.decode(errors="replace").rstrip()


def _variables(scope: Any, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    found = []
    for term in terms:
        value = scope.find(str(term))
        if value is missing:
            if "default" not in options:
                hint = nearest(str(term), scope.names()) or "give default=…"
                raise FilterError(f"nobody has set the variable {term}", hint)
            value = options["default"]
        found.append(value)
    options.pop("default", None)
    return found


def _dict(_scope: Any, terms: list[Any], _options: dict[str, Any]) -> list[Any]:
    return [{"key": key, "value": value} for term in terms for key, value in term.items()]


def _sequence(_scope: Any, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    given = {name: options.pop(name) for name in _SEQUENCE if name in options}
    return [number for term in terms for number in _numbers(given, str(term))]


_SEQUENCE = ("start", "end", "count", "stride", "format")


def _numbers(given: Mapping[str, Any], term: str) -> list[str]:
    words = {**given, **dict(pair.partition("=")[::2] for pair in term.split())}
    unknown = sorted(words.keys() - set(_SEQUENCE))
    if unknown:
        raise FilterError(f"the lookup sequence has no option {', '.join(unknown)}")
    start, stride = int(words.get("start", 1)), int(words.get("stride", 1))
    end = start + (int(words["count"]) - 1) * stride if "count" in words else int(words.get("end", 0))
    numbers = range(start, end + (1 if stride > 0 else -1), stride)
    if len(numbers) > _MOST:
        raise FilterError(f"the sequence has more than {_MOST} numbers")
    return [str(words.get("format", "%d")) % number for number in numbers]


_MOST = 10_000

LOOKUPS: Mapping[str, Callable[[Any, list[Any], dict[str, Any]], list[Any]]] = {
    "dict": _dict,
    "env": _environment,
    "file": _file,
    "first_found": _first_found,
    "indexed_items": lambda _, terms, __: [list(pair) for pair in enumerate(_flat(terms))],
    "items": lambda _, terms, __: _flat(terms),
    "list": lambda _, terms, __: list(terms),
    "nested": lambda _, terms, __: [list(row) for row in itertools.product(*terms)],
    "pipe": _pipe,
    "sequence": _sequence,
    "together": lambda _, terms, __: [list(row) for row in itertools.zip_longest(*terms)],
    "vars": _variables,
}


def _answers(scope: Any, name: Any, terms: tuple[Any, ...], options: dict[str, Any]) -> list[Any] | None:
    """Return a lookup's answers, None where it failed and errors are to be ignored."""
    short = str(name).removeprefix("ansible.builtin.")
    if short not in LOOKUPS:
        reason = f": {ABSENT[short]}" if short in ABSENT else ""
        hint = (
            "write the value itself"
            if reason
            else nearest(short, list(LOOKUPS)) or "docs/inventory.md lists them"
        )
        raise FilterError(f"the lookup {name} does not exist here{reason}", hint)
    errors = options.pop("errors", "strict")
    try:
        found = LOOKUPS[short](scope, list(terms), options)
    except FilterError:
        if errors in ("ignore", "warn") and short != "pipe":
            return None
        raise
    if options:
        raise FilterError(f"the lookup {name} has no option {', '.join(sorted(options))}")
    return found


@pass_context
def query(context: Context, name: Any, *terms: Any, **options: Any) -> list[Any]:
    """Return a lookup's answers as a list."""
    options.pop("wantlist", None)
    return _answers(context.parent, name, terms, options) or []


@pass_context
def lookup(context: Context, name: Any, *terms: Any, **options: Any) -> Any:
    """Return a lookup's answer: texts joined with commas, one value as it is, many as a list."""
    want_list = options.pop("wantlist", False)
    found = _answers(context.parent, name, terms, options)
    if want_list or not found:
        return [] if found is None and want_list else found
    if all(isinstance(item, str) for item in found):
        return ",".join(found)
    return found[0] if len(found) == 1 else found


GLOBALS: Mapping[str, Callable[..., Any]] = {"lookup": lookup, "q": query, "query": query}
