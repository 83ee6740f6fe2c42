from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nidome.declare.resolve import load
from nidome.errors import DeclarationError
from nidome.model.spec import because
from nidome.provenance import DEFAULT

Make = Callable[[Mapping[str, str]], Path]


def test_an_inventory_without_variables_is_the_defaults(inventory: Make) -> None:
    """A host in the three groups is a whole declaration: every other value is a default and says so."""
    spec, warnings = load(inventory({}))
    assert warnings == []
    assert spec.kube_version.value == "1.36.4"
    assert spec.kube_version.origin == DEFAULT
    assert (spec.api_service_ip, spec.dns_service_ip) == ("10.233.0.1", "10.233.0.3")
    assert spec.dns_min_replicas.value == 1
    host = spec.hosts[0]
    assert (host.name, host.ip.value, host.access_ip.value) == ("node1", "192.168.50.5", "192.168.50.5")
    assert [h.name for h in (*spec.control_plane, *spec.nodes, *spec.etcd)] == ["node1"] * 3


def test_a_declared_value_points_to_its_line(inventory: Make) -> None:
    """The provenance of a value names the variable, the value, file:line and the layer."""
    layer = "group_vars/all/containerd.yml"
    root = inventory({layer: "---\ncontainerd_max_container_log_line_size: 32768\n"})
    spec, _ = load(root)
    assert because(spec, "containerd_max_container_log_line_size", "kube_cert_dir") == (
        f"containerd_max_container_log_line_size = 32768 ({root}/{layer}:2, {layer})",
        "kube_cert_dir = /etc/kubernetes/ssl (default)",
    )
    assert because(spec.hosts[0], "address", "ip") == (
        f"ansible_host = 192.168.50.5 ({root}/hosts.yaml:3, host node1)",
        f"ip = 192.168.50.5 ({root}/hosts.yaml:3, from ansible_host)",
    )


def test_what_does_not_exist_cannot_be_a_reason(inventory: Make) -> None:
    """A field that is no declared value cannot be cited as the reason for a change."""
    spec, _ = load(inventory({}))
    for name in ("kube_versoin", "hosts", "source"):
        with pytest.raises(KeyError):
            because(spec, name)


def test_a_default_that_follows_from_a_value_points_to_it(inventory: Make) -> None:
    """kube_cert_dir follows kube_config_dir, and its origin is where kube_config_dir is written."""
    root = inventory({"group_vars/all.yml": "kube_config_dir: /etc/k8s\n"})
    spec, _ = load(root)
    assert spec.kube_cert_dir.value == "/etc/k8s/ssl"
    assert str(spec.kube_cert_dir.origin) == f"{root}/group_vars/all.yml:1"


def test_variables_that_nothing_reads_are_warnings_with_their_line(inventory: Make) -> None:
    """Unsupported variables say their effect, unknown ones what was perhaps meant, both their file:line."""
    root = inventory(
        {
            "group_vars/all/a.yml": "ping_access_ip: true\ndns_timeout: 2\nkube_token_auth: true\n",
            "group_vars/k8s_cluster/b.yml": "containerd_metrix_address: x\ncalico_mtu: 1400\nmy_own: 1\n",
        }
    )
    _, warnings = load(root)
    assert [(w.code, Path(w.where).name, w.message.split()[0]) for w in warnings] == [
        ("variable-unsupported", "a.yml:1", "ping_access_ip"),
        ("variable-unsupported", "a.yml:3", "kube_token_auth"),
        ("variable-unknown", "b.yml:1", "containerd_metrix_address"),
        ("variable-unsupported", "b.yml:2", "calico_mtu"),
        ("variable-unknown", "b.yml:3", "my_own"),
    ]
    assert (
        warnings[1].message == "kube_token_auth is known, not supported: the API server reads no token file"
    )
    assert warnings[2].hint == "did you mean containerd_metrics_address?"


def test_strict_makes_such_a_warning_an_error(inventory: Make) -> None:
    """With strict, a variable that nothing reads is an error at its line, and so are the others."""
    root = inventory(
        {"group_vars/all.yml": "helm_enabled: false\nhelm_enabeld: true\nkube_token_auth: true\n"}
    )
    with pytest.raises(DeclarationError) as caught:
        load(root, strict=True)
    assert caught.value.where == f"{root}/group_vars/all.yml:2"
    assert caught.value.hint == "did you mean helm_enabled?"
    assert [other.where for other in caught.value.others] == [f"{root}/group_vars/all.yml:3"]


