"""Write the inventory that ``nidome up`` used, for a person to edit and apply from then on.

Each file appears whole or not at all, and one that exists is left as it is: it is the person's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nidome.declare.groups import Entry
from nidome.declare.templating.values import is_template
from nidome.declare.variables import BY_NAME, VARIABLES, Computed, Variable
from nidome.declare.yamlmarks import parse_yaml
from nidome.errors import DeclarationError, UsageError
from nidome.provenance import DEFAULT, Origin, Sourced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["Written", "declared", "write_inventory"]

_GROUPS = ("kube_control_plane", "kube_node", "etcd")
_HOSTS = "hosts.yaml"
_ABOUT_HOSTS = (
    "The hosts of the cluster and what each is for. Edit it, then: nidome plan -i DIRECTORY",
    "docs/inventory.md says how hosts, groups and variables come together.",
)
_ABOUT_FILE = (
    "Lines that start with '# name:' show a default that is in force; remove the '# ' to set another value.",
    "docs/variables.md lists every variable.",
)


@dataclass(frozen=True)
class Written:
    """The files that were written, and those that existed and were kept as they are."""

    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def write_inventory(
    directory: Path,
    *,
    hosts: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Any] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Written:
    """Write ``hosts.yaml`` and ``group_vars/`` with kubespray's names.

    ``hosts`` maps each host to its variables, ``variables`` are the cluster's; ``groups`` are the members of
    kube_control_plane, kube_node and etcd, every host by default. Raises UsageError for a name that no
    variable has and DeclarationError for a wrong value or a directory that cannot be written.
    """
    values = dict(variables or {})
    _check(values, "cluster", "variables")
    for name, own in hosts.items():
        _check(own, "host", f"host {name}")
    texts = {_HOSTS: _hosts_text(hosts, groups or dict.fromkeys(_GROUPS, tuple(hosts)))}
    for variable in VARIABLES:
        if variable.scope == "cluster" and variable.file not in texts:
            texts[variable.file] = _file_text(variable.file, values)
    return _write_all(directory, texts)


def declared(
    spec: ClusterSpec,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any], dict[str, tuple[str, ...]]]:
    """Return the hosts, variables and groups with which :func:`write_inventory` declares the same cluster."""
    hosts = {host.name: _set_values(host, "host") for host in spec.hosts}
    groups = {name: tuple(host.name for host in spec.hosts if name in host.groups) for name in _GROUPS}
    return hosts, _set_values(spec, "cluster"), groups


def _set_values(spec: ClusterSpec | HostSpec, scope: str) -> dict[str, Any]:
    result = {}
    for variable in VARIABLES:
        if variable.scope == scope:
            sourced: Sourced[Any] = getattr(spec, variable.model_field)
            if sourced.origin != DEFAULT and not sourced.origin.layer.startswith("from "):
                result[variable.name] = sourced.value
    return result


def _check(values: Mapping[str, Any], scope: str, where: str) -> None:
    for name, value in values.items():
        variable = BY_NAME.get(name)
        if variable is None or variable.scope != scope:
            message = f"{name} is not a variable of a {scope}"
            raise UsageError("variable-unknown", message, where=where, hint="docs/variables.md has the names")
        node = parse_yaml(_dump(name, value), where).fields[name].node
        variable.read(Entry(node, Origin(where)))


def _hosts_text(hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> str:
    children: dict[str, Any] = {
        name: {"hosts": {host: {} for host in members}} for name, members in groups.items()
    }
    own = {name: {key: _plain(value) for key, value in values.items()} for name, values in hosts.items()}
    tree = {"all": {"hosts": own, "children": children}}
    return _comments(_ABOUT_HOSTS) + _yaml(tree)


def _file_text(file: str, values: Mapping[str, Any]) -> str:
    parts = [_comments(_ABOUT_FILE)]
    parts += [_variable_text(variable, values) for variable in VARIABLES if _is_in(variable, file)]
    return "\n".join(parts)


def _is_in(variable: Variable, file: str) -> bool:
    return variable.scope == "cluster" and variable.file == file


def _variable_text(variable: Variable, values: Mapping[str, Any]) -> str:
    about = [f"{variable.meaning} Expected: {variable.kind.expected}."]
    about += [variable.difference] if variable.difference else []
    if variable.name in values:
        return _comments(about) + _dump(variable.name, values[variable.name])
    if isinstance(variable.default, Computed):
        return _comments([*about, f"{variable.name}:   (default: {variable.default.words})"])
    line = _dump(variable.name, variable.default)
    # What cannot be changed later is written out: a new default must not move an existing cluster.
    return _comments(about) + (line if variable.pinned else _comments(line.splitlines()))


def _comments(lines: Sequence[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _dump(name: str, value: Any) -> str:
    return _yaml({name: _plain(value)})


def _yaml(tree: Any) -> str:
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6))


class _Dumper(yaml.SafeDumper):
    """Marks text that looks like a template as one that is none."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text."""
        tag = "!unsafe" if is_template(data) else "tag:yaml.org,2002:str"
        return self.represent_scalar(tag, data, style='"' if is_template(data) else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _plain(value: Any) -> Any:
    """Return a value without the tuples, however deep, that YAML has no word for."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _write_all(directory: Path, texts: Mapping[str, str]) -> Written:
    written: list[Path] = []
    kept: list[Path] = []
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            (written if _write_new(path, text) else kept).append(path)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        message = f"the inventory cannot be written: {error.strerror or error}"
        hint = "choose a directory that you may write to, on a disk with room"
        raise DeclarationError("inventory-unwritable", message, where=str(directory), hint=hint) from error
    return Written(tuple(written), tuple(kept))


def _write_new(path: Path, text: str) -> bool:
    """Make the file with its whole content; False, and nothing done, where it exists."""
    if path.exists() or path.is_symlink():
        return False
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        # A link, unlike a rename, fails where somebody made the file in the meantime.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
            return True
        return False
    finally:
        temporary.unlink(missing_ok=True)
