"""What a declaration says that is not an error: something ignored, or something to think about."""

from __future__ import annotations

from dataclasses import dataclass

from nidome.errors import DeclarationError

__all__ = ["DeclarationWarning"]


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
