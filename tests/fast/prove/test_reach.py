"""What values reach, by the real roles: the files, arguments and objects that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.declare.variables import VARIABLES
from nidome.errors import NidomeError
from nidome.prove.reach import cited, other_values, reach
from nidome.roles.playbook import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec
    from nidome.prove.reach import Reached
    from nidome.roles.base import HostContext

# What decides how a host is reached, or what Nidome itself checks or has one way of, leaves no trace on it.
_NO_TRACE = {
    "allow_unsupported_distribution_setup",
    "ansible_become",
    "ansible_connection",
    "ansible_port",
    "ansible_python_interpreter",
    "ansible_ssh_common_args",
    "ansible_ssh_private_key_file",
    "ansible_user",
    "cert_management",
    "container_manager",
    "ignore_preflight_errors",
    "kube_network_plugin",
}


@pytest.fixture
def reached(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> Callable[..., dict[str, Reached]]:
    """Return a function that gives what one variable with this value, or another, makes a difference for."""

    def find(name: str, value: Any, other: Any) -> dict[str, Reached]:
        base, changed = (context_of(declared(**{name: v})) for v in (value, other))
        return {each.resource.id: each for each in reach(base, changed, CLUSTER)}

    return find


def test_a_line_of_a_file(reached: Callable[..., dict[str, Reached]]) -> None:
    """A value in a configuration file is found with its line, its task and nothing else."""
    found = reached("containerd_max_container_log_line_size", 32768, 16384)
    assert list(found) == ["File:/etc/containerd/config.toml"]
    (each,) = found.values()
    assert each.task.title == "container-engine/containerd : Write containerd configuration"
    assert [p.text for p in each.places] == ["max_container_log_line_size = 32768"]
    lines = each.resource.content.splitlines()  # type: ignore[attr-defined] # it is a File
    assert lines[each.places[0].line - 1].strip() == "max_container_log_line_size = 32768"


def test_arguments_of_processes(reached: Callable[..., dict[str, Reached]]) -> None:
    """A value that is an argument of several processes is found in each of their units."""
    found = reached("kube_log_level", 4, 2)
    units = {name: [p.text.split()[0] for p in each.places] for name, each in found.items()}
    for component in ("kube-apiserver", "kubelet", "kube-scheduler", "kube-controller-manager"):
        assert units[f"Unit:{component}.service"] == ["--v=4"]


def test_only_the_argument_itself(reached: Callable[..., dict[str, Reached]]) -> None:
    """An argument that comes after the last one is found alone: the line before it says nothing new."""
    found = reached("kubelet_custom_flags", ["--event-qps=50"], [])
    (each,) = found.values()
    assert [p.text for p in each.places] == ["--event-qps=50"]


def test_lines_of_a_secret_file(reached: Callable[..., dict[str, Reached]]) -> None:
    """In a file that holds a secret the line of a value is found, and its text is not shown."""
    auth = [{"registry": "r.example", "username": "me", "password": "sesame-4711"}]
    found = reached("containerd_registry_auth", auth, [])
    (each,) = (e for name, e in found.items() if name == "File:/etc/containerd/config.toml")
    assert all(p.line > 0 for p in each.places)
    assert "sesame" not in str(each.places)


def test_a_field_of_an_object(reached: Callable[..., dict[str, Reached]]) -> None:
    """A value in an object of the API is found with the path of its field."""
    found = reached("dns_min_replicas", 3, 2)
    (each,) = (e for name, e in found.items() if "deployments/coredns" in name)
    assert [(p.name, p.text) for p in each.places] == [("spec.replicas", "3")]


def test_what_another_value_would_bring(reached: Callable[..., dict[str, Reached]]) -> None:
    """A value that keeps something away is found with what another value would bring about."""
    found = reached("helm_enabled", value=False, other=True)
    assert [(name, each.absent) for name, each in found.items()] == [("Binary:/usr/local/bin/helm", True)]


# What another variable must say for a variable to matter.
_NEEDS: dict[str, dict[str, Any]] = {"kine_data_dir": {"etcd_deployment_type": "kine"}}
# Variables of hosts that the tests' inventory has written already.
_WRITTEN = {"ansible_host"}


def test_every_variable_reaches_a_host(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> None:
    """Each supported variable makes a difference on a host, or decides only what Nidome itself does."""
    without = set()
    for variable in VARIABLES:
        needs = _NEEDS.get(variable.name, {})
        base = context_of(declared(**needs))
        source = base.spec if variable.scope == "cluster" else base.host
        others = _others(variable, getattr(source, variable.model_field).value)
        found = bool(cited(base, CLUSTER, variable.model_field)) or any(
            _differs(base, lambda **more: context_of(declared(**more)), {**needs, variable.name: v})
            for v in others
        )
        if not found and variable.name not in _WRITTEN:
            without.add(variable.name)
    assert without == _NO_TRACE


def _others(variable: Any, value: Any) -> list[Any]:
    return [c for c in variable.kind.choices if c != value] or list(other_values(value))


def _differs(base: HostContext, context: Callable[..., HostContext], variables: dict[str, Any]) -> bool:
    try:
        return bool(reach(base, context(**variables), CLUSTER))
    except NidomeError:
        return False  # another kind of value than this one
