"""Which hosts ``--limit`` means, in Ansible's language of host patterns.

``node1,node2``, ``kube_node:!node3``, ``etcd:&kube_node``, ``node*``, ``~node[12]``, ``kube_node[0]``,
``all``, and ``@FILE`` with one pattern a line. First come the plain ones, then what ``&`` keeps, then what
``!`` takes away.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.declare.files import read_text
from nidome.errors import DeclarationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["chosen"]

_WHERE = "--limit"
_OPERATORS = ("!", "&")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_WORD = re.compile(rf"(?:[^:\[]|{_BRACKETS.pattern})+")
_SLICE = re.compile(r"(?P<base>.+)\[(?P<first>-?\d+)?(?P<colon>:)?(?P<last>-?\d+)?\]")


def chosen(spec: ClusterSpec, patterns: Sequence[str]) -> tuple[HostSpec, ...]:
    """Return the hosts that the patterns name, in the inventory's order; all where there is no pattern.

    Raises UsageError for a pattern that is none or that nothing matches, and where no host is left.
    """
    if not patterns:
        return spec.hosts
    words = [word for pattern in patterns for word in _words(spec, pattern)]
    if not words:
        raise _pattern(f"'{','.join(patterns)}' names no host", "leave --limit out to mean all hosts")
    plain = [word for word in words if word[0] not in "!&"] or ["all"]
    names = {name for word in plain for name in _matches(spec, word)}
    for word in words:
        if word[0] == "&":
            names &= set(_matches(spec, word[1:]))
    for word in words:
        if word[0] == "!":
            names -= set(_matches(spec, word[1:]))
    if not names:
        raise UsageError(
            "limit-empty",
            f"no host is left by '{','.join(patterns)}'",
            where=_WHERE,
            hint=f"hosts: {', '.join(h.name for h in spec.hosts)}",
        )
    return tuple(host for host in spec.hosts if host.name in names)


def _words(spec: ClusterSpec, pattern: str) -> Iterator[str]:
    """Give the words of a pattern; a file's lines are patterns, but name no further file."""
    for part in (text.strip() for text in pattern.split(",")):
        if part.startswith("@"):
            for line in _lines(Path(part[1:])):
                yield from _split(spec, line)
        else:
            yield from _split(spec, part)


def _split(spec: ClusterSpec, part: str) -> Iterator[str]:
    """Split at colons that are not part of a slice or of a host's own name; what is no word is an error."""
    if part in {host.name for host in spec.hosts} or part.startswith("~"):
        yield part
        return
    if "[" in _BRACKETS.sub("", part):
        raise _pattern(f"'{part}' is no pattern: a bracket is open", "for example kube_node[0], node[1:3]")
    for word in (found.strip() for found in _WORD.findall(part)):
        if word in _OPERATORS:
            raise _pattern(f"'{word}' in '{part}' has no name after it", f"for example all:{word}node1")
        if word:
            yield word


def _pattern(message: str, hint: str) -> UsageError:
    return UsageError("limit-pattern", message, where=_WHERE, hint=hint)


def _lines(path: Path) -> list[str]:
    """Return the patterns of a file, or of a process substitution."""
    try:
        text = read_text(path, pipes=True)
    except DeclarationError as error:
        raise UsageError(
            "limit-unreadable",
            f"cannot read the patterns: {error.message}",
            where=f"{_WHERE} @{error.where}",
            hint="name a file with one host or pattern a line",
        ) from None
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise _pattern(f"the file {path} names no host", "put one host or pattern a line into it")
    return found


def _matches(spec: ClusterSpec, word: str) -> list[str]:
    found = _named(spec, word)
    if not found:
        raise _unknown(spec, word)
    return found


def _named(spec: ClusterSpec, word: str) -> list[str]:
    names = [host.name for host in spec.hosts]
    if word.startswith("~"):
        return _by(spec, _expression(word[1:]))
    if word in names:
        return [word]
    if (part := _SLICE.fullmatch(word)) and (part["first"] or part["colon"]):
        return _slice(_named(spec, part["base"]), part)
    return names if word == "all" else _by(spec, re.compile(fnmatch.translate(word)))


def _by(spec: ClusterSpec, expression: re.Pattern[str]) -> list[str]:
    return [h.name for h in spec.hosts if any(map(expression.match, (h.name, *h.groups)))]


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise _pattern(f"'~{text}' is not a regular expression: {error}", "~node[12]") from None


def _slice(names: list[str], part: re.Match[str]) -> list[str]:
    """Return what ``[2]``, ``[1:3]``, ``[1:]`` and ``[-1]`` mean; the end of a range belongs to it."""
    first = int(part["first"] or 0)
    if not part["colon"]:
        return names[first:][:1] if first >= 0 else names[first : first + 1 or None]
    last = int(part["last"]) if part["last"] else -1
    return names[first : last + 1 or None]


def _unknown(spec: ClusterSpec, word: str) -> UsageError:
    names: Iterable[str] = [host.name for host in spec.hosts]
    groups = dict.fromkeys(group for host in spec.hosts for group in host.groups)
    near = difflib.get_close_matches(word, [*names, *groups], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return UsageError(
        "host-unknown",
        f"no host or group '{word}' in the inventory",
        where=_WHERE,
        hint=f"{hint}hosts: {', '.join(names)}; groups: {', '.join(groups)}",
    )
