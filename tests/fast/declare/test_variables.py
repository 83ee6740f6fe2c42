from __future__ import annotations

import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare import known, reference
from nidome.declare.groups import Entry
from nidome.declare.variables import BY_NAME, VARIABLES, Computed
from nidome.declare.yamlmarks import Node, parse_yaml
from nidome.errors import DeclarationError
from nidome.model.spec import ClusterSpec, HostSpec
from nidome.provenance import Origin, Sourced

_DOCS = Path(__file__).parents[3] / "docs" / "variables.md"


def _read(name: str, text: str) -> Any:
    node = parse_yaml(f"{name}: {text}\n", "v.yml").fields[name].node
    return BY_NAME[name].read(Entry(node, Origin("x", "v.yml", 1))).value


def test_the_table_and_the_model_have_the_same_fields() -> None:
    """Each variable fills one field of the model, and each declared field has its variable."""
    for scope, model in (("cluster", ClusterSpec), ("host", HostSpec)):
        hints = typing.get_type_hints(model)
        declared = {f.name for f in fields(model) if typing.get_origin(hints[f.name]) is Sourced}
        assert {v.model_field for v in VARIABLES if v.scope == scope} == declared
    assert len(BY_NAME) == len(VARIABLES)


def test_a_host_field_names_its_variable() -> None:
    """A field of a host that is named differently from its variable says which variable it is."""
    names = {f.name: f.metadata.get("declared_as", f.name) for f in fields(HostSpec)}
    assert {v.model_field: v.name for v in VARIABLES if v.scope == "host"}.items() <= names.items()


def test_every_default_is_a_value_its_own_variable_takes() -> None:
    """Each default is of the variable's type and a supported choice."""
    for variable in VARIABLES:
        if isinstance(variable.default, Computed) or variable.default is None:
            continue
        plain = list(variable.default) if isinstance(variable.default, tuple) else variable.default
        assert (
            _read(variable.name, yaml.safe_dump(plain, default_flow_style=True).removesuffix("...\n"))
            == variable.default
        )


def test_nothing_is_both_supported_and_unsupported() -> None:
    """No supported variable is listed as known, not supported; a whole family may have both."""
    assert set(BY_NAME) & set(known.KNOWN) == set()


def test_the_reference_is_what_the_tables_say() -> None:
    """docs/variables.md is made from the tables (python -m nidome.declare.reference > docs/variables.md)."""
    assert _DOCS.read_text() == reference.render()


