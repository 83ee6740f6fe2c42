"""docs/variables.md, made from the tables: ``python -m nidome.declare.reference > docs/variables.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nidome.declare.known import KNOWN, ON, PREFIXES, SUFFIXES, Known
from nidome.declare.variables import VARIABLES, Computed, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["render"]

_HEAD = """\
# Variables

<!-- Made by python -m nidome.declare.reference; a test fails when it differs from the tables. -->

Names and defaults are kubespray's; [Differences](#differences) lists where they are not. A value of the wrong
type or an unsupported choice is an error with its file and line. A variable of kubespray's that Nidome does
not use, and one that nobody knows, is a warning with its file and line, and an error with `--strict`.
"""


def render() -> str:
    """Return the reference of all variables as Markdown."""
    sections = [_HEAD]
    for file in dict.fromkeys(v.file for v in VARIABLES if v.scope == "cluster"):
        rows = [v for v in VARIABLES if v.scope == "cluster" and v.file == file]
        sections.append(f"## {file}\n\n{_table(rows)}")
    sections.append(f"## Hosts\n\n{_table([v for v in VARIABLES if v.scope == 'host'])}")
    sections.append(f"## Differences\n\n{_differences()}")
    sections.append(f"## Known, not supported\n\n{_known()}")
    return "\n".join(sections)


def _table(variables: Iterable[Variable]) -> str:
    lines = ["| variable | expected | default | meaning |", "| --- | --- | --- | --- |"]
    for v in variables:
        cells = (f"`{v.name}`", v.kind.expected, _default(v.default), v.meaning)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _differences() -> str:
    return "".join(f"- `{v.name}`: {v.difference}\n" for v in VARIABLES if v.difference)


def _known() -> str:
    intro = (
        "A value beside which nothing happens differently is not mentioned in a run. `*` stands for the\n"
        "rest of a name that a release of kubespray from 2.20 on has; its other variables are known too.\n\n"
    )
    lines = ["| variable | effect of it not being used | silent at |", "| --- | --- | --- |"]
    rows = [(name, entry) for name, entry in KNOWN.items()]
    rows += [(f"{begin}*", entry) for begin, entry in PREFIXES.items()]
    rows += [(f"*{end}", entry) for end, entry in SUFFIXES.items()]
    lines += [f"| `{name}` | {_cell(entry.effect)} | {_silent(entry)} |" for name, entry in rows]
    return intro + "\n".join(lines) + "\n"


def _silent(entry: Known) -> str:
    found = [_default(value) for value in entry.silent]
    if entry.template:
        found.append("kubespray's default, a template")
    if entry.part_of:
        always = "any value; see" if entry.part_of not in ON else "any value where there is"
        found.append(f"{always} `{entry.part_of}`")
    return ", ".join(found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(value: Any) -> str:
    if isinstance(value, Computed):
        return value.words
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return "`''`" if value == "" else f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(render())
