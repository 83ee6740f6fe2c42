"""--list-hosts, --list-tasks and --list-tags of a playbook, in ansible-playbook's words and spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.engine.selection import Selection
    from nidome.roles.base import Task
    from nidome.roles.listing import ListedPlay

__all__ = ["render_lists"]


def render_lists(
    playbook: str,
    plays: Sequence[ListedPlay],
    selection: Selection,
    *,
    hosts: bool = False,
    tasks: bool = False,
    tags: bool = False,
) -> str:
    """Return the lists that are asked for, play by play, with the tasks that the selection takes."""
    lines = ["", f"playbook: {playbook}"]
    for number, play in enumerate(plays, 1):
        mine = [t for t in play.tasks if selection.takes(_tags(play, t))]
        lines += ["", f"  play #{number} ({play.pattern}): {play.name}\tTAGS: {_shown(play.tags)}"]
        lines += _hosts(play) if hosts else ()
        lines += _tasks(play, mine) if tasks else ()
        if tags:
            lines.append(f"      TASK TAGS: {_shown(tuple(tag for t in mine for tag in _tags(play, t)))}")
    return "\n".join(lines)


def _tags(play: ListedPlay, task: Task) -> tuple[str, ...]:
    return (*play.tags, *task.tags)


def _hosts(play: ListedPlay) -> Iterator[str]:
    yield f"    pattern: {[play.pattern]!r}"
    yield f"    hosts ({len(play.hosts)}):"
    yield from (f"      {name}" for name in play.hosts)


def _tasks(play: ListedPlay, tasks: Sequence[Task]) -> Iterator[str]:
    yield "    tasks:"
    yield from (f"      {task.title}\tTAGS: {_shown(_tags(play, task))}" for task in tasks)


def _shown(tags: Sequence[str]) -> str:
    return f"[{', '.join(sorted(set(tags)))}]"
