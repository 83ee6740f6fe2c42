"""Every error Nidome reports, as one tree.

    NidomeError
    ├── UsageError              the command line asks for something that does not exist
    ├── DeclarationError        an inventory or a cluster file is wrong (file:line)
    ├── ArtifactError           a binary or an image cannot be had or does not match its checksum
    ├── MachineError            a disposable host cannot be made, reached or removed
    ├── PreflightError          a host is not fit for what is declared
    ├── TransportError          a host cannot be reached, or was lost on the way
    ├── ResourceError           a resource on a host could not be observed or brought about
    └── StateError              a lock, a record or a plan file is not what it must be

Each error says what is wrong, where, and what to do next, under a code that does not change between
releases. This module is sent to hosts with the agent: standard library only, Python 3.9.
"""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "DeclarationError",
    "MachineError",
    "NidomeError",
    "PreflightError",
    "ResourceError",
    "StateError",
    "TransportError",
    "UsageError",
]

_MOST_OTHERS = 20


class NidomeError(Exception):
    """An error a person can act on.

    ``code`` is stable and lower-case with hyphens; ``where`` names the host, resource, setting or
    file:line concerned ("" when there is none); ``hint`` is the next step, a command where one helps.
    """

    exit_code = 1
    family = "nidome"

    def __init__(self, code: str, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """Return the message with its place, on one line."""
        return f"{self.where}: {self.message}" if self.where else self.message

    def render(self) -> str:
        """Return the text shown to a person: code, message, place and next step."""
        lines = [f"error[{self.code}]: {self.message}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  next:  {self.hint}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, str]:
        """Return the error as plain data, for events and the agent's protocol."""
        return {
            "family": self.family,
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
        }


class UsageError(NidomeError):
    """The command line asks for something that does not exist."""

    family = "usage"


class DeclarationError(NidomeError):
    """An inventory or a cluster file is wrong; ``where`` is ``file:line``.

    ``others`` are further errors of the same kind, found in the same reading.
    """

    family = "declaration"
    others: tuple[DeclarationError, ...] = ()

    def render(self) -> str:
        """Return the text shown to a person: the error, then each other one on a line, up to twenty."""
        lines = [super().render()]
        if self.others:
            lines.append(f"and {len(self.others)} more:")
            lines += [f"  {each}" for each in self.others[:_MOST_OTHERS]]
        if len(self.others) > _MOST_OTHERS:
            lines.append(f"  … {len(self.others) - _MOST_OTHERS} not shown")
        return "\n".join(lines)


class ArtifactError(NidomeError):
    """A binary or an image cannot be had, or does not match its checksum."""

    family = "artifact"


class MachineError(NidomeError):
    """A disposable host cannot be made, reached or removed."""

    family = "machine"


class PreflightError(NidomeError):
    """A host is not fit for what is declared."""

    family = "preflight"


class TransportError(NidomeError):
    """A host cannot be reached, or was lost on the way."""

    family = "transport"


class ResourceError(NidomeError):
    """A resource on a host could not be observed or brought about."""

    family = "resource"


class StateError(NidomeError):
    """A lock, a record or a plan file is not what it must be."""

    family = "state"
