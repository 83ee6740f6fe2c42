"""Keep what was encrypted in a declaration out of plans, events and records."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from nidome.events import Event, Sink

__all__ = ["masked", "masking"]

_MASK = "***"
_SHORTEST = 4
"""Shorter texts (a number, true) stand in too many places that have nothing to do with the secret."""
_DELTA = {"attribute", "before", "after"}


def masked(data: Any, secrets: Collection[str]) -> Any:
    """Return plain data without the secrets: ``***`` stands for each.

    Of a difference that holds one, neither side is shown: what is replaced may be an earlier secret.
    """
    texts = sorted((text for text in secrets if len(text) >= _SHORTEST), key=len, reverse=True)
    return _masked(data, texts) if texts else data


def _masked(data: Any, texts: list[str]) -> Any:
    if isinstance(data, str):
        for text in texts:
            data = data.replace(text, _MASK)
        return data
    if isinstance(data, dict):
        found = {key: _masked(value, texts) for key, value in data.items()}
        if data.keys() == _DELTA and found != data:
            found |= {side: _MASK for side in ("before", "after") if data[side] is not None}
        return found
    if isinstance(data, list | tuple):
        return type(data)(_masked(item, texts) for item in data)
    return data


def masking(sink: Sink, secrets: Collection[str]) -> Sink:
    """Return a sink that passes events on without the secrets."""
    if not secrets:
        return sink

    def passed(event: Event) -> None:
        values = {each.name: masked(getattr(event, each.name), secrets) for each in dataclasses.fields(event)}
        sink(type(event)(**values))

    return passed
