"""From an inventory to a ClusterSpec: the one call that commands make."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nidome.declare.inventory import Inventory, Layer, read_inventory
from nidome.declare.templating.values import HostValues, Templates, templates_in
from nidome.declare.variables import BY_NAME, VARIABLES, Computed, Variable
from nidome.declare.vault import NO_VAULT
from nidome.errors import DeclarationError
from nidome.model.findings import DeclarationWarning
from nidome.model.spec import ClusterSpec, HostSpec
from nidome.model.validate import check_release, validate
from nidome.provenance import DEFAULT, Origin, Sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from nidome.declare.groups import Entry
    from nidome.declare.known import Known
    from nidome.declare.vault import Vault
    from nidome.declare.yamlmarks import Node

__all__ = ["Declaration", "check_names", "declare", "did_you_mean", "load", "resolve"]

_GROUPS = ("kube_control_plane", "kube_node", "etcd")
_CLUSTER_GROUP = "k8s_cluster"
_NEAR = 0.8
"""How like a supported name must be: krew_enabled is 0.75 like helm_enabled, and another thing."""
_VALUES = ("variable-choice", "variable-differs", "variable-type")
_STRICT = ("variable-unknown", "variable-unsupported")


class Declaration(NamedTuple):
    """What an inventory declares, what should be said about it, and the inventory that it was read from."""

    spec: ClusterSpec
    warnings: list[DeclarationWarning]
    inventory: Inventory
    allow_pipe: bool

    def otherwise(self, name: str, value: Any) -> ClusterSpec:
        """Return what another value of a variable would declare; DeclarationError for a wrong one."""
        return resolve(self.inventory.with_value(name, value), allow_pipe=self.allow_pipe)


def load(
    inventory: Path | str | Sequence[Path | str], **how: Any
) -> tuple[ClusterSpec, list[DeclarationWarning]]:
    """Return the first two parts of what :func:`declare` gives: all that most who read an inventory need."""
    declaration = declare(inventory, **how)
    return declaration.spec, declaration.warnings


def declare(
    inventory: Path | str | Sequence[Path | str],
    *,
    extra_vars: Mapping[str, Any] | None = None,
    strict: bool = False,
    allow_pipe: bool = False,
    vault: Vault = NO_VAULT,
) -> Declaration:
    """Read an inventory, what ``-i`` names, and return what it declares, with what should be said about it.

    ``extra_vars`` win over every file. With ``strict``, a variable that nobody reads is an error. With
    ``allow_pipe``, templates may run commands on this machine. ``vault`` opens what is encrypted. Raises
    DeclarationError.
    """
    read = read_inventory(inventory, extra_vars=extra_vars, vault=vault)
    warnings = [*read.warnings, *check_names(read)]
    if strict:
        _refuse(warnings)
    spec = resolve(read, allow_pipe=allow_pipe)
    warnings += [*_unused_hosts(read, spec), *validate(spec)]
    check_release(spec)
    return Declaration(spec, warnings, read, allow_pipe)


def resolve(inventory: Inventory, *, allow_pipe: bool = False) -> ClusterSpec:
    """Return the cluster an inventory declares, each value typed and sourced, not yet checked as a whole."""
    names = [host for host in inventory.hosts if not set(_GROUPS).isdisjoint(inventory.groups_of(host))]
    templates = Templates(inventory, lambda values, name: _unset(values, name, len(names)), allow_pipe)
    wrong = _Wrong()
    with templates:
        variables = {host: templates.of(host) for host in _by_weight(inventory, names)}
        cluster = _cluster_values(variables, wrong)
        hosts = tuple(_host(inventory, name, variables[name], wrong) for name in names)
    wrong.refuse()
    return ClusterSpec(source=inventory.source, hosts=hosts, **cluster)


def _unset(values: HostValues, name: str, hosts: int) -> Any:
    """Return what a template gets for a variable that nobody has set: the default of a supported one.

    KeyError where there is none. Addresses and logins have none: ``default(…)`` in a template means them.
    """
    default = BY_NAME[name].default
    address = BY_NAME[name].scope == "host" and isinstance(default, Computed)
    if default is None or address or name.startswith("ansible_"):
        raise KeyError(name)
    return default.value(_InForce(values, hosts)) if isinstance(default, Computed) else default


class _InForce(dict[str, Any]):
    """The values that a computed default follows from, each read when it is asked for."""

    def __init__(self, values: HostValues, hosts: int) -> None:
        super().__init__(hosts=hosts, name=values.host)
        self.values_of_host = values
        self.hosts = hosts

    def __missing__(self, name: str) -> Any:
        entry = self.values_of_host.get(name)
        if entry is not None:
            return BY_NAME[name].read(entry).value
        return _unset(self.values_of_host, name, self.hosts)


def check_names(inventory: Inventory) -> list[DeclarationWarning]:
    """Return a warning for each variable that is written and not used, once for each place."""
    layers = list(_layers(inventory))
    others = [
        (name, entry) for layer in layers for name, entry in layer.entries.items() if name not in BY_NAME
    ]
    written = {name for layer in layers for name in layer.entries}
    used, asked = _read_by_templates({name for name, _ in others}, layers)
    found: dict[Origin, dict[str, DeclarationWarning]] = {}
    names: dict[str, _Name | None] = {}
    for name, entry in others:
        if name not in names:
            names[name] = None if name in used else _Name.of(name, asked=name in asked)
        ours = names[name]
        warning = None if ours is None else ours.warning(entry, written)
        if warning is not None:
            found.setdefault(entry.origin, {})[name] = warning
    return [warning for there in found.values() for warning in there.values()]


class _Name(NamedTuple):
    """What there is to say about a name that is not used, wherever it is written."""

    finding: DeclarationWarning
    known: Known | None = None

    @classmethod
    def of(cls, name: str, *, asked: bool) -> _Name | None:
        """Look the name up among kubespray's; None for another one that templates of known ones ask for."""
        from nidome.declare.known import known  # noqa: PLC0415 - read only where a variable is not used

        ours = known(name)
        if ours is None and asked:
            return None
        if ours is None:
            message = f"{name} is not a variable that anything reads"
            return cls(DeclarationWarning("variable-unknown", message, hint=did_you_mean(name)))
        message = f"{name} is known, not supported: {ours.effect}"
        return cls(DeclarationWarning("variable-unsupported", message, name=name, effect=ours.effect), ours)

    def warning(self, entry: Entry, written: Container[str]) -> DeclarationWarning | None:
        """Return the warning for one place; None where nothing differs by its value beside the rest."""
        if self.known is not None and self.known.is_silent(entry.node.value, written):
            return None
        return replace(self.finding, where=str(entry.origin))


