"""Marks the secrets of the declaration in each task's resources, so that they are never shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nidome.agent.hiding import is_brief, leaves, places
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nidome.agent.resources.base import Resource
    from nidome.roles.base import Task

__all__ = ["with_secrets"]


def with_secrets(task: Task, fields: Mapping[str, frozenset[str]]) -> Task:
    """Return the task with the secrets in its files, units and objects; ``fields`` has them by model field.

    A brief one (a number, true) is looked for only where the task says that it follows from its field:
    elsewhere the same text is something else.
    """
    texts = {
        text for name, found in fields.items() for text in found if not is_brief(text) or name in task.fields
    }
    return replace(task, resources=tuple(_marked(each, texts) for each in task.resources)) if texts else task


def _marked(resource: Resource, texts: Iterable[str]) -> Resource:
    if not isinstance(resource, File | Unit | KubeObject):
        return resource
    held = _texts(resource)
    found = tuple(sorted(text for text in texts if any(places(each, (text,)) for each in held)))
    return replace(resource, secrets=found) if found else resource


def _texts(resource: File | Unit | KubeObject) -> list[str]:
    if isinstance(resource, File):
        return [resource.content]
    if isinstance(resource, Unit):
        return [resource.text]
    return [text for _, text in leaves(resource.manifest)]
