"""Hosts, groups and their variables while an inventory is being read, and the order in which they win.

The rules are Ansible's: every group descends from ``all``; a group's depth is its longest way from
``all``; of two groups the deeper one wins, then the one of higher ``ansible_group_priority``, then the one
whose name sorts last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nidome.declare.patterns import check_group_name
from nidome.declare.yamlmarks import Field, Node, fail
from nidome.provenance import DEFAULT, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["MAX_GROUPS", "MAX_HOSTS", "Entry", "GroupDraft", "InventoryDraft"]


class Entry(NamedTuple):
    """A variable's value as written, with its origin (layer, file, line).

    ``uses`` names the variables that the value's template has used; None where it is no template.
    """

    node: Node
    origin: Origin
    uses: tuple[str, ...] | None = None


@dataclass(eq=False, repr=False)
class GroupDraft:
    """A group that is being read; ``place`` is where it is first mentioned."""

    name: str
    place: Origin = DEFAULT
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)
    variables: dict[str, Entry] = field(default_factory=dict)
    priority: int = 1
    depth: int = 0


MAX_HOSTS = 20_000
"""Hosts of an inventory: four times the largest cluster that Kubernetes supports."""

MAX_GROUPS = 5_000
"""Groups of an inventory."""


@dataclass(eq=False, repr=False)
class InventoryDraft:
    """What the sources of an inventory have said so far; several sources add to one draft."""

    hosts: dict[str, dict[str, Entry]] = field(default_factory=dict)
    places: dict[str, Origin] = field(default_factory=dict)  # of each host's first mention
    groups: dict[str, GroupDraft] = field(
        default_factory=lambda: {"all": GroupDraft("all"), "ungrouped": GroupDraft("ungrouped")}
    )
    _direct: dict[str, list[str]] = field(default_factory=dict)  # each host's own groups, once all is read

    def group(self, name: object, file: str, line: int) -> GroupDraft:
        """Return the group of that name, made if it is new."""
        known = self.groups.get(name) if isinstance(name, str) else None
        if known is None:
            valid = check_group_name(name, file, line)
            if len(self.groups) >= MAX_GROUPS:
                hint = "split the inventory: one for each cluster"
                fail("inventory-size", f"the inventory has more than {MAX_GROUPS} groups", file, line, hint)
            known = self.groups[valid] = GroupDraft(valid, Origin("inventory", file, line))
        return known

    def add_child(self, parent: str, child: str, file: str, line: int) -> None:
        """Put one group under another; a cycle is an error."""
        # Only a group that has groups beneath it can close a cycle.
        if child in {"all", parent} or (self.groups[child].children and child in self._ancestors(parent)):
            fail("group-cycle", f"the group '{child}' would be inside itself through '{parent}'", file, line)
        self.groups[parent].children[child] = None
        self.groups[child].parents[parent] = None

    def add_host(self, name: str, group: str, port: int | None, mark: tuple[str, int]) -> None:
        """Put a host into a group; the port of its first mention is its ansible_port."""
        if name not in self.hosts:
            if len(self.hosts) >= MAX_HOSTS:
                hint = "split the inventory: one for each cluster"
                fail("inventory-size", f"the inventory has more than {MAX_HOSTS} hosts", *mark, hint)
            self.hosts[name] = {}
            self.places[name] = Origin("inventory", *mark)
            if port is not None:
                self.set_host_variable(name, "ansible_port", Field(mark[1], 1, Node(port, *mark)))
        self.groups[group].hosts[name] = None

    def set_host_variable(self, host: str, name: str, value: Field) -> None:
        """Set a host's variable; the last one set wins."""
        self.hosts[host][name] = Entry(value.node, Origin(f"host {host}", value.node.file, value.line))

    def set_group_variable(self, group: str, name: str, value: Field) -> None:
        """Set a group's variable; the last one set wins, ``ansible_group_priority`` is the group's own."""
        draft = self.groups[group]
        if name != "ansible_group_priority":
            draft.variables[name] = Entry(value.node, Origin(f"group {group}", value.node.file, value.line))
            return
        try:
            draft.priority = int(value.node.value)
        except (TypeError, ValueError, OverflowError):
            fail(
                "variable-type", "ansible_group_priority must be a whole number", value.node.file, value.line
            )

    def finish(self) -> None:
        """Put all groups under ``all`` and hosts of no group into ``ungrouped``; work out the depths."""
        for conflict in sorted(self.hosts.keys() & self.groups.keys()):
            message = f"'{conflict}' is the name of a host and of a group"
            place = self.places[conflict]
            fail("host-is-group", message, place.file, place.line, "rename one of the two")
        for group in self.groups.values():
            if group.name != "all" and not group.parents:
                self.groups["all"].children[group.name] = None
                group.parents["all"] = None
        grouped = {
            host for g in self.groups.values() if g.name not in ("all", "ungrouped") for host in g.hosts
        }
        loose = self.groups["ungrouped"].hosts
        self.groups["ungrouped"].hosts = {h: None for h in [*loose, *self.hosts] if h not in grouped}
        for group in self.groups.values():
            for host in group.hosts:
                self._direct.setdefault(host, []).append(group.name)
        self._set_depths()

    def members(self, group: str) -> tuple[str, ...]:
        """Return the hosts of a group and of all groups beneath it: its own first, then level by level."""
        hosts = {host: None for name in self._beneath(group) for host in self.groups[name].hosts}
        return tuple(hosts)

    def groups_of(self, host: str) -> tuple[str, ...]:
        """Return the groups a host is in, ``all`` left out, the one that wins last; after :meth:`finish`."""
        direct = self._direct.get(host, [])
        names = {*direct, *self._walk(direct, lambda name: self.groups[name].parents)} - {"all"}
        return tuple(sorted(names, key=self._rank))

    def _rank(self, name: str) -> tuple[int, int, str]:
        group = self.groups[name]
        return (group.depth, group.priority, name)

    def _ancestors(self, name: str) -> set[str]:
        return set(self._walk((name,), lambda known: self.groups[known].parents))

    def _beneath(self, name: str) -> Iterator[str]:
        yield name
        yield from self._walk((name,), lambda known: self.groups[known].children)

    @staticmethod
    def _walk(start: Iterable[str], edges: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """Give what is reached from the start, level by level, each name once and no name of the start."""
        level = list(start)
        seen = set(level)
        while level:
            following = [name for known in level for name in edges(known)]
            level = [name for name in dict.fromkeys(following) if name not in seen]
            seen.update(level)
            yield from level

    def _set_depths(self) -> None:
        # The graph has no cycle (add_child), so this ends; each edge is looked at once per longer way.
        waiting = {g.name: len(g.parents) for g in self.groups.values()}
        ready = ["all"]
        while ready:
            group = self.groups[ready.pop()]
            for child in group.children:
                self.groups[child].depth = max(self.groups[child].depth, group.depth + 1)
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
