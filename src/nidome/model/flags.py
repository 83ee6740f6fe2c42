"""Which flags each Kubernetes component has, by release: data made of what the binaries say themselves.

``flags.json`` is written by ``scripts/component_flags.py``; a test compares it with the binaries. It holds
the whole difference that a release makes to how components are started.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

__all__ = ["EVERY", "TABLE", "flags"]

TABLE = Path(__file__).with_name("flags.json")
EVERY = "every"
"""The key of the flags that every release in the table has."""


@cache
def _table() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = json.loads(TABLE.read_bytes())
    return found


def flags(component: str, version: str) -> frozenset[str]:
    """Return the flags of a component, without dashes."""
    own = _table()[component]
    return frozenset(own[EVERY]) | frozenset(own.get(version, ()))
