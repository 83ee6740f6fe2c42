"""The values of each host, with templates rendered when they are used, once.

A rendered value is kept for all hosts on which everything that it used is the same entry of the inventory, so
that a value of group_vars is rendered once and not once for each host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from nidome.declare.groups import Entry
from nidome.declare.sources import LIST
from nidome.declare.templating.problems import Problem
from nidome.declare.yamlmarks import Field, Node, as_secret
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.declare.inventory import Inventory
    from nidome.declare.templating.engine import Engine

__all__ = ["HOST_NAMES", "HostValues", "Templates", "is_template", "templates_in"]

_MARKS = ("{{", "{%", "{#")
_MOST_NESTED = 40  # variables whose templates refer to each other; Python's own stack holds some more
_OMIT = "__omitted_by_the_template__"
_ABSENT = object()
HOST_NAMES = (
    "inventory_hostname",
    "inventory_hostname_short",
    "group_names",
    "vars",
    "inventory_dir",
    "inventory_file",
)
"""Variables that each host has of its own; ``groups``, ``hostvars`` and ``omit`` are the same on all."""


def is_template(value: object) -> bool:
    """Whether a value is a text that Jinja2 has something to do in."""
    return isinstance(value, str) and "{" in value and any(mark in value for mark in _MARKS)


def templates_in(node: Node) -> Iterator[str]:
    """Yield the templates in a value, however deep."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if is_template(current.value) and not current.literal:
            yield current.value
        waiting.extend(current.items)
        waiting.extend(each.node for each in current.fields.values())


@dataclass(eq=False, repr=False)
class _Use:
    """What a template has used while it was rendered."""

    host: str
    name: str
    node: Node
    direct: dict[str, None] = field(default_factory=dict)
    entries: dict[str, Entry | None] = field(default_factory=dict)
    varies: bool = False
    secret: bool = False

    def take_over(self, other: _Use) -> None:
        """Note that another value's template was used."""
        self.entries.update(other.entries)
        self.varies = self.varies or other.varies


@dataclass(frozen=True, eq=False, repr=False)
class _Outcome:
    """A rendered entry, or the problem with it; ``entry`` is None where the template omits the value."""

    use: _Use
    entry: Entry | None
    error: DeclarationError | None = None
    missing: bool = False


