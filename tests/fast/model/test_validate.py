from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.declare.inventory import read_inventory
from nidome.declare.resolve import load, resolve
from nidome.errors import DeclarationError
from nidome.model.validate import validate

if TYPE_CHECKING:
    from pathlib import Path

    from nidome.model.spec import ClusterSpec

_ONE = "[kube_control_plane]\nnode1 ansible_host=192.168.50.5\n[kube_node]\nnode1\n[etcd]\nnode1\n"


def _path(directory: Path, text: str = _ONE, variables: str = "") -> Path:
    path = directory / "inventory.ini"
    path.write_text(text)
    (directory / "group_vars").mkdir()
    (directory / "group_vars/all.yml").write_text(variables)
    return path


def _spec(directory: Path, text: str = _ONE, **extra: Any) -> ClusterSpec:
    return resolve(read_inventory(_path(directory, text), extra_vars=extra))


# Variables, and the error: code and the line in group_vars/all.yml.
_BAD = {
    "kube_log_level: 2\nkube_pods_subnet: 10.233.0.0/17\n": ("cidr-overlap", 2),
    "kube_service_addresses: 10.233.64.0/24\n": ("cidr-overlap", 1),
    "kube_service_addresses: 10.0.0.0/30\n": ("cidr-size", 1),
    "kube_service_addresses: 11.0.0.0/11\n": ("cidr-size", 1),
    "kube_network_node_prefix: 17\n": ("node-prefix", 1),
    "kube_pods_subnet: 10.0.0.0/25\n": ("node-prefix", 1),
    "kube_pods_subnet: 10.0.0.0/8\nkube_service_addresses: 172.16.0.0/16\nkube_network_node_prefix: 25\n": (
        "node-prefix",
        3,
    ),
    "\nkubelet_max_pods: 255\n": ("node-prefix", 2),
    "kube_network_node_prefix: 26\n": ("node-prefix", 1),
    "kube_apiserver_port: 10250\n": ("port-taken", 1),
    "kube_apiserver_port: 2379\n": ("port-taken", 1),
    "nidome_ca_days: 10\n": ("certificate-days", 1),
    "kube_service_addresses: 192.168.48.0/20\n": ("address-overlap", 0),
    "etcd_data_dir: /var/lib/containerd\n": ("directory-shared", 1),
    "kube_version: 1.36.4\nip: 127.0.0.1\n": ("host-address", 2),
}


@pytest.mark.parametrize("variables", _BAD)
def test_values_that_contradict_each_other_are_an_error_with_a_line(variables: str, tmp_path: Path) -> None:
    """Each contradiction between two values is an error at the line of one that was written."""
    code, line = _BAD[variables]
    with pytest.raises(DeclarationError) as caught:
        load(_path(tmp_path, variables=variables))
    assert caught.value.code == code
    if line:
        assert caught.value.where == f"{tmp_path}/group_vars/all.yml:{line}"


def test_a_network_of_the_wrong_size_comes_with_a_right_one(tmp_path: Path) -> None:
    """A service network that is too small or too large is an error whose next step names one that is not."""
    for number, (written, right) in enumerate(
        {"10.0.0.0/30": "10.0.0.0/28", "11.0.0.0/11": "11.0.0.0/12"}.items()
    ):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(DeclarationError) as caught:
            load(_path(tmp_path / str(number), variables=f"kube_service_addresses: {written}\n"))
        assert right in caught.value.hint


_BAD_HOSTS = {
    "[kube_node]\nnode1 ip=192.168.50.5\n[etcd]\nnode1\n": "no-control-plane",
    "[kube_control_plane]\nnode1 ip=192.168.50.5\n[kube_node]\nnode1\n": "no-etcd",
    "[kube_control_plane]\nnode1\n[kube_node]\nnode1\n[etcd]\nnode1\n": "host-address",
    "[kube_control_plane]\nNode_1 ip=192.168.50.5\n[kube_node]\nNode_1\n[etcd]\nNode_1\n": "node-name",
    "[kube_control_plane]\na ip=10.0.0.1\nb ip=10.0.0.2\n[kube_node]\na\n[etcd]\na\n": "hosts-limit",
    "[kube_control_plane]\na ip=10.0.0.1\n[kube_node]\na\nb ip=10.0.0.2\n[etcd]\na\n": "hosts-limit",
    "[kube_control_plane]\na ip=10.0.0.1\n[kube_node]\na\n[etcd]\nb ip=10.0.0.2\n": "hosts-limit",
    "[kube_control_plane]\na ip=10.0.0.1\n[etcd]\na\n": "hosts-limit",
    "[kube_control_plane]\na ip=10.0.0.1\n[kube_node]\nb ip=10.0.0.1\n[etcd]\na\n": "host-address",
}


@pytest.mark.parametrize("text", _BAD_HOSTS)
def test_hosts_that_make_no_cluster_are_an_error(text: str, tmp_path: Path) -> None:
    """A group that is missing, a host without address, and more hosts than can be set up are errors."""
    with pytest.raises(DeclarationError) as caught:
        load(_path(tmp_path, text))
    assert caught.value.code == _BAD_HOSTS[text]
    assert str(tmp_path) in caught.value.where


def test_the_model_holds_many_hosts(tmp_path: Path) -> None:
    """The model itself has no limit of hosts: only the release check refuses what cannot be set up yet."""
    text = (
        "[kube_control_plane]\nn1 ip=10.0.0.1\nn2 ip=10.0.0.2\n"
        "[etcd:children]\nkube_control_plane\n[kube_node]\nn3 ip=10.0.0.3\n"
    )
    spec = _spec(tmp_path, text)
    assert [w.code for w in validate(spec)] == ["etcd-even"]
    assert [h.name for h in spec.control_plane] == ["n1", "n2"]
    assert [h.name for h in spec.nodes] == ["n3"]
    assert spec.host("n3").ip.value == "10.0.0.3"
    assert spec.dns_min_replicas.value == 2


def test_kine_needs_no_etcd_host(tmp_path: Path) -> None:
    """With kine as the store the group etcd may be empty, and no host is a member of etcd."""
    spec, warnings = load(
        _path(tmp_path, "[kube_control_plane]\nnode1 ip=192.168.50.5\n[kube_node]\nnode1\n"),
        extra_vars={"etcd_deployment_type": "kine"},
    )
    assert (warnings, spec.uses_etcd, spec.etcd) == ([], False, ())


def test_the_digest_is_of_the_values_alone(tmp_path: Path) -> None:
    """Two declarations that say the same in other places have one digest; another value has another."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = _spec(tmp_path / "a", _ONE)
    spelled = _spec(tmp_path / "b", _ONE, kubelet_max_pods=110)
    assert plain.digest == spelled.digest
    (tmp_path / "c").mkdir()
    assert _spec(tmp_path / "c", _ONE, kubelet_max_pods=111).digest != plain.digest


def test_a_spec_cannot_be_changed(tmp_path: Path) -> None:
    """A cluster's declaration is frozen."""
    spec = _spec(tmp_path)
    with pytest.raises(AttributeError):
        spec.source = "x"  # type: ignore[misc] # what the test is about
