"""Comparison of versions, as the ``version`` test does it: loose by default, strict or semantic on demand."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from nidome.declare.templating.problems import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["compare"]

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "=": operator.eq, "eq": operator.eq,
    "!=": operator.ne, "<>": operator.ne, "ne": operator.ne,
    "<": operator.lt, "lt": operator.lt,
    "<=": operator.le, "le": operator.le,
    ">": operator.gt, "gt": operator.gt,
    ">=": operator.ge, "ge": operator.ge,
}  # fmt: skip
_STRICT = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:([ab])(\d+))?", re.ASCII)
_SEMANTIC = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


def compare(
    value: Any,
    version: Any,
    operator: str = "eq",
    strict: bool | None = None,
    version_type: str | None = None,
) -> bool:
    """Return whether a version stands in a relation to another."""
    if operator not in _OPERATORS:
        raise FilterError(
            f"version: there is no operator '{operator}'", f"use one of {', '.join(_OPERATORS)}"
        )
    kind = "strict" if strict else version_type or "loose"
    if kind not in _KEYS:
        raise FilterError(f"version: there is no version_type '{kind}'", f"use one of {', '.join(_KEYS)}")
    if not value or not version:
        raise FilterError("version: a version is empty")
    try:
        return _OPERATORS[operator](_KEYS[kind](str(value)), _KEYS[kind](str(version)))
    except TypeError:
        message = f"version: '{value}' and '{version}' cannot be compared"
        raise FilterError(message, "give both the same form, without a leading v") from None


def _loose(text: str) -> list[int | str]:
    """Return the numbers and words of a version; a number and a word cannot be compared."""
    parts = re.split(r"([0-9]+|[a-z]+)|\.", text)
    return [int(part) if part.isdigit() else part for part in parts if part]


def _strict(text: str) -> tuple[Any, ...]:
    match = _STRICT.fullmatch(text)
    if not match:
        raise FilterError(f"version: '{text}' is not a strict version", "write 1.2 or 1.2.3")
    release = (int(match[1]), int(match[2]), int(match[3] or 0))
    return (release, match[4] is None, match[4] or "", int(match[5] or 0))


def _semantic(text: str) -> tuple[Any, ...]:
    match = _SEMANTIC.fullmatch(text)
    if not match:
        raise FilterError(f"version: '{text}' is not a semantic version", "write 1.2.3 or 1.2.3-rc.1")
    words = (match[4] or "").split(".") if match[4] else []
    # A number sorts before a word, and a release after all that came before it.
    before = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return (int(match[1]), int(match[2]), int(match[3]), not before, before)


_KEYS: Mapping[str, Callable[[str], Any]] = {
    "loose": _loose, "strict": _strict, "semver": _semantic, "semantic": _semantic,
}  # fmt: skip
