"""What a declared value reaches: found by asking the roles twice, with the value and with another one.

What differs between the two answers is what the value reaches, to the line; nothing is declared for it and
nothing can be forgotten. Pure.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from nidome.agent.hiding import HIDDEN, hide
from nidome.agent.resources.binary import Binary
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit
from nidome.roles.playbook import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.agent.resources.base import Resource
    from nidome.roles.base import HostContext, Play, Task

__all__ = ["Place", "Reached", "cited", "other_values", "reach"]


@dataclass(frozen=True)
class Place:
    """One place in a resource that holds the value: ``line`` of a text from 1 (0 where it is not lines).

    ``path`` leads to an attribute or to a field of an object; () is the resource's own text.
    """

    text: str
    line: int = 0
    path: tuple[str | int, ...] = ()

    @property
    def name(self) -> str:
        """The path as people write it."""
        return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path).removeprefix(".")


@dataclass(frozen=True)
class Reached:
    """A resource of a task that the value reaches; without places it is there because of it.

    ``absent`` is one that only another value would bring about.
    """

    task: Task
    resource: Resource
    places: tuple[Place, ...] = ()
    absent: bool = False


def reach(base: HostContext, other: HostContext, plays: Sequence[Play]) -> list[Reached]:
    """Return what differs for a host between two declarations of which one value differs.

    ``base`` is the one in force; what only ``other`` has comes last.
    """
    changed = {r.id: (task, r) for task, r in _resources(other, plays)}
    found = []
    for task, resource in _resources(base, plays):
        _, twin = changed.pop(resource.id, (task, None))
        places = tuple(_told(resource, each) for each in _places(resource, twin)) if twin else ()
        if twin is None or places:
            found.append(Reached(task, resource, places))
    return found + [Reached(task, resource, absent=True) for task, resource in changed.values()]


def _told(resource: Resource, place: Place) -> Place:
    return replace(place, text=hide(place.text, getattr(resource, "secrets", ())))


def cited(context: HostContext, plays: Sequence[Play], field: str) -> list[Reached]:
    """Return the resources of the tasks that say of themselves that they follow from a field of the model.

    For a value that has no other: it cannot be seen what it makes a difference for.
    """
    found = ((task, resource) for task, resource in _resources(context, plays) if field in task.fields)
    return [
        Reached(task, r, (Place(r.version, path=("version",)),) if isinstance(r, Binary) else ())
        for task, r in found
    ]


def _resources(context: HostContext, plays: Sequence[Play]) -> Iterator[tuple[Task, Resource]]:
    for mine in evaluate(plays, context):
        for task in mine.tasks:
            # What is only waited for holds no value.
            yield from ((task, resource) for resource in task.resources if resource.kind != "Condition")


# How Nidome itself gets at a resource is no part of it.
_OURS = ("access", "take_over", "secrets")


def _places(mine: Resource, twin: Resource) -> Iterator[Place]:
    if isinstance(mine, Unit) and isinstance(twin, Unit) and mine.text != twin.text:
        yield from _lines(_arguments(mine.text), _arguments(twin.text))
    elif isinstance(mine, File) and isinstance(twin, File) and mine.content != twin.content:
        yield from _lines(mine.content, twin.content)
    elif isinstance(mine, KubeObject) and isinstance(twin, KubeObject) and mine.manifest != twin.manifest:
        secret = mine.manifest["kind"] == "Secret"
        yield from _fields(mine.manifest, twin.manifest, hidden=secret)
    else:
        for each in fields(mine):
            if each.name in _OURS:
                continue
            value = getattr(mine, each.name)
            if value != getattr(twin, each.name):
                yield Place(_shown(value), path=(each.name,))


def _arguments(text: str) -> str:
    """Return a unit's text without the marks that say that a command goes on: the last argument has none."""
    return "\n".join(line.removesuffix("\\").rstrip() for line in text.split("\n"))


def _lines(mine: str, other: str, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    lines, others = mine.splitlines(), other.splitlines()
    for tag, start, end, _, _ in difflib.SequenceMatcher(a=lines, b=others, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (Place(lines[n].strip(), n + 1, path) for n in range(start, end))


def _fields(mine: Any, other: Any, path: tuple[str | int, ...] = (), *, hidden: bool) -> Iterator[Place]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for name, value in mine.items():
            yield from _fields(value, other.get(name), (*path, name), hidden=hidden)
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for n, (value, twin) in enumerate(zip(mine, other, strict=True)):
            yield from _fields(value, twin, (*path, n), hidden=hidden)
    elif mine == other:
        return
    elif hidden:
        yield Place(HIDDEN, path=path)
    elif isinstance(mine, str) and isinstance(other, str) and "\n" in mine:
        yield from _lines(mine, other, path)
    else:
        yield Place(_shown(mine), path=path)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


# Another value, to see what follows from a value.

_TEXTS = (
    "9h9m9s",
    "/nidome/other",
    "https://other.example",
    "other.example",
    "127.0.0.9:9",
    "--other=1",
    "other=1:NoSchedule",
    "203.0.113.9",
    "other",
    "9",
)
_MAPS = ({"memory.available": "9%"}, {"other.example/other": "1"}, {"v": "9"}, {"other": "1"})


def other_values(value: Any) -> Iterator[Any]:
    """Give values of the same kind as ``value``, each different from it; some kinds refuse some of them."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, dict):
        yield from ({**value, **more} for more in _MAPS if not set(more) <= set(value))
        if value:
            yield {}
    elif isinstance(value, list | tuple):
        yield from ([*value, text] for text in _TEXTS if text not in value)
    else:
        yield from _other_texts(value)


def _other_texts(value: str | None) -> Iterator[str]:
    network, slash, length = (value or "").partition("/")
    if slash and length.isdigit():
        # The neighbour: as large, and not the same.
        octets = network.split(".")
        yield ".".join([octets[0], str((int(octets[1]) + 128) % 256), *octets[2:]]) + f"/{length}"
    yield from (text for text in _TEXTS if text != value)
