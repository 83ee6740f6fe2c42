"""Read everything in the cache again and compare it with its checksum."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nidome.artifacts.store import Entry, Store
    from nidome.progress import Progress

__all__ = ["Finding", "remove_damaged", "verify"]


@dataclass(frozen=True)
class Finding:
    """An artifact that is not what the index says; ``problem`` is ``missing`` or ``damaged``."""

    entry: Entry
    problem: str


def verify(store: Store, progress: Progress) -> tuple[int, list[Finding]]:
    """Return how many artifacts were looked at, and what is wrong with which."""
    entries = list(store.entries().values())
    sizes = {entry.sha256: entry.size for entry in entries}
    problems: dict[str, str] = {}
    with progress.item("verify the cache", total=sum(sizes.values())) as item:
        for sha256, size in sizes.items():
            problems[sha256] = _problem(store, sha256)
            item.advance(size)
    for entry in entries:
        if entry.licences and entry.licences not in problems:
            problems[entry.licences] = _problem(store, entry.licences)
    findings = [
        Finding(entry, problem)
        for entry in entries
        if (problem := problems[entry.sha256] or problems.get(entry.licences, ""))
    ]
    return len(entries), findings


def remove_damaged(store: Store, findings: list[Finding]) -> None:
    """Take what is wrong out of the index and the cache, so that the next fetch brings it again."""
    store.forget(finding.entry.key for finding in findings)
    for finding in findings:
        for sha256 in filter(None, (finding.entry.sha256, finding.entry.licences)):
            if _problem(store, sha256):
                store.blob(sha256).unlink(missing_ok=True)


def _problem(store: Store, sha256: str) -> str:
    try:
        with store.blob(sha256).open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"
    return "" if actual == sha256 else "damaged"
