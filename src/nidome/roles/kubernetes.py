"""What the roles of Kubernetes' own components share: installing a binary, starting it, restarting it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nidome.agent.resources.binary import Binary
from nidome.roles.base import Handler, HostContext, Task
from nidome.roles.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.agent.resources.base import Resource
    from nidome.agent.resources.condition import Condition
    from nidome.roles.units import Service

__all__ = ["Component", "kubernetes_binary"]


def kubernetes_binary(context: HostContext, name: str) -> Binary:
    """Return one of Kubernetes' binaries; several may be names of the same file."""
    found = context.artifacts[name]
    return Binary(Paths(context.spec).binary(name), found.sha256, found.version, found.size)


@dataclass(frozen=True)
class Component:
    """One component: its binary, the files that it reads, its service.

    ``configuration`` gives the files that are written before it starts, ``fields`` the declared values that
    shape its command line and files, ``ready`` what its restart handler waits for.
    """

    role: str
    name: str
    tags: tuple[str, ...]
    service: Callable[[HostContext], Service]
    configuration: Callable[[HostContext], tuple[Resource, ...]]
    fields: tuple[str, ...] = ()
    ready: Callable[[HostContext], Condition] | None = None

    def install(self, context: HostContext) -> list[Task]:
        """Return the tasks that put its binary and its files in place."""
        return [self.binary(context), self.files(context)]

    def binary(self, context: HostContext) -> Task:
        """Return the task that puts its binary in place."""
        return Task(
            self.role,
            f"Install {self.name}",
            (kubernetes_binary(context, self.name),),
            (*self.tags, "download", "upgrade"),
            ("kube_version", "bin_dir"),
        )

    def files(self, context: HostContext) -> Task:
        """Return the task that writes what it reads."""
        name, resources = f"Write {self.name} configuration", self.configuration(context)
        return Task(self.role, name, resources, self.tags, self.fields)

    def start(self, context: HostContext) -> Task:
        """Return the task that has it running."""
        return Task(
            self.role,
            f"Start {self.name}",
            (self.service(context).unit(context.facts),),
            self.tags,
            self.fields,
        )

    def handler(self, context: HostContext) -> Handler:
        """Return the handler that restarts it."""
        unit = self.service(context).unit(context.facts)
        ready = self.ready(context) if self.ready else None
        return Handler(self.role, f"Restart {self.name}", unit.name, unit.inputs, self.tags, ready)
