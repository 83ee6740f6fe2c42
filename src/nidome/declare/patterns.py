"""Host names as inventories write them: ranges such as ``node[01:10]`` and a port after a colon."""

from __future__ import annotations

import re

from nidome.declare.yamlmarks import fail

__all__ = ["check_group_name", "check_host_name", "expand_hosts", "split_port"]

_MOST_HOSTS = 10_000
_SHOWN = 80
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANGE = r"\[([^\[\]]*:[^\[\]]*)\]"
_BRACKETED_PORT = r"\[(.+)\]:([0-9]{1,9})"
_PORT = r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]{1,9})"
_HOST = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}"
_GROUP = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"


def check_group_name(name: object, file: str, line: int) -> str:
    """Return the name if a group can have it: a directory entry of group_vars must be able to carry it."""
    if not isinstance(name, str) or not re.fullmatch(_GROUP, name):
        hint = "use letters, digits and underscores"
        fail("group-name", f"'{name}' is not a valid group name", file, line, hint)
    return name


def expand_hosts(pattern: object, file: str, line: int) -> tuple[list[str], int | None]:
    """Return the host names that a pattern stands for, and the port written with it."""
    if not isinstance(pattern, str):
        fail("host-name", f"the host name {pattern!r} is not text", file, line, "put it in quotes")
    text, port = split_port(pattern)
    return [check_host_name(name, file, line) for name in _expand(text, file, line)], port


def split_port(pattern: str) -> tuple[str, int | None]:
    """Return a host pattern without the port that is written with it, and the port."""
    match = ":" in pattern and (re.fullmatch(_BRACKETED_PORT, pattern) or re.fullmatch(_PORT, pattern))
    return (match[1], int(match[2])) if match else (pattern, None)


def check_host_name(name: str, file: str, line: int) -> str:
    """Return the name if a host can have it: a directory entry of host_vars must be able to carry it."""
    if not re.fullmatch(_HOST, name):
        fail("host-name", f"'{name[:_SHOWN]}' is not a valid host name", file, line)
    return name


def _expand(pattern: str, file: str, line: int) -> list[str]:
    done = [""]
    rest = pattern
    while match := re.search(_RANGE, rest):
        values = _range(match[1], file, line)
        if len(done) * len(values) > _MOST_HOSTS:
            fail("host-range", f"'{pattern}' stands for more than {_MOST_HOSTS} hosts", file, line)
        done = [head + rest[: match.start()] + value for head in done for value in values]
        rest = rest[match.end() :]
    return [head + rest for head in done]


def _range(text: str, file: str, line: int) -> list[str]:
    begin, end, *more = text.split(":")
    begin = begin or "0"
    step = more[0] if more else "1"
    if len(more) > 1 or not (step.isascii() and step.isdigit()) or not int(step[:9]):
        fail("host-range", f"'[{text}]' is not a range", file, line, "write [begin:end] or [begin:end:step]")
    if len(begin) == len(end) == 1 and begin in _LETTERS and end in _LETTERS:
        values = list(_LETTERS[_LETTERS.index(begin) : _LETTERS.index(end) + 1 : int(step[:9])])
    else:
        values = _numbers(text, begin, end, int(step[:9]), file=file, line=line)
    if not values:
        fail(
            "host-range", f"the range '[{text}]' is empty", file, line, "the begin must not be above the end"
        )
    return values


def _numbers(text: str, begin: str, end: str, step: int, *, file: str, line: int) -> list[str]:
    if not all(part.isascii() and part.isdigit() and len(part) <= len(str(10**9)) for part in (begin, end)):
        fail("host-range", f"'[{text}]' is not a range", file, line, "write [begin:end] or [begin:end:step]")
    width = len(begin) if begin[0] == "0" and len(begin) > 1 else 0
    if width and width != len(end):
        fail("host-range", f"begin and end of '[{text}]' must have the same number of digits", file, line)
    numbers = range(int(begin), int(end) + 1, step)
    if len(numbers) > _MOST_HOSTS:
        fail("host-range", f"'[{text}]' stands for more than {_MOST_HOSTS} hosts", file, line)
    return [str(number).zfill(width) for number in numbers]
