"""Plays, tasks and handlers: what a host must have, as data for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.unit import Restart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.agent.resources.base import Resource
    from nidome.agent.resources.condition import Condition
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["Handler", "HostContext", "InstalledArtifact", "Play", "Role", "Task", "on_control_plane"]


@dataclass(frozen=True)
class InstalledArtifact:
    """An artifact as roles see it: enough to say what must be on the host."""

    version: str
    sha256: str
    size: int = 0
    reference: str = ""


@dataclass(frozen=True)
class HostContext:
    """All that a role may look at: the cluster, the host, the host's facts and the artifacts."""

    spec: ClusterSpec
    host: HostSpec
    facts: Mapping[str, Any]
    artifacts: Mapping[str, InstalledArtifact]


@dataclass(frozen=True)
class Task:
    """Resources that belong together under a name people know.

    ``fields`` names the model's fields that the resources were made from, for a change's ``because``.
    Resources of one task do not depend on each other, except that directories come first.
    A task without resources tells of work that every run does before its first play: ``phase`` names the
    part of the run whose time is the task's, "" where it takes none worth telling.
    """

    role: str
    name: str
    resources: tuple[Resource, ...]
    tags: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    phase: str = ""

    @property
    def title(self) -> str:
        """``role : name``, the way it is printed."""
        return f"{self.role} : {self.name}"


@dataclass(frozen=True)
class Handler:
    """Restarts a unit whose inputs changed, then waits for ``ready``."""

    role: str
    name: str
    unit: str
    inputs: tuple[str, ...]
    tags: tuple[str, ...] = ()
    ready: Condition | None = None

    @property
    def title(self) -> str:
        """``role : name``, the way it is printed."""
        return f"{self.role} : {self.name}"

    @property
    def restart(self) -> Restart:
        """The resource that the handler brings about."""
        return Restart(self.unit, self.inputs)


@dataclass(frozen=True)
class Role:
    """A named part of a play; its functions read a context and return data.

    ``artifacts`` names what must be fetched before the context can be made.
    """

    name: str
    tasks: Callable[[HostContext], list[Task]]
    handlers: Callable[[HostContext], list[Handler]] = lambda _: []
    artifacts: Callable[[ClusterSpec], tuple[str, ...]] = lambda _: ()
    applies: Callable[[HostContext], bool] = lambda _: True


def on_control_plane(context: HostContext) -> bool:
    """Tell whether the API server runs on the host: for roles in plays that other hosts are in too."""
    return context.host.is_control_plane


@dataclass(frozen=True)
class Play:
    """Roles for the hosts of some groups, in order; a play without roles is only a heading.

    ``groups`` are written as in a playbook: ``all`` is every host, ``GROUP[0]`` the first host of a group.
    """

    name: str
    groups: tuple[str, ...]
    roles: tuple[Role, ...]
    tags: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        """The host pattern, the way it is printed."""
        return ":".join(self.groups)

    def concerns(self, host: HostSpec, first_of: Mapping[str, str] | None = None) -> bool:
        """Tell whether the play runs on a host; ``first_of`` names the first host of each group."""
        firsts = first_of or {}
        return any(
            group in ("all", *host.groups) or (group.endswith("[0]") and firsts.get(group[:-3]) == host.name)
            for group in self.groups
        )
