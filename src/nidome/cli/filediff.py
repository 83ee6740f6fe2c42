"""One planned or made change as a unified diff, the way ``--diff`` shows it. Secrets are never shown."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from nidome.agent.hiding import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_hidden", "unified"]

_TEXTS = ("content", "text")
_MORE = "\\ No newline at end of file"


def unified(change: Mapping[str, Any]) -> list[str]:
    """Return the lines of a change's diff: of a file's text where it is known, else of its attributes.

    Nothing for what is deleted or restarted; of what may not be shown, one line says so.
    """
    if change["action"] not in ("create", "update"):
        return []
    name = change["resource"].partition(":")[2]
    lines: list[str] = []
    for delta in change["deltas"]:
        if delta["attribute"] not in _TEXTS or not isinstance(delta["after"], str):
            continue
        if is_hidden(delta):
            lines.append(f"[[ The difference of {name} is hidden: it may hold secrets ]]")
        else:
            lines += _texts(name, delta["before"], delta["after"])
    attributes = [d for d in change["deltas"] if d["attribute"] not in _TEXTS]
    if attributes and change["action"] == "update":
        before = "".join(f"{d['attribute']}: {_value(d['before'])}\n" for d in attributes)
        after = "".join(f"{d['attribute']}: {_value(d['after'])}\n" for d in attributes)
        lines += _texts(f"{name} (attributes)", before, after)
    return lines


def is_hidden(delta: Mapping[str, Any]) -> bool:
    """Tell whether a text's difference cannot be shown: it, or all in it that differs, is secret."""
    return bool(delta["after"] == HIDDEN or delta["before"] == delta["after"])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _texts(name: str, before: str | None, after: str) -> list[str]:
    head = "before" if before is None else f"before: {name}"
    pairs = difflib.unified_diff(
        _lines(before or ""), _lines(after), fromfile=head, tofile=f"after: {name}", lineterm=""
    )
    return [line for pair in pairs for line in pair.split("\n")]


def _lines(text: str) -> list[str]:
    """Return the lines of a text; a last one that has no end says so, as diff does."""
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        lines[-1] += f"\n{_MORE}"
    return lines
