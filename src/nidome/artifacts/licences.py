"""The licence texts of everything that was linked into a binary, read from Go's module cache."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["gather"]

_TEXT_NAME = re.compile(r"(licen[cs]e|copying|notice|patents)([-._].*)?", re.IGNORECASE)
_CODE = {".go", ".py", ".sh", ".tmpl"}
_UPPER = re.compile(r"[A-Z]")
_MODULE_FIELDS = 3


def gather(
    directory: Path, names: Iterable[str], environment: Mapping[str, str], libraries: Iterable[str]
) -> bytes:
    """Return one text with the licences of every module linked into the binaries, and of Go itself.

    ``libraries`` are C libraries that were linked in; Debian keeps the terms of its packages beside them.
    """
    places = _go_environment(environment)
    modules = {module for name in names for module in _modules(directory / name, environment)}
    texts: dict[str, list[str]] = {}
    for text in _texts(Path(places["GOROOT"]), ("LICENSE", "PATENTS")):
        texts.setdefault(text, []).append(f"Go {places['GOVERSION'].removeprefix('go')}")
    for library in libraries:
        for text in _texts(Path("/usr/share/doc", library), ("copyright",)):
            texts.setdefault(text, []).append(library)
    for path, version in sorted(modules):
        root = Path(places["GOMODCACHE"]) / f"{_escape(path)}@{_escape(version)}"
        for text in _texts(root):
            texts.setdefault(text, []).append(f"{path} {version}")
    return "\n\n".join(_section(owners, text) for text, owners in texts.items()).encode()


def _section(owners: list[str], text: str) -> str:
    rule = "=" * 78
    return "\n".join((rule, *dict.fromkeys(owners), rule, "", text))


def _go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    command = ["go", "env", "-json", "GOROOT", "GOMODCACHE", "GOVERSION"]
    result = subprocess.run(command, capture_output=True, check=True, env=dict(environment))
    values: dict[str, str] = json.loads(result.stdout)
    return values


def _modules(binary: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Read the module list that Go puts into each binary; a replaced module counts as its replacement."""
    command = ["go", "version", "-m", str(binary)]
    result = subprocess.run(command, capture_output=True, check=True, env=dict(environment), text=True)
    found: list[tuple[str, str]] = []
    for line in result.stdout.splitlines():
        kind, *fields = line.strip().split("\t")
        if kind == "=>" and found:
            found.pop()
        if kind in {"dep", "=>"} and len(fields) >= _MODULE_FIELDS - 1:
            found.append((fields[0], fields[1]))
    return iter(found)


def _escape(path: str) -> str:
    """Write a module path as the module cache does: a capital letter is ``!`` and the small one."""
    return _UPPER.sub(lambda match: f"!{match[0].lower()}", path)


def _texts(root: Path, names: Iterable[str] = ()) -> Iterator[str]:
    if not root.is_dir():
        return
    for path in sorted(root.iterdir()):
        wanted = path.name in names if names else _TEXT_NAME.fullmatch(path.name)
        if wanted and path.is_file() and path.suffix not in _CODE:
            yield path.read_text(errors="replace").strip()