@dataclass(eq=False, repr=False)
class Templates:
    """The rendered values of an inventory.

    ``default`` gives the value that a variable has on a host where nobody has set it, and raises KeyError
    where it has none. ``allow_pipe`` lets templates run commands on this machine.
    """

    inventory: Inventory
    default: Callable[[HostValues, str], Any]
    allow_pipe: bool = False
    _hosts: dict[str, HostValues] = field(default_factory=dict)
    _plain: dict[int, bool] = field(default_factory=dict)
    _kept: dict[int, list[_Outcome]] = field(default_factory=dict)
    _active: list[_Use] = field(default_factory=list)
    _engine: Engine | None = None
    _limits: ExitStack | None = None

    def __enter__(self) -> Self:
        """Set limits of time and memory up at the first template, once for all."""
        self._limits = ExitStack()
        return self

    def __exit__(self, *_error: object) -> None:
        """Take the limits away; what is rendered from now on has its own."""
        if self._limits is not None:
            self._limits.close()
        self._limits = self._engine = None

    def of(self, host: str) -> HostValues:
        """Return the values of a host."""
        if host not in self._hosts:
            self._hosts[host] = HostValues(self, host, self.inventory.variables(host))
        return self._hosts[host]

    def entry(self, values: HostValues, name: str, entry: Entry) -> Entry | None:
        """Return an entry rendered, None where its template omits it; DeclarationError where it cannot be."""
        if self.is_plain(entry):
            return entry
        outcome = self.outcome(values, name, entry)
        self.take_over(outcome.use)
        if outcome.error is not None:
            raise outcome.error
        return outcome.entry

    def is_plain(self, entry: Entry) -> bool:
        """Whether an entry holds no template."""
        plain = self._plain.get(id(entry))
        if plain is None:
            plain = self._plain[id(entry)] = next(templates_in(entry.node), None) is None
        return plain

    def outcome(self, values: HostValues, name: str, entry: Entry) -> _Outcome:
        """Return what rendering an entry gives, at its first use or from an earlier one."""
        kept = values.outcomes.get(name) or self._reusable(values, entry)
        if kept is None:
            kept = self._render(values, name, entry)
            if not kept.use.varies:
                self._kept.setdefault(id(entry), []).insert(0, kept)
        values.outcomes[name] = kept
        return kept

    def _reusable(self, values: HostValues, entry: Entry) -> _Outcome | None:
        # The newest two: a value that depends on what each host has would be compared with every host's.
        for kept in self._kept.get(id(entry), ())[:2]:
            if all(values.raw.get(name) is used for name, used in kept.use.entries.items()):
                return kept
        return None

    def _render(self, values: HostValues, name: str, entry: Entry) -> _Outcome:
        use = _Use(values.host, name, entry.node, secret=entry.node.secret)
        self._check_nesting(use)
        self._active.append(use)
        try:
            node = self._node(entry.node, values)
        except DeclarationError as error:
            return _Outcome(use, None, error, missing=error.code == "template-undefined")
        finally:
            self._active.pop()
        if node.value == _OMIT:
            return _Outcome(use, None)
        return _Outcome(use, Entry(node, entry.origin, tuple(use.direct)))

    def _check_nesting(self, use: _Use) -> None:
        path = [*self._active, use]
        same = [
            number
            for number, each in enumerate(self._active)
            if (each.host, each.name) == (use.host, use.name)
        ]
        if same:
            shown = " → ".join(f"{each.name} ({each.node.where})" for each in path[same[0] : -1])
            message = f"the variable {use.name} is defined by itself: {shown} → {use.name}"
            self._fail("template-recursion", message, use.node, "give one of them a value of its own")
        if len(path) > _MOST_NESTED:
            message = (
                f"more than {_MOST_NESTED} variables refer to one another, beginning with {path[0].name}"
            )
            self._fail("template-recursion", message, use.node, "write some of the values themselves")

    @staticmethod
    def _fail(code: str, message: str, node: Node, hint: str) -> NoReturn:
        raise DeclarationError(code, message, where=node.where, hint=hint)

    def _node(self, node: Node, values: HostValues) -> Node:
        """Return a node with each template in it replaced by its value, in the same place."""
        if node.items:
            items = tuple(self._node(item, values) for item in node.items)
            secret = node.secret or any(item.secret for item in items)
            return node._replace(value=[item.value for item in items], items=items, secret=secret)
        if node.fields:
            fields = {
                key: each._replace(node=self._node(each.node, values)) for key, each in node.fields.items()
            }
            secret = node.secret or any(each.node.secret for each in fields.values())
            value = {key: each.node.value for key, each in fields.items()}
            return node._replace(value=value, fields=fields, secret=secret)
        if node.literal or not is_template(node.value):
            return node
        return self._rendered(node, values)

    def _rendered(self, node: Node, values: HostValues) -> Node:
        """Return what a template gives; it alone is a secret where it uses one, not what stands beside it."""
        use = self._active[-1]
        others, use.secret = use.secret, node.secret
        made = _as_node(self._text(node, values), node)
        made = as_secret(made) if use.secret else made
        use.secret = use.secret or others
        return made

    def _text(self, node: Node, values: HostValues) -> Any:
        try:
            return self.engine.render(node.value, values)
        except Problem as problem:
            from nidome.declare.templating.places import place  # noqa: PLC0415 - only a problem has to be found

            where = place(node, problem.line, problem.name)
            message = problem.message
            if problem.code == "template-failed" and self._active and self._active[-1].secret:
                message = "the template fails; why is not shown because it uses what is encrypted"
            raise DeclarationError(problem.code, message, where=where, hint=problem.hint) from None

    @property
    def engine(self) -> Engine:
        """Return the template engine; the first template that is used pays for its import."""
        if self._engine is None:
            from nidome.declare.templating.bounds import guarded  # noqa: PLC0415 - as it says
            from nidome.declare.templating.engine import Engine  # noqa: PLC0415 - as it says

            self._engine = Engine(self._limits.enter_context(guarded()) if self._limits else None)
        return self._engine

    def note(self, name: str, entry: Entry | None, *, varies: bool = False) -> None:
        """Note that the template being rendered uses a variable of its own host."""
        if self._active:
            use = self._active[-1]
            use.direct[name] = None
            use.entries[name] = entry
            use.varies = use.varies or varies

    def note_secret(self, *, secret: bool) -> None:
        """Note that the template being rendered uses something encrypted: its value is secret too."""
        if self._active and secret:
            self._active[-1].secret = True

    def take_over(self, use: _Use) -> None:
        """Note that the template being rendered depends on all that another one has used."""
        self.note_secret(secret=use.secret)
        if self._active and self._active[-1].host == use.host:
            self._active[-1].take_over(use)

    def is_own(self, host: str) -> bool:
        """Whether the template being rendered is that host's; what it uses of another is the same for all."""
        return not self._active or self._active[-1].host == host


