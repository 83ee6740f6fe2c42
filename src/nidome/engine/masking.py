"""Keep the secrets of a declaration out of plans, events, records and answers.

Hosts and plans cover them already where they were put (see :mod:`nidome.agent.hiding`); this is for all else
that may quote them, such as an error's message.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from nidome.agent.hiding import HIDDEN, hide, is_brief

if TYPE_CHECKING:
    from collections.abc import Collection

    from nidome.events import Event, Sink

__all__ = ["masked", "masking"]

_DELTA = {"attribute", "before", "after"}


def masked(data: Any, secrets: Collection[str]) -> Any:
    """Return plain data without the secrets: ``***`` stands for each that is not brief.

    Of a single value that is one, the other side of its difference is not shown either: what is replaced may
    be an earlier secret. Of a text of several lines, the host knows where they are.
    """
    texts = [text for text in secrets if not is_brief(text)]
    return _masked(data, texts) if texts else data


def _masked(data: Any, texts: list[str]) -> Any:
    if isinstance(data, str):
        return hide(data, texts)
    if isinstance(data, dict):
        found = {key: _masked(value, texts) for key, value in data.items()}
        if data.keys() == _DELTA and found != data:
            found |= {side: HIDDEN for side in ("before", "after") if _is_value(data[side])}
        return found
    if isinstance(data, list | tuple):
        return type(data)(_masked(item, texts) for item in data)
    return data


def _is_value(side: Any) -> bool:
    return side is not None and not (isinstance(side, str) and "\n" in side)


def masking(sink: Sink, secrets: Collection[str]) -> Sink:
    """Return a sink that passes events on without the secrets."""
    if not secrets:
        return sink

    def passed(event: Event) -> None:
        values = {each.name: masked(getattr(event, each.name), secrets) for each in dataclasses.fields(event)}
        sink(type(event)(**values))

    return passed