def _layers(inventory: Inventory) -> Iterator[Layer]:
    """Yield each layer of the inventory once."""
    seen: set[int] = set()
    for host in inventory.hosts:
        for layer in inventory.layers(host):
            if id(layer.entries) not in seen:
                seen.add(id(layer.entries))
                yield layer


def _read_by_templates(names: set[str], layers: Sequence[Layer]) -> tuple[set[str], set[str]]:
    """Return the names that templates of supported variables use, and those that known ones ask for.

    A variable is used through any number of templates, also in branches that are not taken.
    """
    written: dict[str, list[Node]] = {}
    words: set[str] = set()
    for layer in layers:
        for name, entry in layer.entries.items():
            texts = list(templates_in(entry.node))
            if texts:
                written.setdefault(name, []).append(entry.node)
                words.update(word for text in texts for word in re.findall(r"\w+", text))
    if words.isdisjoint(names):
        return set(), set()
    from nidome.declare.known import known  # noqa: PLC0415 - read only where a variable is not used
    from nidome.declare.templating.names import reached  # noqa: PLC0415 - only where a template may use one

    used = reached((name for name in written if name in BY_NAME), written)
    return used, reached((name for name in written if known(name) is not None), written)


def did_you_mean(name: str) -> str:
    """Return the next step for a name that nothing reads: a supported one that is nearly the same, if any."""
    import difflib  # noqa: PLC0415 - costs as much as the whole inventory, and only a misspelt name needs it

    close = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=_NEAR)
    return f"did you mean {close[0]}?" if close else "remove it, or see docs/variables.md for the names"


def _refuse(warnings: Sequence[DeclarationWarning]) -> None:
    _raise_all([warning.as_error() for warning in warnings if warning.code in _STRICT])


def _raise_all(errors: Sequence[DeclarationError]) -> None:
    """Raise the first error with the others, if there is one."""
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


def _by_weight(inventory: Inventory, names: Sequence[str]) -> list[str]:
    """Return the hosts with those of k8s_cluster first: group_vars of the cluster speak for it."""
    return sorted(names, key=lambda host: _CLUSTER_GROUP not in inventory.groups_of(host))


class _Wrong:
    """The values that are not what their variables take: collected, so that all are told at once."""

    def __init__(self) -> None:
        self._found: dict[str, DeclarationError] = {}

    def read(self, value: Callable[[], Sourced[Any] | None]) -> Sourced[Any] | None:
        """Return a value, None where it is wrong: its default stands for it until all have been read.

        What is no value, such as a template that fails, is an error at once.
        """
        try:
            return value()
        except DeclarationError as error:
            if error.code not in _VALUES:
                raise
            self._found.setdefault(str(error), error)
            return None

    def refuse(self) -> None:
        """Raise the first wrong value with the others, if there is one."""
        _raise_all(list(self._found.values()))


def _cluster_values(variables: Mapping[str, HostValues], wrong: _Wrong) -> dict[str, Sourced[Any]]:
    known_values: dict[str, Any] = {"hosts": len(variables)}
    result: dict[str, Sourced[Any]] = {}
    for variable in VARIABLES:
        if variable.scope == "cluster":
            agreed = wrong.read(partial(_agreed, variable, variables))
            value = agreed or _default(variable, known_values, result)
            result[variable.model_field] = value
            known_values[variable.name] = value.value
    return result


def _agreed(variable: Variable, variables: Mapping[str, HostValues]) -> Sourced[Any] | None:
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
    origin = Origin(f"from {default.follows}", followed.origin.file, followed.origin.line)
    value = default.value(known_values)
    return Sourced(value, origin, secrets=(str(value),) if followed.secrets else ())


def _host(inventory: Inventory, name: str, entries: HostValues, wrong: _Wrong) -> HostSpec:
    known_values: dict[str, Any] = {"name": name}
    result: dict[str, Sourced[Any]] = {}
    for variable in VARIABLES:
        if variable.scope == "host":
            mine = wrong.read(partial(_own, variable, entries))
            value = mine or _default(variable, known_values, result)
            result[variable.model_field] = value
            known_values[variable.name] = value.value
    origin = inventory.host_origin(name)
    return HostSpec(name=name, groups=inventory.groups_of(name), origin=origin, **result)


def _own(variable: Variable, entries: HostValues) -> Sourced[Any] | None:
    entry = entries.get(variable.name)
    return None if entry is None else variable.read(entry)


def _unused_hosts(inventory: Inventory, spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    used = {host.name for host in spec.hosts}
    for name in inventory.hosts:
        if name not in used:
            message = f"the host '{name}' is in none of {', '.join(_GROUPS)}: nothing is done on it"
            yield DeclarationWarning("host-unused", message, str(inventory.host_origin(name)))
