"""What of a text may be shown: secrets in it are covered, also those of an earlier declaration.

Where the agent writes a text, it notes in the ledger (for root only) the hash of the whole and the places of
its secrets, not the secrets. A text that is found again is shown without them; one that somebody has edited
since, and one of which nothing is known and that not everybody may read, is not shown at all.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

__all__ = [
    "EARLIER",
    "HIDDEN",
    "cover",
    "flags",
    "hide",
    "is_brief",
    "leaves",
    "noted",
    "places",
    "shown",
    "without",
]

HIDDEN = "***"
"""What is shown in place of a secret."""

EARLIER = "*** (earlier)"
"""What is shown in place of a secret that is not declared any more."""

_BRIEF = 4
_WORD = r"[A-Za-z]+"
_LEAST_LINE = 8

Places = List[List[int]]


def is_brief(secret: str) -> bool:
    """Tell whether a secret is so short (a number, true) that it stands in many places by chance."""
    return len(secret) < _BRIEF


def _forms(secret: str) -> Iterator[str]:
    """Give a secret as it may stand in a file: as it is, quoted as in JSON or TOML, and as in a unit."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    escaped = secret.replace("%", "%%").replace("$", "$$")
    yield escaped
    yield escaped.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # Of several lines, each may be indented.
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= _LEAST_LINE)


def _pattern(form: str) -> str:
    # A word, or something short, is the secret only where it stands alone.
    alone = is_brief(form) or re.fullmatch(_WORD, form)
    return rf"(?<![\w.-]){re.escape(form)}(?![\w.-])" if alone else re.escape(form)


def places(text: str, secrets: Collection[str]) -> Places:
    """Return where secrets stand in a text, as ``[start, end]`` in order, none within another."""
    found = {form for secret in secrets for form in _forms(secret) if form}
    if not found:
        return []
    patterns = map(_pattern, sorted(found, key=lambda form: (-len(form), form)))
    return [list(match.span()) for match in re.finditer("|".join(patterns), text)]


def hide(text: str, secrets: Collection[str]) -> str:
    """Return a text with :data:`HIDDEN` in place of each secret."""
    return cover(text, places(text, secrets), secrets)


def cover(text: str, where: Sequence[Sequence[int]], secrets: Collection[str]) -> str:
    """Return a text without what stands in these places; what is none of ``secrets`` is an earlier one."""
    present = {form for secret in secrets for form in _forms(secret)}
    parts, end = [], 0
    for start, stop in where:
        parts += [text[end:start], HIDDEN if text[start:stop] in present else EARLIER]
        end = stop
    return "".join([*parts, text[end:]])


def leaves(value: Any, path: str = "") -> Iterator[Tuple[str, str]]:
    """Give the texts in plain data, each with the names of the mappings that lead to it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner, path)
    elif isinstance(value, str):
        yield path, value


def without(value: Any, hidden: Collection[str], secrets: Collection[str], path: str = "") -> Any:
    """Return plain data without secrets; of what stands at the ``hidden`` paths, nothing is shown."""
    if isinstance(value, dict):
        found = {}
        for name, inner in value.items():
            found[name] = without(inner, hidden, secrets, f"{path}.{name}" if path else str(name))
        return found
    if isinstance(value, (list, tuple)):
        return [without(inner, hidden, secrets, path) for inner in value]
    if path in hidden and value is not None:
        return HIDDEN
    return hide(value, secrets) if isinstance(value, str) else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def noted(
    data: Optional[Mapping[str, Any]], found: Optional[str], text: str, secrets: Collection[str]
) -> Dict[str, Any]:
    """Return what a ledger's entry is to know of texts, before ``text`` takes the place of ``found``.

    What it knows of the one that is there stays: a run may end before that is replaced.
    """
    known = (data or {}).get("texts") or []
    there = None if found is None else _digest(found)
    kept = [each for each in known if each[0] == there] or (known if found is not None else [])
    mine = _digest(text)
    return {"texts": [*(each for each in kept if each[0] != mine), [mine, places(text, secrets)]]}


def shown(
    text: str, data: Optional[Mapping[str, Any]], secrets: Collection[str], *, private: bool
) -> Optional[str]:
    """Return what may be shown of a text that was found, None where nothing may.

    ``data`` is what the ledger's entry knows, ``secrets`` are those of the present declaration, and
    ``private`` says that not everybody may read the text.
    """
    texts = (data or {}).get("texts")
    if texts is None:
        return None if private or secrets else text
    known = dict(texts)
    mine = _digest(text)
    if mine not in known:
        return None if secrets or any(known.values()) else text
    before = [tuple(place) for place in known[mine]]
    now = [(a, b) for a, b in places(text, secrets) if not any(a < d and c < b for c, d in before)]
    return cover(text, sorted([*before, *now]), secrets)


def flags(text: str, secrets: Collection[str]) -> List[str]:
    """Return the arguments (``--name``) of a unit's command line whose values hold secrets."""
    lines = (text[:start].rpartition("\n")[2] for start, _ in places(text, secrets))
    names = (re.match(r'\s*"?(--?[\w-]+)=', line) for line in lines)
    return sorted({name[1] for name in names if name})
