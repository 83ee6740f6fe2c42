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

from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["chosen"]

_WHERE = "--limit"
_SLICE = re.compile(r"(?P<base>.+)\[(?P<first>-?\d+)?(?P<colon>:)?(?P<last>-?\d+)?\]")


def chosen(spec: ClusterSpec, patterns: Sequence[str]) -> tuple[HostSpec, ...]:
    """Return the hosts that the patterns name, in the inventory's order; all where there is no pattern.

    Raises UsageError for a pattern that nothing matches, and where no host is left.
    """
    if not patterns:
        return spec.hosts
    words = [word for pattern in patterns for word in _words(spec, pattern)]
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
    """Split at commas, and at colons that are not part of a slice or of a host's own name."""
    for part in (text.strip() for text in pattern.split(",")):
        if part.startswith("@"):
            for line in _lines(Path(part[1:])):
                yield from _words(spec, line)
        elif part in {host.name for host in spec.hosts} or part.startswith("~"):
            yield part
        else:
            yield from (word for word in re.findall(r"(?:[^:\[]|\[[^\]]*\])+", part) if word not in "!&")


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "limit-unreadable",
            f"cannot read the patterns: {error}",
            where=f"{_WHERE} @{path}",
            hint="name a file with one host or pattern a line",
        ) from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


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
        raise UsageError(
            "limit-pattern", f"'~{text}' is not a regular expression: {error}", where=_WHERE, hint="~node[12]"
        ) from None


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
