#!/usr/bin/env python3
"""Writes docs/errors.md from the source: every error code with its message, next step and place.

Usage: error_codes.py [--check]. With --check nothing is written; the exit status is 1 where the page is not
what the source says. A code that is not written out where an error is made must be listed in _INDIRECT.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = _ROOT / "docs" / "errors.md"
_SOURCE = _ROOT / "src" / "nidome"
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_FAMILIES = {
    "UsageError": "The command line",
    "DeclarationError": "The declaration (more in [inventory.md](inventory.md))",
    "_fail": "The declaration (more in [inventory.md](inventory.md))",
    "fail": "The declaration (more in [inventory.md](inventory.md))",
    "Problem": "The declaration (more in [inventory.md](inventory.md))",
    "ArtifactError": "Artifacts",
    "MachineError": "Disposable hosts",
    "PreflightError": "Before a host is changed",
    "TransportError": "Reaching a host",
    "ResourceError": "On a host",
    "StateError": "Locks, records and plans",
    "DeclarationWarning": "Warnings",
    "Diagnostic": "Warnings",
}
_HINT_AT = {"_fail": 3, "fail": 4}
"""Which argument is the next step: code, message, origin, hint; and code, message, file, line, hint."""
_SAID = "(told with it)"
_NOTHING = "-"
_ORDER = tuple(dict.fromkeys(_FAMILIES.values()))


@dataclass(frozen=True)
class Entry:
    """One place where an error with this code is made."""

    family: str
    code: str
    message: str
    hint: str
    module: str


def _indirect() -> list[Entry]:
    """Return the codes that the source makes from tables, read from those tables."""
    sys.path.insert(0, str(_SOURCE.parent))
    from nidome.engine.transport import _REFUSALS  # noqa: PLC0415 - only after the path is known
    from nidome.roles.preflight import CHECKS  # noqa: PLC0415 - as above

    before, transport = _FAMILIES["PreflightError"], "engine.transport"
    checks = [
        Entry(
            before,
            f"preflight-{c.name}",
            f"not so: {c.meaning}",
            "what to do is said with it",
            "roles.preflight",
        )
        for c in CHECKS
    ]
    refusals = [Entry(before, code, message, hint, transport) for code, message, hint in _REFUSALS.values()]
    return [*checks, *refusals]


def _text(node: ast.expr | None, tree: ast.AST | None = None) -> str:
    """Return a message as people read it: what is put in stands as braces, a name as what it is."""
    if isinstance(node, ast.Name) and tree is not None:
        given = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign)
            and n.lineno < node.lineno
            and any(getattr(t, "id", "") == node.id for t in n.targets)
        ]
        return _text(max(given, key=lambda n: n.lineno).value) if given else "{…}"
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else "{…}" for v in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    return "{…}" if node is not None else ""


def _codes(node: ast.expr, scope: ast.AST) -> list[str]:
    """Return the codes that an argument can be: written out, chosen between two, or assigned nearby."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if _CODE.fullmatch(node.value) else []
    if isinstance(node, ast.IfExp):
        return [*_codes(node.body, scope), *_codes(node.orelse, scope)]
    if isinstance(node, ast.Name):
        return [
            code
            for found in ast.walk(scope)
            if isinstance(found, ast.Assign) and any(getattr(t, "id", "") == node.id for t in found.targets)
            for code in _codes(found.value, scope)
        ]
    return []


def _function(call: ast.Call, tree: ast.Module) -> ast.AST:
    """Return the innermost function that a call is in."""
    around = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and n.lineno <= call.lineno <= (n.end_lineno or 0)
    ]
    return max(around, key=lambda n: n.lineno) if around else tree


def _entries(path: Path) -> list[Entry]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = str(path.relative_to(_SOURCE).with_suffix("")).replace("/", ".")
    found = []
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name not in _FAMILIES or not call.args:
            continue
        arguments = call.args[1:] if name == "Diagnostic" else call.args
        hint = next((k.value for k in call.keywords if k.arg == "hint"), None)
        place = _HINT_AT.get(name)
        if hint is None and place is not None and len(arguments) > place:
            hint = arguments[place]
        message = arguments[1] if len(arguments) > 1 else None
        around = _function(call, tree)
        step = _text(hint, around)
        step = _text(hint, tree) if step == "{…}" else step
        found += [
            Entry(_FAMILIES[name], code, _text(message, around), step, module)
            for code in (_codes(arguments[0], around) if arguments else [])
        ]
    return found


def _cell(texts: list[str], nothing: str) -> str:
    shown = [" ".join(t.split()).replace("|", "\\|") for t in dict.fromkeys(texts) if t.strip("{…} ")]
    return "<br>".join(shown) or (_SAID if any(texts) else nothing)


def render() -> str:
    """Return the page."""
    entries = [e for p in sorted(_SOURCE.rglob("*.py")) for e in _entries(p)] + _indirect()
    lines = [
        "# Error codes",
        "",
        "Each error says what is wrong, where, and what to do next, under a code that does not change",
        "between releases. `{…}` stands for a name or a value. This page is written by",
        "`scripts/error_codes.py` from the source, and a test holds it to that.",
    ]
    for family in _ORDER:
        mine = [e for e in entries if e.family == family]
        if not mine:
            continue
        lines += [
            "",
            f"## {family}",
            "",
            "| code | what it says | next step | made in |",
            "| --- | --- | --- | --- |",
        ]
        for code in sorted({e.code for e in mine}):
            same = [e for e in mine if e.code == code]
            cells = (_cell([e.message for e in same], _SAID), _cell([e.hint for e in same], _NOTHING))
            modules = ", ".join(sorted({f"`{e.module}`" for e in same}))
            lines.append(f"| `{code}` | {cells[0]} | {cells[1]} | {modules} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the page."""
    text = render()
    if "--check" in sys.argv[1:]:
        same = _PAGE.exists() and _PAGE.read_text(encoding="utf-8") == text
        print(
            "docs/errors.md is up to date"
            if same
            else "docs/errors.md is out of date: scripts/error_codes.py"
        )
        return 0 if same else 1
    _PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