_WRONG = [
    (
        "kubelet_max_pods",
        "many",
        "variable-type",
        "expected a whole number from 1 to 65535, found the text 'many'",
    ),
    ("kubelet_max_pods", "true", "variable-type", "found true"),
    ("kubelet_max_pods", "'110'", "variable-type", "found the text '110'"),
    ("kubelet_max_pods", "0", "variable-type", "found the number 0"),
    ("kubelet_max_pods", "1.5", "variable-type", "found the number 1.5"),
    ("kubelet_max_pods", "", "variable-type", "found nothing"),
    ("helm_enabled", "'yes'", "variable-type", "expected true or false, found the text 'yes'"),
    ("helm_enabled", "1", "variable-type", "found the number 1"),
    ("kube_version", "1.36", "variable-type", "found the number 1.36"),
    ("kube_version", "1.20.0", "variable-choice", "'1.20.0' is not supported, supported: 1.36.4, 1.35.8"),
    ("kube_version", "v1.34.1", "variable-choice", "supported: 1.36.4, 1.35.8"),
    ("kube_version", "vv1.35.8", "variable-choice", "supported: 1.36.4, 1.35.8"),
    ("container_manager", "crio", "variable-choice", "supported: containerd"),
    ("cert_management", "none", "variable-choice", "supported: script"),
    ("dns_mode", "coredns_dual", "variable-choice", "supported: coredns, manual, none"),
    ("kube_encryption_algorithm", "kms", "variable-choice", "supported: secretbox, aescbc, aesgcm"),
    ("k8s_image_pull_policy", "Sometimes", "variable-choice", "supported: IfNotPresent, Always, Never"),
    ("kube_network_plugin", "calico", "variable-choice", "'calico' is not supported, supported: bridge"),
    ("kube_proxy_mode", "ipvs", "variable-choice", "supported: nftables, iptables"),
    ("etcd_deployment_type", "docker", "variable-choice", "supported: host, kine"),
    ("kube_pods_subnet", "10.0.0.0", "variable-type", "expected an IPv4 network"),
    ("kube_pods_subnet", "10.0.0.1/8", "variable-type", "expected an IPv4 network"),
    ("kube_pods_subnet", "fd00::/64", "variable-type", "expected an IPv4 network"),
    ("kube_pods_subnet", "10.0.0.0/40", "variable-type", "expected an IPv4 network"),
    ("bin_dir", "usr/bin", "variable-type", "expected an absolute path"),
    ("bin_dir", "/a/../b", "variable-type", "expected an absolute path"),
    ("bin_dir", "/", "variable-type", "expected an absolute path"),
    ("bin_dir", "'/a b'", "variable-type", "expected an absolute path"),
    ("upstream_dns_servers", "1.1.1.1", "variable-type", "expected a list of IPv4 addresses"),
    (
        "upstream_dns_servers",
        "[1.1.1.1, x]",
        "variable-type",
        "upstream_dns_servers[1]: expected an IPv4 address",
    ),
    ("eviction_hard", "[a]", "variable-type", "expected a mapping"),
    ("eviction_hard", "{memory.available: [1]}", "variable-type", "eviction_hard.memory.available"),
    ("eviction_hard", "{memory.free: 1Gi}", "variable-choice", "'memory.free' is no eviction signal"),
    ("eviction_hard", "{memory.available: 100MB}", "variable-type", "a quantity such as 100Mi"),
    ("eviction_hard", "{nodefs.available: 101%}", "variable-type", "a share such as 10%"),
    ("eviction_hard", "{nodefs.available: -5%}", "variable-type", "a share such as 10%"),
    ("kube_memory_reserved", "lots", "variable-type", "expected a quantity such as 100m or 256Mi"),
    ("kube_cpu_reserved", "-1", "variable-type", "expected a quantity"),
    ("containerd_metrics_address", "127.0.0.1", "variable-type", "expected an address with a port"),
    ("containerd_metrics_address", "127.0.0.1:99999", "variable-type", "expected an address with a port"),
    ("containerd_metrics_address", "'[::1]:80'", "variable-type", "expected an address with a port"),
    ("containerd_registry_auth", "{a: b}", "variable-type", "a list of credentials, each with registry"),
    ("containerd_registry_auth", "[{registry: r, username: u}]", "variable-type", "[0].password is missing"),
    ("containerd_registries_mirrors", "[{prefix: docker.io}]", "variable-type", "[0].mirrors is missing"),
    (
        "containerd_registries_mirrors",
        "[{prefix: r, mirrors: [{host: https://m, capabilities: [fly]}]}]",
        "variable-choice",
        "mirrors[0].capabilities: 'fly' is not supported, supported: pull, resolve, push",
    ),
    (
        "containerd_registries_mirrors",
        "[{prefix: r, mirrors: [{host: https://m, cert: x}]}]",
        "variable-choice",
        "mirrors[0]: 'cert' is not supported, supported: host, capabilities",
    ),
    (
        "containerd_additional_runtimes",
        "[{name: kata, type: kata}]",
        "variable-type",
        "[0].type: expected the type of a runtime",
    ),
    ("containerd_additional_runtimes", "[{type: io.containerd.kata.v2}]", "variable-type", "name is missing"),
    ("http_proxy", "proxy:3128", "variable-type", "an address such as http://"),
    ("kube_oidc_url", "http://idp.example", "variable-type", "an address such as https://"),
    ("kube_oidc_ca_cert", "bm90IGEgY2VydGlmaWNhdGU=", "variable-type", "certificates in PEM"),
    ("audit_log_path", "logs/audit", "variable-type", "an absolute path without spaces, or -"),
    ("kube_kubeadm_apiserver_extra_args", "{--v: 4}", "variable-type", "without --"),
    ("kubelet_custom_flags", "[v=4]", "variable-type", "expected a flag"),
    ("node_taints", "[a=b:Never]", "variable-type", "expected a taint"),
    ("node_labels", "{-a: b}", "variable-type", "a key of node_labels"),
    ("event_ttl_duration", "1 hour", "variable-type", "expected a duration"),
    ("cluster_name", "Cluster_Local", "variable-type", "expected a DNS domain"),
    ("cluster_name", "2020-01-01", "variable-type", "found the date 2020-01-01"),
    ("ansible_port", "70000", "variable-type", "from 1 to 65535"),
    ("ansible_connection", "winrm", "variable-choice", "supported: ssh, local"),
    ("ip", "node1", "variable-type", "expected an IPv4 address"),
]


@pytest.mark.parametrize(("name", "text", "code", "words"), _WRONG)
def test_a_wrong_value_says_what_was_expected_and_what_was_found(
    name: str, text: str, code: str, words: str
) -> None:
    """A wrong type or an unsupported choice is an error with file:line, what was expected and found."""
    with pytest.raises(DeclarationError) as caught:
        _read(name, text)
    assert (caught.value.code, caught.value.where) == (code, "v.yml:1")
    assert caught.value.message.startswith((name, f"a key of {name}"))
    assert words in caught.value.message


