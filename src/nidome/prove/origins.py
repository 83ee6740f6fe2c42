"""Who wrote a value: every layer that has it for a host, the one that wins, and what stands against it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome.declare.known import known
from nidome.declare.resolve import did_you_mean
from nidome.declare.templating.values import templates_in
from nidome.declare.variables import BY_NAME, VARIABLES, Computed
from nidome.errors import DeclarationError, UsageError
from nidome.model.spec import HIDDEN, PASSWORDS, shown, shown_field
from nidome.prove.reach import other_values
from nidome.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.declare.groups import Entry
    from nidome.declare.inventory import Inventory
    from nidome.declare.resolve import Declaration
    from nidome.declare.variables import Variable
    from nidome.model.spec import ClusterSpec
    from nidome.provenance import Sourced

__all__ = ["Answer", "Written", "alternatives", "model_field", "origins"]


_SHOWN = 60


@dataclass(frozen=True)
class Written:
    """One layer that has the value: its name, the place, the text as written, and whether it wins."""

    layer: str
    place: str
    value: str
    wins: bool


@dataclass(frozen=True)
class Answer:
    """A value in force for a host.

    ``written`` is strongest first. ``default`` is what would hold without them, "" where nothing would.
    ``follows`` is where a value comes from that no layer has. ``uses`` are the variables that its template
    refers to, ``used_by`` the supported ones whose templates refer to it. ``field`` is its place in the
    model, "" for a name that the model does not have; ``ignored`` then says what that means.
    """

    name: str
    host: str
    value: str
    written: tuple[Written, ...]
    default: str
    follows: str = ""
    uses: tuple[str, ...] = ()
    field: str = ""
    ignored: str = ""
    used_by: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return asdict(self)


def origins(key: str, declaration: Declaration, host: str) -> Answer:
    """Return what is in force for a host under a name, a variable's or a field's of the model.

    Raises UsageError ``name-unknown`` for a name that nobody has written and nothing reads.
    """
    variable = _variable(key)
    name = variable.name if variable else key
    written = tuple(_written(declaration.inventory, host, name))
    if variable is None:
        return _unread(name, host, written, _users(name, declaration, host))
    holder = _holder(declaration.spec, variable, host)
    value: Sourced[Any] = getattr(holder, variable.model_field)
    default, text = variable.default, shown_field(holder, variable.model_field)
    if variable.model_field in PASSWORDS:
        written = tuple(replace(each, value=HIDDEN) for each in written)
    return Answer(
        name,
        host,
        text,
        written,
        default.words if isinstance(default, Computed) else shown(default),
        str(value.origin) if not written and value.origin != DEFAULT else "",
        value.uses,
        f"{type(holder).__name__}.{variable.model_field}",
    )


def _variable(key: str) -> Variable | None:
    return BY_NAME.get(key) or next((v for v in VARIABLES if v.model_field == key), None)


def model_field(key: str) -> str:
    """Return the field of the model that a name stands for, "" where the model has none."""
    variable = _variable(key)
    return variable.model_field if variable else ""


def _holder(spec: ClusterSpec, variable: Variable, host: str) -> Any:
    return spec if variable.scope == "cluster" else spec.host(host)


def _written(inventory: Inventory, host: str, name: str) -> Iterator[Written]:
    layers = [layer for layer in inventory.layers(host) if name in layer.entries]
    for number, layer in enumerate(reversed(layers)):
        entry = layer.entries[name]
        yield Written(layer.name, str(entry.origin), _text(entry), wins=number == 0)


def _text(entry: Entry) -> str:
    return HIDDEN if entry.node.secret else shown(entry.node.value)


def _users(name: str, declaration: Declaration, host: str) -> list[Variable]:
    """Return the supported variables whose templates refer to this one, through any number of others."""
    entries = declaration.inventory.variables(host)
    written = {each: [e.node] for each, e in entries.items() if any(templates_in(e.node))}
    if not written:
        return []
    from nidome.declare.templating.names import reached  # noqa: PLC0415 - imports Jinja2

    return [v for v in VARIABLES if v.name in written and name in reached([v.name], written)]


def _unread(name: str, host: str, written: tuple[Written, ...], users: Sequence[Variable]) -> Answer:
    if users:
        used_by = tuple(variable.name for variable in users)
        return Answer(name, host, written[0].value if written else "unset", written, "", used_by=used_by)
    ours = known(name)
    if ours is None and not written:
        raise UsageError(
            "name-unknown",
            f"nobody has written '{name[:_SHOWN]}', and nothing would read it",
            where="nidome why",
            hint=did_you_mean(name),
        )
    reason = f"it is known, not supported: {ours.effect}" if ours else "nothing reads it"
    return Answer(name, host, written[0].value if written else "unset", written, "", ignored=reason)


def alternatives(key: str, declaration: Declaration, host: str) -> Iterator[ClusterSpec]:
    """Give the cluster with other values under this name, to see what they make a difference for."""
    variable = _variable(key)
    name = variable.name if variable else key
    for value in _others(variable, declaration, host, name):
        try:
            yield declaration.otherwise(name, value)
        except DeclarationError:
            continue  # another kind of value than this one
    if variable is None:
        for user in _users(name, declaration, host):
            yield from alternatives(user.name, declaration, host)


def _others(variable: Variable | None, declaration: Declaration, host: str, name: str) -> Iterator[Any]:
    if variable is None:
        entry = declaration.inventory.variables(host).get(name)
        yield from other_values(entry.node.value) if entry else ()
        return
    value = getattr(_holder(declaration.spec, variable, host), variable.model_field).value
    yield from (choice for choice in variable.kind.choices if choice != value)
    yield from other_values(value)
