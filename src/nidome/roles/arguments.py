"""Command lines from data: a component's arguments with a person's own laid over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["command"]


def command(
    binary: str, arguments: Mapping[str, object], extra: Mapping[str, str] | None = None
) -> list[str]:
    """Return the words of a command line.

    None leaves an argument out; true and false are written out; ``extra`` wins over ``arguments``, as an
    extra argument does in kubespray and k0s.
    """
    merged: dict[str, object] = {**arguments, **(extra or {})}
    return [binary, *(f"--{name}={_text(value)}" for name, value in merged.items() if value is not None)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