def test_wrong_values_are_told_all_at_once(inventory: Make) -> None:
    """Types and choices are checked throughout: the first that is wrong is the error, with the others."""
    root = inventory(
        {
            "group_vars/all.yml": "kube_network_plugin: calico\nkube_proxy_mode: ipvs\nhelm_enabled: so\n",
            "host_vars/node1.yml": "ip: nowhere\n",
        }
    )
    with pytest.raises(DeclarationError) as caught:
        load(root)
    found = [caught.value, *caught.value.others]
    assert {error.where.removeprefix(f"{root}/"): error.code for error in found} == {
        "group_vars/all.yml:1": "variable-choice",
        "group_vars/all.yml:2": "variable-choice",
        "group_vars/all.yml:3": "variable-type",
        "host_vars/node1.yml:1": "variable-type",
    }
    shown = caught.value.render()
    assert shown.count("  where: ") == 1
    assert "\nand 3 more:\n" in shown
    assert all(f"  {each}" in shown for each in caught.value.others)


def test_of_very_many_wrong_values_twenty_are_listed() -> None:
    """A page of errors is bounded, and says how many it leaves out."""
    first, *others = (DeclarationError("variable-type", f"n{n}", where=f"a.yml:{n}") for n in range(26))
    first.others = tuple(others)
    lines = first.render().splitlines()
    assert lines[-21:] == [*(f"  a.yml:{n}: n{n}" for n in range(1, 21)), "  … 5 not shown"]


def test_extra_variables_are_typed_and_win(inventory: Make) -> None:
    """-e beats the files, takes text for numbers, and is named as the source."""
    root = inventory({"group_vars/all.yml": "kubelet_max_pods: 50\n"})
    spec, _ = load(root, extra_vars={"kubelet_max_pods": "60", "helm_enabled": True})
    assert (spec.kubelet_max_pods.value, spec.helm_enabled.value) == (60, True)
    assert because(spec, "kubelet_max_pods") == ("kubelet_max_pods = 60 (command line)",)


def test_a_wrong_extra_variable_names_the_command_line(inventory: Make) -> None:
    """A wrong value of -e is an error whose place is the command line."""
    with pytest.raises(DeclarationError) as caught:
        load(inventory({}), extra_vars={"kubelet_max_pods": "x"})
    assert caught.value.where == "command line"


def test_hosts_that_disagree_about_the_cluster_are_an_error(inventory: Make) -> None:
    """A setting of the whole cluster that two hosts have differently is an error at the second one's line."""
    root = inventory(
        {
            "inventory2.ini": "[kube_node]\nnode2 ansible_host=192.168.50.6\n",
            "host_vars/node1.yml": "kube_log_level: 2\n",
            "host_vars/node2.yml": "\nkube_log_level: 3\n",
        }
    )
    with pytest.raises(DeclarationError) as caught:
        load(root)
    assert (caught.value.code, caught.value.where) == ("variable-differs", f"{root}/host_vars/node2.yml:2")


def test_a_host_outside_of_the_cluster_is_named(inventory: Make) -> None:
    """A host in none of the cluster's groups is a warning: nothing is done on it."""
    root = inventory({"more.ini": "[bastion]\njump\n"})
    _, warnings = load(root)
    assert [(w.code, w.where) for w in warnings] == [("host-unused", f"{root}/more.ini:2")]


def test_kubesprays_ini_inventory_is_understood(tmp_path: Path) -> None:
    """The INI inventory of a one-host kubespray lab resolves to a cluster."""
    path = tmp_path / "inventory.ini"
    path.write_text(
        "[kube_control_plane]\nnode1 ansible_connection=local ip=192.168.50.5\n"
        "[etcd:children]\nkube_control_plane\n[kube_node:children]\nkube_control_plane\n"
        "[all:vars]\nkubelet_max_pods=50\nhelm_enabled=true\n"
    )
    spec, warnings = load(path)
    assert warnings == []
    host = spec.hosts[0]
    assert (host.connection.value, host.ip.value, host.is_etcd, host.is_node) == (
        "local",
        "192.168.50.5",
        True,
        True,
    )
    assert (spec.kubelet_max_pods.value, spec.helm_enabled.value) == (50, True)
    assert str(spec.kubelet_max_pods.origin) == f"{path}:8"


def test_reading_a_declaration_imports_nothing_heavy(inventory: Make) -> None:
    """Reading an inventory loads neither rich nor difflib nor the INI parser nor a template engine."""
    code = (
        "import sys, pathlib; from nidome.declare.resolve import load; load(pathlib.Path(sys.argv[1]));"
        "print([m for m in ('rich', 'difflib', 'nidome.declare.ini', 'nidome.declare.known', 'jinja2', 'ssl',"
        " 'subprocess', 'cryptography') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(inventory({}))], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
