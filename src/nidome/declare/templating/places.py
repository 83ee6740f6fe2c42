"""Find the line of a file in which a template's problem stands.

A template's own lines are counted from its first. Where YAML keeps the lines of a value (``|``), the file's
line follows from that; where it folds them (``>``, quotes), the word that is wrong is looked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nidome.declare.yamlmarks import Node

__all__ = ["place"]

_LITERAL = re.compile(r"\|[-+0-9]*\s*(#.*)?$")


def place(node: Node, line: int, word: str) -> str:
    """Return ``file:line`` of a problem in a template, the value's own where nothing more is known."""
    found = _line(node, line, word) if node.line else 0
    return node._replace(line=found or node.line).where


def _line(node: Node, line: int, word: str) -> int:
    lines = _lines(node.file)
    if not lines or node.line > len(lines):
        return 0
    head = lines[node.line - 1]
    if _LITERAL.search(head):
        return min(node.line + max(line, 1), len(lines))
    return _find(lines, node, word, head) if word else 0


def _find(lines: list[str], node: Node, word: str, head: str) -> int:
    """Return the first line of the value with that word in it, 0 where there is none."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    if pattern.search(head[max(node.column - 1, 0) :]):
        return node.line
    indent = len(head) - len(head.lstrip())
    for number, text in enumerate(lines[node.line :], node.line + 1):
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            return 0
        if pattern.search(text):
            return number
    return 0


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):
        return []
