from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare.resolve import load
from nidome.declare.writer import declared, write_inventory
from nidome.errors import DeclarationError, UsageError

_HOSTS = {"node1": {"ansible_host": "192.168.50.5", "ansible_user": "root"}}
_TEXT = st.from_regex(r"[A-Za-z0-9'\"#:{}\[\],&*!|>%@` é-]{0,12}", fullmatch=True)
_VARIABLES = st.fixed_dictionaries(
    {},
    optional={
        "kube_config_dir": st.sampled_from(["/etc/k8s", "/srv/a.b/c_d"]),
        "kube_proxy_mode": st.sampled_from(["nftables", "iptables"]),
        "etcd_deployment_type": st.sampled_from(["host", "kine"]),
        "kubelet_max_pods": st.integers(1, 250),
        "helm_enabled": st.booleans(),
        "cluster_name": st.sampled_from(["cluster.local", "no", "1e3", "12", "0x1f"]),
        "upstream_dns_servers": st.lists(st.ip_addresses(v=4).map(str), max_size=3),
        "eviction_hard": st.dictionaries(
            st.sampled_from(["memory.available", "nodefs.available"]), st.just("5%")
        ),
        "kube_kubeadm_apiserver_extra_args": st.dictionaries(
            st.sampled_from(["audit-log-path", "v", "feature-gates", "request-timeout"]),
            _TEXT.filter(lambda text: text == "" or not text[0].isspace()),
            max_size=3,
        ),
        "kubelet_custom_flags": st.lists(_TEXT.map(lambda text: f"--node-labels={text}"), max_size=3),
        "containerd_registries_mirrors": st.lists(
            st.just(
                {
                    "prefix": "docker.io",
                    "mirrors": [
                        {
                            "host": "https://m.example",
                            "capabilities": ["pull"],
                            "skip_verify": True,
                            "override_path": False,
                            "ca": ["/etc/m.crt"],
                        }
                    ],
                    "server": "",
                }
            ),
            max_size=1,
        ),
        "containerd_metrics_address": st.sampled_from(["", "127.0.0.1:1338"]),
    },
)


@given(_VARIABLES)
def test_what_is_written_is_read_back(variables: dict[str, Any]) -> None:
    """An inventory that Nidome wrote declares exactly the values it was written from, without a warning."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        write_inventory(root, hosts=_HOSTS, variables=variables)
        spec, warnings = load(root, strict=True)
        assert warnings == []
        values = spec.values()
        assert {
            k: list(values[k]) if isinstance(v, list) else values[k] for k, v in variables.items()
        } == variables

        again = root / "again"
        hosts, same, groups = declared(spec)
        write_inventory(again, hosts=hosts, variables=same, groups=groups)
        assert load(again)[0].digest == spec.digest


def test_a_persons_file_is_left_as_it_is(tmp_path: Path) -> None:
    """A file that exists is kept, whatever it holds, and reported; the others are written beside it."""
    edited = tmp_path / "group_vars/all/containerd.yml"
    edited.parent.mkdir(parents=True)
    edited.write_text("containerd_max_container_log_line_size: 32768\n")
    done = write_inventory(tmp_path, hosts=_HOSTS)
    assert done.kept == (edited,)
    assert edited.read_text() == "containerd_max_container_log_line_size: 32768\n"
    assert tmp_path / "hosts.yaml" in done.written
    assert load(tmp_path)[0].containerd_max_container_log_line_size.value == 32768

    second = write_inventory(tmp_path, hosts={"other": {}})
    assert second.written == ()
    assert load(tmp_path)[0].hosts[0].name == "node1"


def test_every_file_has_every_variable_with_its_meaning(tmp_path: Path) -> None:
    """Each supported variable stands in the files, those that cannot change later with their value."""
    write_inventory(tmp_path, hosts=_HOSTS)
    text = (tmp_path / "group_vars/k8s_cluster/k8s-cluster.yml").read_text()
    assert "\nkube_pods_subnet: 10.233.64.0/18\n" in text
    assert "\n# kubelet_max_pods: 110\n" in text
    assert "# Most pods on a node." in text
    assert (
        "\n# containerd_max_container_log_line_size: 16384\n"
        in (tmp_path / "group_vars/all/containerd.yml").read_text()
    )


def test_nothing_is_written_for_a_wrong_value(tmp_path: Path) -> None:
    """A name that no variable has, or a value of the wrong type, is refused before any file exists."""
    with pytest.raises(UsageError):
        write_inventory(tmp_path, hosts=_HOSTS, variables={"kubelet_max_pod": 1})
    with pytest.raises(UsageError):
        write_inventory(tmp_path, hosts={"node1": {"kube_version": "1.36.4"}})
    with pytest.raises(DeclarationError):
        write_inventory(tmp_path, hosts=_HOSTS, variables={"kubelet_max_pods": "many"})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Where one of the files cannot be made, those made before it are taken away again."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/k8s_cluster").write_text("a file where a directory must be\n")
    with pytest.raises(DeclarationError) as caught:
        write_inventory(tmp_path, hosts=_HOSTS)
    assert caught.value.code == "inventory-unwritable"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "group_vars/k8s_cluster"]
