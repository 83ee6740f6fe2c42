"""Which tasks and hosts of a playbook are meant: tags and limits, with Ansible's meaning."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SPECIAL", "Selection"]

SPECIAL = ("all", "always", "never", "tagged", "untagged")
"""Words with a meaning of their own, whether a task has them as tags or not."""


@dataclass(frozen=True)
class Selection:
    """``tags`` (none: all) and ``skip`` choose tasks, ``limit`` (none: all) hosts by Ansible's patterns.

    ``start_at`` ("": the first) is the task to begin with, by title or name; ``*`` and ``?`` match anything.
    """

    tags: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    start_at: str = ""

    @property
    def everything(self) -> bool:
        """Whether no task is left out, so that what is not declared can be told."""
        return not self.tags and not self.skip and not self.start_at

    def starts_at(self, title: str) -> bool:
        """Tell whether the run begins with the task of this title."""
        return any(fnmatch.fnmatchcase(name, self.start_at) for name in (title, title.partition(" : ")[2]))

    def takes(self, tags: Sequence[str]) -> bool:
        """Tell whether a task with these tags runs: ``always`` does unless it is skipped by name.

        ``all``, ``tagged`` and ``untagged`` stand for every task, and for those with and without tags.
        """
        mine = set(tags)
        kinds = {"all", "tagged" if mine else "untagged"}
        if mine & set(self.skip) or (kinds & set(self.skip) and "always" not in mine):
            return False
        if "never" in mine and not mine & set(self.tags):
            return False
        return not self.tags or bool((mine | kinds) & set(self.tags)) or "always" in mine

    def unknown(self, tags: Iterable[str]) -> tuple[str, ...]:
        """Return the chosen words that no task has as a tag."""
        known = {*tags, *SPECIAL}
        return tuple(word for word in (*self.tags, *self.skip) if word not in known)
