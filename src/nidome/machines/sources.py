"""Which package archives a host is made from: those that this machine itself uses.

Pure: files' texts come in, one-line source entries of the wanted release come out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["carried_apt_options", "source_lines"]

_CODENAMES = (
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
)
_SUITE = re.compile(rf"(?P<release>{'|'.join(_CODENAMES)})(?P<pocket>|-updates|-security)")
_ONE_LINE = re.compile(
    r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)"
)

# Settings of this machine's package client that a host needs too, to reach the same archives.
_CARRIED = (
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
    "Acquire::Retries",
)
_OPTION = re.compile(r'(?P<name>[\w:-]+) "(?P<value>[^"]*)";')


@dataclass(frozen=True)
class _Entry:
    uri: str
    suite: str
    components: str


def source_lines(texts: Iterable[str], codename: str) -> list[str]:
    """Return the entries of ``sources.list`` for ``codename`` from the files of this machine.

    ``texts`` are files in either format of apt. Entries that are no Debian release (third parties) and
    pockets other than updates and security are left out; the list is empty when nothing is left.
    """
    lines: dict[str, None] = {}
    for entry in _entries(texts):
        suite = _SUITE.fullmatch(entry.suite.rstrip("/"))
        if suite is not None:
            components = " ".join(dict.fromkeys(("main", *entry.components.split())))
            lines[f"deb {entry.uri} {codename}{suite['pocket']} {components}"] = None
    return list(lines)


def _entries(texts: Iterable[str]) -> Iterator[_Entry]:
    for text in texts:
        if re.search(r"(?mi)^types:", text):
            yield from _deb822(text)
        else:
            yield from _one_line(text)


def _one_line(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        match = _ONE_LINE.fullmatch(line.partition("#")[0].strip())
        if match is not None:
            yield _Entry(match["uri"], match["suite"], match["components"])


def _deb822(text: str) -> Iterator[_Entry]:
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield _Entry(uri, suite, fields.get("components", ""))


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            fields[key] = f"{fields.get(key, '')} {line.strip()}"
        else:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    return fields


def carried_apt_options(dump: str) -> list[str]:
    """Return the settings in ``apt-config dump`` output that a host needs as well, as apt writes them."""
    found = (_OPTION.fullmatch(line.strip()) for line in dump.splitlines())
    return [match[0] for match in found if match is not None and match["name"] in _CARRIED and match["value"]]
