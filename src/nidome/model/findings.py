"""What a declaration says that is not an error: something ignored, or something to think about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DeclarationWarning", "brief", "grouped"]


@dataclass(frozen=True)
class DeclarationWarning:
    """A finding in a declaration that does not stop a run; ``where`` is ``file:line``.

    One of many that say the same of different variables has the variable's ``name``, and the ``effect`` that
    it shares with others.
    """

    code: str
    message: str
    where: str = ""
    hint: str = ""
    name: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """Return the message with its place, on one line."""
        return f"{self.where}: {self.message}" if self.where else self.message

    def render(self) -> str:
        """Return the text shown to a person: code, message, place and next step."""
        lines = [f"warning[{self.code}]: {self.message}"]
        lines += [f"  where: {self.where}"] if self.where else []
        lines += [f"  next:  {self.hint}"] if self.hint else []
        return "\n".join(lines)

    def to_json(self) -> dict[str, str]:
        """Return the finding as plain data, for events."""
        return {"code": self.code, "message": self.message, "where": self.where, "hint": self.hint}

    def as_error(self) -> DeclarationError:
        """Return the error that this is when ``--strict`` is given."""
        return DeclarationError(self.code, self.message, where=self.where, hint=self.hint)


def brief(warnings: Sequence[DeclarationWarning], command: str) -> DeclarationWarning:
    """Return the one that stands for the warnings where they are not the subject; ``command`` shows them."""
    count = "is 1 warning" if len(warnings) == 1 else f"are {len(warnings)} warnings"
    message = f"there {count} about the declaration: {command} shows what"
    return DeclarationWarning("declaration-warnings", message)


def grouped(warnings: Sequence[DeclarationWarning]) -> list[DeclarationWarning]:
    """Return the warnings with those of one code that share effects made one, a line for each effect."""
    found: dict[tuple[str, int], list[DeclarationWarning]] = {}
    for number, warning in enumerate(warnings):
        found.setdefault((warning.code, -1 if warning.effect else number), []).append(warning)
    return [_together(same) for same in found.values()]


def _together(same: Sequence[DeclarationWarning]) -> DeclarationWarning:
    if len(same) == 1:
        return same[0]
    effects: dict[str, list[DeclarationWarning]] = {}
    for warning in same:
        effects.setdefault(warning.effect, []).append(warning)
    lines = [
        f"  {', '.join(dict.fromkeys(w.name for w in those))} ({', '.join(_places(those))}): {effect}"
        for effect, those in effects.items()
    ]
    head = f"{len(same)} settings are known, not supported (with --strict, an error):"
    return DeclarationWarning(same[0].code, "\n".join([head, *lines]))


def _places(warnings: Sequence[DeclarationWarning]) -> Iterator[str]:
    """Give the places, with the name of a file only where it is another than that before."""
    before = ""
    for warning in warnings:
        file, _, line = warning.where.rpartition(":")
        yield line if file and file == before else warning.where
        before = file