@dataclass(eq=False, repr=False)
class HostValues:
    """The values of a host: what is written (``raw``), and what it means.

    To the reader of a declaration it is a table of entries (``get``); to a template it is a scope (``find``).
    """

    templates: Templates
    host: str
    raw: Mapping[str, Entry]
    outcomes: dict[str, _Outcome] = field(default_factory=dict)

    def get(self, name: str) -> Entry | None:
        """Return the entry of a variable, rendered; None where it is not set, or omitted by its template."""
        entry = self.raw.get(name)
        self._note(name, entry)
        return None if entry is None else self.templates.entry(self, name, entry)

    @property
    def directory(self) -> str:
        """Return the directory that relative paths of lookups are in."""
        return str(self.templates.inventory.directory.absolute())

    @property
    def allow_pipe(self) -> bool:
        """Return whether templates may run commands on this machine."""
        return self.templates.allow_pipe

    def find(self, name: str) -> Any:
        """Return a variable's value for a template; Jinja2's ``missing`` where it has none."""
        from jinja2.utils import missing  # noqa: PLC0415 - the engine that asks has imported it

        if name in _SPECIAL:
            self._note(name, None, varies=name in HOST_NAMES)
            return _SPECIAL[name](self)
        entry = self.raw.get(name)
        self._note(name, entry)
        if entry is None:
            value = self._default(name)
            return missing if value is _ABSENT else value
        return entry.node.value if self.templates.is_plain(entry) else self._rendered(name, entry)

    def _note(self, name: str, entry: Entry | None, *, varies: bool = False) -> None:
        self.templates.note_secret(secret=entry is not None and entry.node.secret)
        if self.templates.is_own(self.host):
            self.templates.note(name, entry, varies=varies)
        else:
            self.templates.note(f"hostvars['{self.host}'].{name}", None)

    def _rendered(self, name: str, entry: Entry) -> Any:
        from nidome.declare.templating.engine import Undefined  # noqa: PLC0415 - as in find

        outcome = self.templates.outcome(self, name, entry)
        self.templates.take_over(outcome.use)
        if outcome.missing:
            return Undefined(name=name, cause=outcome.error)
        if outcome.error is not None:
            raise outcome.error
        return _OMIT if outcome.entry is None else outcome.entry.node.value

    def _default(self, name: str) -> Any:
        try:
            value = self.templates.default(self, name)
        except KeyError:
            return _ABSENT
        return list(value) if isinstance(value, tuple) else value

    def written(self, name: str) -> Any:
        """Return a variable's value as it is written, or its default; an empty text where it has neither."""
        entry = self.raw.get(name)
        if name in _SPECIAL or (entry is not None and not self.templates.is_plain(entry)):
            return ""
        value = self._default(name) if entry is None else entry.node.value
        return "" if value is _ABSENT else value

    def names(self) -> list[str]:
        """Return the names of what is set on the host, and of what each host has."""
        return [*self.raw, *_SPECIAL]


def _as_node(value: Any, template: Node) -> Node:
    """Return a rendered value in the template's place; text is read by the type of its variable."""
    file, line, column = template.file, template.line, template.column
    if isinstance(value, Mapping):
        fields = {key: Field(line, column, _as_node(item, template)) for key, item in value.items()}
        return Node({key: each.node.value for key, each in fields.items()}, file, line, column, fields)
    if isinstance(value, list | tuple | set | frozenset):
        items = tuple(_as_node(item, template) for item in value)
        return Node([item.value for item in items], file, line, column, {}, items)
    if not (value is None or isinstance(value, bool | int | float | str)):
        value = str(value)
    return Node(value, file, line, column, untyped=isinstance(value, str), literal=True)


class _Whole:
    """What a template may look into, and not write out: as a text it would differ at each run."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Refuse; ``str`` and ``string`` come here too."""
        message = "hostvars and vars cannot be written out as a whole"
        raise Problem(
            "template-failed", message, hint="name what is meant: hostvars['node1'].ip, or a variable"
        )


class _View(_Whole, Mapping[str, Any]):
    """A host's variables as a template sees them in hostvars."""

    __slots__ = ("_values",)

    def __init__(self, values: HostValues) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        from jinja2.utils import missing  # noqa: PLC0415 - a template asks, so it is imported

        found = self._values.find(name)
        if found is missing:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._values.raw)

    def __len__(self) -> int:
        return len(self._values.raw)


class _Hosts(_Whole, Mapping[str, Mapping[str, Any]]):
    """``hostvars``: the variables of each host."""

    __slots__ = ("_templates",)

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        if host not in self._templates.inventory.hosts:
            raise KeyError(host)
        return _View(self._templates.of(host))

    def __iter__(self) -> Iterator[str]:
        return iter(self._templates.inventory.hosts)

    def __len__(self) -> int:
        return len(self._templates.inventory.hosts)


def _file(values: HostValues) -> str:
    file = values.templates.inventory.host_origin(values.host).file
    return "" if file == LIST else os.path.abspath(file)  # noqa: PTH100 - links are kept as they are written


def _group_names(values: HostValues) -> list[str]:
    return sorted(values.templates.inventory.groups_of(values.host))


_SPECIAL: Mapping[str, Callable[[HostValues], Any]] = {
    "group_names": _group_names,
    "groups": lambda values: {name: list(hosts) for name, hosts in values.templates.inventory.groups.items()},
    "hostvars": lambda values: _Hosts(values.templates),
    "inventory_dir": lambda values: str(Path(_file(values)).parent),
    "inventory_file": _file,
    "inventory_hostname": lambda values: values.host,
    "inventory_hostname_short": lambda values: values.host.split(".")[0],
    "omit": lambda _: _OMIT,
    "vars": _View,
}
