"""What can be wrong with a template, before it is known where the template stands.

The parts that know about Jinja2 raise these; :mod:`nidome.declare.templating.values` knows the value's file
and line and turns them into a DeclarationError.
"""

from __future__ import annotations

__all__ = ["FilterError", "OutOfBounds", "Problem", "nearest"]


class Problem(Exception):  # noqa: N818 - it is not an error of the program: it becomes a DeclarationError
    """A template that cannot be rendered.

    ``line`` counts from 1 within the text, 0 where it is not known; ``name`` is the word that is wrong, by
    which the line is looked for in a value that YAML has folded.
    """

    def __init__(self, code: str, message: str, *, hint: str = "", line: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.line = line
        self.name = name


class FilterError(Exception):
    """A filter, test or lookup that cannot do what it is asked for; ``hint`` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class OutOfBounds(FilterError):  # noqa: N818 - as Problem
    """A template that takes more time or memory than any declaration needs."""


def nearest(word: str, known: list[str]) -> str:
    """Return "did you mean …?" where a known word is near, else an empty text."""
    import difflib  # noqa: PLC0415 - only an error pays for it

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else ""
