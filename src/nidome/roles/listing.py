"""What plays consist of, told without asking any host: for --list-tasks, --list-tags and --syntax-check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.roles.base import HostContext, InstalledArtifact, Task
from nidome.roles.playbook import artifact_names, evaluate, first_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec, HostSpec
    from nidome.roles.base import Play

__all__ = ["OPTIONAL_TAGS", "ListedPlay", "listing"]

OPTIONAL_TAGS = frozenset({"helm", "images", "node-taint"})
"""Tags of tasks that exist only where something is declared: no mistake where it is not."""

# Titles and tags follow from the declaration; from the host only whether a task is there at all. These are
# the facts of a host on which nothing is yet, and that needs most: an old systemd.
_FACTS: dict[str, Any] = {
    **dict.fromkeys(("hostname", "architecture", "os", "os_version", "kernel", "python", "nft"), ""),
    **dict.fromkeys(("uid", "systemd", "cpus", "memory_mib"), 0),
    **dict.fromkeys(("os_like", "cgroup_controllers", "listening", "routes", "addresses"), ()),
    **dict.fromkeys(("sockets", "directories", "units", "ledger"), ()),
    **{name: {} for name in ("free_mib", "writable", "filesystems", "declared")},
    **dict.fromkeys(("cap_sys_resource", "resolved", "openssl"), False),
    "cgroup": 2,
}


class _Named(Mapping[str, InstalledArtifact]):
    """Artifacts of which nothing but the name is known: what is listed is not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> InstalledArtifact:
        if name not in self._names:
            raise KeyError(name)
        return InstalledArtifact("", "", reference=name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class ListedPlay:
    """A play with its hosts, and its tasks in order, each once; ``tags`` are the play's own."""

    name: str
    pattern: str
    tags: tuple[str, ...]
    hosts: tuple[str, ...]
    tasks: tuple[Task, ...]


def listing(plays: Sequence[Play], spec: ClusterSpec, hosts: Sequence[HostSpec]) -> list[ListedPlay]:
    """Return the plays with what they do on these hosts of a cluster."""
    artifacts = _Named(artifact_names(plays, spec))
    evaluated = [evaluate(plays, HostContext(spec, host, _FACTS, artifacts)) for host in hosts]
    firsts = first_hosts(spec)
    listed = []
    for play in plays:
        found = [task for mine in evaluated for each in mine if each.play is play for task in each.tasks]
        tasks = {task.title: task for task in found}
        names = tuple(host.name for host in hosts if play.concerns(host, firsts))
        listed.append(ListedPlay(play.name, play.pattern, play.tags, names, tuple(tasks.values())))
    return listed
