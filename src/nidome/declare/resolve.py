"""From an inventory to a ClusterSpec: the one call that commands make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.declare.inventory import Inventory, Layer, read_inventory
from nidome.declare.variables import BY_NAME, VARIABLES, Computed, Variable
from nidome.errors import DeclarationError
from nidome.model.findings import DeclarationWarning
from nidome.model.spec import ClusterSpec, HostSpec
from nidome.model.validate import check_release, validate
from nidome.provenance import DEFAULT, Origin, Sourced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nidome.declare.groups import Entry

__all__ = ["check_names", "load", "resolve"]

_GROUPS = ("kube_control_plane", "kube_node", "etcd")
_CLUSTER_GROUP = "k8s_cluster"
_STRICT = ("variable-unknown", "variable-unsupported")


def load(
    inventory: Path, *, extra_vars: Mapping[str, Any] | None = None, strict: bool = False
) -> tuple[ClusterSpec, list[DeclarationWarning]]:
    """Read an inventory and return what it declares, with what should be said about it.

    ``extra_vars`` win over every file. With ``strict``, a variable that nobody reads is an error.
    Raises DeclarationError.
    """
    read = read_inventory(inventory, extra_vars=extra_vars)
    warnings = [*read.warnings, *check_names(read)]
    if strict:
        _refuse(warnings)
    spec = resolve(read)
    warnings += [*_unused_hosts(read, spec), *validate(spec)]
    check_release(spec)
    return spec, warnings


def resolve(inventory: Inventory) -> ClusterSpec:
    """Return the cluster an inventory declares, each value typed and sourced, not yet checked as a whole."""
    names = [host for host in inventory.hosts if not set(_GROUPS).isdisjoint(inventory.groups_of(host))]
    variables = {host: inventory.variables(host) for host in _by_weight(inventory, names)}
    cluster = _cluster_values(variables)
    hosts = tuple(_host(inventory, name, variables[name]) for name in names)
    return ClusterSpec(source=str(inventory.path), hosts=hosts, **cluster)


def check_names(inventory: Inventory) -> list[DeclarationWarning]:
    """Return a warning for each variable that is written and not used, once for each place."""
    found: dict[Origin, dict[str, DeclarationWarning]] = {}
    for name, entry in _written(inventory):
        warning = _name_warning(name, entry)
        if warning is not None:
            found.setdefault(entry.origin, {})[name] = warning
    return [warning for names in found.values() for warning in names.values()]


def _written(inventory: Inventory) -> Iterator[tuple[str, Entry]]:
    seen: set[int] = set()
    layers: list[Layer] = []
    for host in inventory.hosts:
        for layer in inventory.layers(host):
            if id(layer.entries) not in seen:
                seen.add(id(layer.entries))
                layers.append(layer)
    for layer in layers:
        yield from ((name, entry) for name, entry in layer.entries.items() if name not in BY_NAME)


def _name_warning(name: str, entry: Entry) -> DeclarationWarning | None:
    from nidome.declare.known import known  # noqa: PLC0415 - read only where a variable is not used

    where = str(entry.origin)
    ours = known(name)
    if ours is None:
        hint = _did_you_mean(name)
        return DeclarationWarning(
            "variable-unknown", f"{name} is not a variable that anything reads", where, hint
        )
    if any(type(entry.node.value) is type(value) and entry.node.value == value for value in ours.silent):
        return None
    return DeclarationWarning("variable-unsupported", f"{name} is known, not supported: {ours.effect}", where)


def _did_you_mean(name: str) -> str:
    import difflib  # noqa: PLC0415 - costs as much as the whole inventory, and only a misspelt name needs it

    from nidome.declare.known import KNOWN  # noqa: PLC0415 - as above

    close = difflib.get_close_matches(name, [*BY_NAME, *KNOWN], n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else "remove it, or see docs/variables.md for the names"


def _refuse(warnings: Sequence[DeclarationWarning]) -> None:
    refused = [warning for warning in warnings if warning.code in _STRICT]
    if refused:
        error = refused[0].as_error()
        if len(refused) > 1:
            error.message = f"{error.message} (and {len(refused) - 1} more)"
        raise error


def _by_weight(inventory: Inventory, names: Sequence[str]) -> list[str]:
    """Return the hosts with those of k8s_cluster first: group_vars of the cluster speak for it."""
    return sorted(names, key=lambda host: _CLUSTER_GROUP not in inventory.groups_of(host))


def _cluster_values(variables: Mapping[str, Mapping[str, Entry]]) -> dict[str, Sourced[Any]]:
    known_values: dict[str, Any] = {"hosts": len(variables)}
    result: dict[str, Sourced[Any]] = {}
    for variable in VARIABLES:
        if variable.scope == "cluster":
            value = _agreed(variable, variables) or _default(variable, known_values, result)
            result[variable.model_field] = value
            known_values[variable.name] = value.value
    return result


def _agreed(variable: Variable, variables: Mapping[str, Mapping[str, Entry]]) -> Sourced[Any] | None:
    """Return the value that the hosts which have one agree on."""
    first: Sourced[Any] | None = None
    read: set[int] = set()
    for host, entries in variables.items():
        entry = entries.get(variable.name)
        if entry is None or id(entry) in read:
            continue
        read.add(id(entry))
        value = variable.read(entry)
        if first is not None and value.value != first.value:
            message = f"{variable.name} is one for the cluster, and '{host}' has another than {first.origin}"
            hint = "set it once, in group_vars/all or group_vars/k8s_cluster"
            raise DeclarationError("variable-differs", message, where=str(value.origin), hint=hint)
        first = first or value
    return first


def _default(
    variable: Variable, known_values: Mapping[str, Any], sourced: Mapping[str, Sourced[Any]]
) -> Sourced[Any]:
    default = variable.default
    if not isinstance(default, Computed):
        return Sourced(default, DEFAULT)
    followed = sourced.get(BY_NAME[default.follows].model_field) if default.follows else None
    if followed is None or followed.origin == DEFAULT:
        return Sourced(default.value(known_values), DEFAULT)
    origin = followed.origin
    return Sourced(default.value(known_values), Origin(f"from {default.follows}", origin.file, origin.line))


def _host(inventory: Inventory, name: str, entries: Mapping[str, Entry]) -> HostSpec:
    known_values: dict[str, Any] = {"name": name}
    result: dict[str, Sourced[Any]] = {}
    for variable in VARIABLES:
        if variable.scope == "host":
            entry = entries.get(variable.name)
            value = variable.read(entry) if entry is not None else _default(variable, known_values, result)
            result[variable.model_field] = value
            known_values[variable.name] = value.value
    origin = inventory.host_origin(name)
    return HostSpec(name=name, groups=inventory.groups_of(name), origin=origin, **result)


def _unused_hosts(inventory: Inventory, spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    used = {host.name for host in spec.hosts}
    for name in inventory.hosts:
        if name not in used:
            message = f"the host '{name}' is in none of {', '.join(_GROUPS)}: nothing is done on it"
            yield DeclarationWarning("host-unused", message, str(inventory.host_origin(name)))
