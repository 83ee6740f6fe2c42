"""Which tasks and hosts of a playbook are meant: tags and limits, with Ansible's meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """``tags`` (none: all) and ``skip`` choose tasks; ``limit`` (none: all) chooses hosts by name."""

    tags: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether no task is left out, so that what is not declared can be told."""
        return not self.tags and not self.skip

    def takes(self, tags: Sequence[str]) -> bool:
        """Tell whether a task with these tags runs: ``always`` does unless it is skipped by name."""
        mine = set(tags)
        if mine & set(self.skip):
            return False
        if "never" in mine and not mine & set(self.tags):
            return False
        return not self.tags or "all" in self.tags or bool(mine & {*self.tags, "always"})