@pytest.mark.parametrize("value", ["hunter2: x", "123456", "[hunter2]", '"hunter2\\n"', "", "{hunter2: 1}"])
def test_a_wrong_password_is_not_repeated(value: str) -> None:
    """An error about a registry's password names its place, and nothing of what was written there."""
    with pytest.raises(DeclarationError) as caught:
        _read("containerd_registry_auth", f"[{{registry: r, username: u, password: {value}}}]")
    told = caught.value.render()
    assert "hunter2" not in told
    assert "123456" not in told


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy"])
def test_a_wrong_proxy_is_not_repeated(name: str) -> None:
    """An error about a proxy's address does not show it: a password may be in it."""
    with pytest.raises(DeclarationError) as caught:
        _read(name, "'http://user:hunter2 @proxy'")
    assert "hunter2" not in caught.value.render()


_RIGHT = [
    ("helm_enabled", "yes", True),
    ("bin_dir", "/opt/bin/", "/opt/bin"),
    ("kube_pods_subnet", "10.0.0.0/8", "10.0.0.0/8"),
    ("upstream_dns_servers", "[1.1.1.1]", ("1.1.1.1",)),
    (
        "eviction_hard",
        "{memory.available: 100Mi, nodefs.available: 5%}",
        {"memory.available": "100Mi", "nodefs.available": "5%"},
    ),
    ("kube_kubeadm_apiserver_extra_args", "{v: 4, profiling: false}", {"v": "4", "profiling": "false"}),
    ("node_taints", "['a.b/c=d:NoSchedule', 'e:NoExecute']", ("a.b/c=d:NoSchedule", "e:NoExecute")),
    ("node_labels", "{a.b/c: 1, d: ''}", {"a.b/c": "1", "d": ""}),
    ("containerd_max_container_log_line_size", "32768", 32768),
    ("kube_version", "v1.35.8", "1.35.8"),
    ("kube_version", "1.36.4", "1.36.4"),
    (
        "eviction_hard",
        "{nodefs.available: 12.5%, pid.available: 100}",
        {"nodefs.available": "12.5%", "pid.available": "100"},
    ),
    ("kube_pid_reserved", "1000", "1000"),
    ("kube_cpu_reserved", "0.5", "0.5"),
    ("containerd_metrics_address", "127.0.0.1:1338", "127.0.0.1:1338"),
    ("http_proxy", "http://u:p@proxy.example:3128/", "http://u:p@proxy.example:3128/"),
    (
        "containerd_registries_mirrors",
        "[{prefix: docker.io, mirrors: [{host: 'https://m', capabilities: pull, ca: /etc/m.crt}]}]",
        (
            {
                "prefix": "docker.io",
                "mirrors": (
                    {
                        "host": "https://m",
                        "capabilities": ("pull",),
                        "skip_verify": False,
                        "override_path": False,
                        "ca": ("/etc/m.crt",),
                    },
                ),
                "server": "",
            },
        ),
    ),
    (
        "containerd_additional_runtimes",
        "[{name: kata, type: io.containerd.kata.v2, engine: '', options: {ConfigPath: /k, Flag: true}}]",
        (
            {
                "name": "kata",
                "type": "io.containerd.kata.v2",
                "engine": "",
                "root": "",
                "options": {"ConfigPath": "/k", "Flag": "true"},
            },
        ),
    ),
    ("ansible_ssh_common_args", "'-o ProxyJump=bastion'", "-o ProxyJump=bastion"),
]


@pytest.mark.parametrize(("name", "text", "value"), _RIGHT)
def test_a_right_value_becomes_a_typed_one(name: str, text: str, value: Any) -> None:
    """What kubespray takes for a variable is read as a plain typed value."""
    assert _read(name, text) == value


def test_text_of_an_untyped_place_is_read_by_the_variables_type() -> None:
    """-e kubelet_max_pods=200 and helm_enabled=true in an INI file are a number and a truth."""
    cases = {"kubelet_max_pods": ("200", 200), "helm_enabled": ("true", True), "bin_dir": ("/x", "/x")}
    for name, (text, value) in cases.items():
        node = Node(text, "command line", untyped=True)
        assert BY_NAME[name].read(Entry(node, Origin("command line"))).value == value


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dates()
    | st.sampled_from(["10.0.0.0/8", "/a/b", "1h", "a=b:NoSchedule", "--a=b", "1.2.3.4", "{{ x }}", "node1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(name=st.sampled_from(sorted(BY_NAME)), value=_VALUES)
def test_any_value_of_any_variable_is_typed_or_refused(name: str, value: Any) -> None:
    """Whatever is written for a supported variable becomes a typed value or an error with its line."""
    try:
        text = yaml.safe_dump({name: value})
        node = parse_yaml(text, "v.yml").fields[name].node
        read = BY_NAME[name].read(Entry(node, Origin("x", "v.yml", 1)))
        assert isinstance(read.value, bool | int | str | tuple | dict)
        where = str(read.origin)
    except DeclarationError as error:
        where = error.where
    assert where.startswith("v.yml:")
