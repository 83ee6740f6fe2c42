"""Every supported variable reaches the hosts: what each one changes of what a host must have."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.hiding import hide
from nidome.agent.resources.base import encode
from nidome.agent.resources.encryption import EncryptionKeys
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit
from nidome.declare.variables import BY_NAME, KUBE_VERSIONS, VARIABLES
from nidome.model.flags import flags
from nidome.roles.playbook import CLUSTER, evaluate
from nidome.roles.preflight import tolerated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.agent.resources.base import Resource
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import HostContext

_PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
_OIDC = {"kube_oidc_auth": True, "kube_oidc_url": "https://idp.example", "kube_oidc_client_id": "kube"}
_WEBHOOK = {"kube_webhook_token_auth": True, "kube_webhook_token_auth_url": "https://hook.example/token"}
_AUDIT = {"kubernetes_audit": True}
_ENCRYPT = {"kube_encrypt_secret_data": True}
_PROXY = {"http_proxy": "http://proxy.example:3128"}
_KINE = {"etcd_deployment_type": "kine"}
_KATA = {
    "name": "kata",
    "type": "io.containerd.kata.v2",
    "options": {"ConfigPath": "/k.toml", "Debug": "true"},
}
_MIRRORS = [
    {
        "prefix": "docker.io",
        "mirrors": [
            {"host": "https://m1.example", "capabilities": "pull"},
            {"host": "http://10.0.0.2:5000", "skip_verify": True, "ca": ["/etc/m.crt"]},
        ],
    },
    {"prefix": "10.0.0.9:5000", "server": "https://10.0.0.9:5000", "mirrors": []},
]
_AUTH = [{"registry": "10.0.0.9:5000", "username": "me", "password": 'a "quoted\\ word'}]

# Another value of each variable, and what must be declared for it to matter.
_OTHERS: dict[str, tuple[Any, Mapping[str, Any]]] = {
    "bin_dir": ("/opt/bin", {}),
    "kube_config_dir": ("/srv/k8s", {}),
    "kube_cert_dir": ("/srv/pki", {}),
    "cluster_name": ("lab.internal", {}),
    "kube_log_level": (4, {}),
    "event_ttl_duration": ("2h", {}),
    "k8s_image_pull_policy": ("Always", {}),
    "http_proxy": ("http://proxy.example:3128", {}),
    "https_proxy": ("http://proxy.example:3128", {}),
    "no_proxy": ("example.org", _PROXY),
    "additional_no_proxy": ("example.org", _PROXY),
    "kube_service_addresses": ("10.96.0.0/16", {}),
    "kube_pods_subnet": ("10.97.0.0/16", {}),
    "kube_network_node_prefix": (23, {}),
    "kube_proxy_mode": ("iptables", {}),
    "kube_apiserver_port": (7443, {}),
    "kube_api_anonymous_auth": (True, {}),
    "supplementary_addresses_in_ssl_keys": (["api.example"], {}),
    "kube_webhook_token_auth": (True, {**_WEBHOOK, "kube_webhook_token_auth": False}),
    "kube_webhook_token_auth_url": ("https://other.example", _WEBHOOK),
    "kube_webhook_token_auth_url_skip_tls_verify": (True, _WEBHOOK),
    "kube_webhook_token_auth_ca_data": (_PEM, _WEBHOOK),
    "kube_oidc_auth": (True, {**_OIDC, "kube_oidc_auth": False}),
    "kube_oidc_url": ("https://other.example", _OIDC),
    "kube_oidc_client_id": ("other", _OIDC),
    "kube_oidc_username_claim": ("email", _OIDC),
    "kube_oidc_username_prefix": ("oidc:", _OIDC),
    "kube_oidc_groups_claim": ("roles", _OIDC),
    "kube_oidc_groups_prefix": ("oidc:", _OIDC),
    "kube_oidc_ca_cert": (_PEM, _OIDC),
    "kubernetes_audit": (True, {}),
    "audit_log_path": ("/srv/audit.log", _AUDIT),
    "audit_log_maxage": (3, _AUDIT),
    "audit_log_maxbackups": (4, _AUDIT),
    "audit_log_maxsize": (5, _AUDIT),
    "audit_policy_file": ("/srv/policy/rules.yaml", _AUDIT),
    "kube_encrypt_secret_data": (True, {}),
    "kube_encryption_algorithm": ("aescbc", _ENCRYPT),
    "kube_encryption_resources": (["secrets", "configmaps"], _ENCRYPT),
    "kube_kubeadm_apiserver_extra_args": ({"request-timeout": "2m"}, {}),
    "kube_kubeadm_controller_extra_args": ({"concurrent-gc-syncs": 5}, {}),
    "kube_kubeadm_scheduler_extra_args": ({"kube-api-qps": 70}, {}),
    "kubelet_max_pods": (50, {}),
    "kubelet_rotate_certificates": (False, {}),
    "kubelet_rotate_server_certificates": (False, {}),
    "kubelet_logfiles_max_nr": (3, {}),
    "kubelet_logfiles_max_size": ("1Mi", {}),
    "kube_reserved": (True, {}),
    "system_reserved": (True, {}),
    **{
        f"{scope}_{name}_reserved": ("7", {f"{scope}_reserved": True})
        for scope in ("kube", "system")
        for name in ("cpu", "memory", "ephemeral_storage", "pid")
    },
    "eviction_hard": ({"memory.available": "5%"}, {}),
    "kubelet_custom_flags": (["--max-open-files=5000"], {}),
    "dns_mode": ("none", {}),
    "manual_dns_server": ("10.0.0.54", {"dns_mode": "manual", "manual_dns_server": "10.0.0.53"}),
    "dns_min_replicas": (3, {}),
    "upstream_dns_servers": (["9.9.9.9"], {}),
    "helm_enabled": (True, {}),
    "etcd_deployment_type": ("kine", {}),
    "etcd_data_dir": ("/srv/etcd", {}),
    "kine_data_dir": ("/srv/kine", _KINE),
    "containerd_storage_dir": ("/srv/containerd", {}),
    "containerd_state_dir": ("/run/other", {}),
    "containerd_oom_score": (-5, {}),
    "containerd_debug_level": ("warn", {}),
    "containerd_metrics_address": ("127.0.0.1:1338", {}),
    "containerd_max_container_log_line_size": (32768, {}),
    "containerd_default_runtime": ("kata", {"containerd_additional_runtimes": [_KATA]}),
    "containerd_additional_runtimes": ([_KATA], {}),
    "containerd_registries_mirrors": (_MIRRORS, {}),
    "containerd_registry_auth": (_AUTH, {}),
    "nidome_certificate_days": (10, {}),
    "nidome_ca_days": (400, {}),
    "ip": ("192.168.50.7", {}),
    "access_ip": ("192.168.50.8", {}),
    "node_labels": ({"disk": "ssd"}, {}),
    "node_taints": (["a=b:NoSchedule"], {}),
}

# Which artifacts are installed, which checks may fail, and how a host is reached: not what it must have.
_ELSEWHERE = {"kube_version", "allow_unsupported_distribution_setup", "ignore_preflight_errors"}
_ONE_CHOICE = {"container_manager", "cert_management", "kube_network_plugin", "containerd_snapshotter"}


class Host:
    """What the cluster's host must have."""

    def __init__(self, context: HostContext) -> None:
        self.resources: list[Resource] = [
            r for play in evaluate(CLUSTER, context) for task in play.tasks for r in task.resources
        ]

    def file(self, path: str) -> File:
        """Return a file."""
        return next(r for r in self.resources if isinstance(r, File) and r.path == path)

    def has(self, path: str) -> bool:
        """Tell whether there is such a file."""
        return any(path in r.paths for r in self.resources)

    def unit(self, name: str) -> Unit:
        """Return a component's unit."""
        return next(r for r in self.resources if isinstance(r, Unit) and r.name == f"{name}.service")

    def arguments(self, name: str) -> dict[str, str]:
        """Return a component's arguments."""
        command = self.unit(name).text.split("ExecStart=")[1].split("\nRestart=")[0]
        words = [word.strip('"').removeprefix("--").partition("=") for word in command.split(" \\\n  ")[1:]]
        return {name: value for name, _, value in words}

    def kubelet(self) -> dict[str, Any]:
        """Return the kubelet's configuration."""
        found: dict[str, Any] = json.loads(self.file("/etc/kubernetes/kubelet-config.yaml").content)
        return found

    def containerd(self, part: str) -> dict[str, Any]:
        """Return a part of containerd's configuration."""
        config = tomllib.loads(self.file("/etc/containerd/config.toml").content)
        found: dict[str, Any] = config["plugins"][f"io.containerd.cri.v1.{part}"]
        return found


@pytest.fixture
def host_of(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> Callable[..., Host]:
    """Return a function that declares variables and returns what the host must have."""
    return lambda **variables: Host(context_of(declared(**variables)))


def test_every_variable_is_tried_here() -> None:
    """Each variable that says what a host must have is tried; one with a single choice has nothing to try."""
    ways = {v.name for v in VARIABLES if v.name.startswith("ansible_")}
    assert set(_OTHERS) == set(BY_NAME) - _ELSEWHERE - _ONE_CHOICE - ways
    for name in _ONE_CHOICE:
        assert "one of" not in BY_NAME[name].kind.expected


@pytest.mark.parametrize("name", sorted(_OTHERS))
def test_a_variable_changes_what_a_host_must_have(host_of: Callable[..., Host], name: str) -> None:
    """Another value of the variable makes another host."""
    value, needed = _OTHERS[name]
    before, after = host_of(**needed), host_of(**{**needed, name: value})
    assert [encode(r) for r in before.resources] != [encode(r) for r in after.resources]


@pytest.mark.parametrize("name", sorted(_OTHERS))
def test_a_change_cites_the_variable(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext], name: str
) -> None:
    """A task whose resources a variable changes names it among what it was made from."""
    value, needed = _OTHERS[name]
    before = _tasks(context_of(declared(**needed)))
    after = _tasks(context_of(declared(**{**needed, name: value})))
    cited = {field for title in before.keys() | after.keys() for field in _cited(before, after, title)}
    assert name in cited


def _tasks(context: HostContext) -> dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]]:
    tasks = [task for play in evaluate(CLUSTER, context) for task in play.tasks]
    return {task.title: ([encode(r) for r in task.resources], task.fields) for task in tasks}


def _cited(before: Any, after: Any, title: str) -> tuple[str, ...]:
    """Return what a task names, where its resources differ or it is in one only."""
    missing: tuple[list[Any], tuple[str, ...]] = ([], ())
    (old, fields), (new, others) = before.get(title, missing), after.get(title, missing)
    return (*fields, *others) if old != new else ()


def test_the_distribution_is_let_pass(declared: Callable[..., ClusterSpec]) -> None:
    """Checks that may fail are those declared by name, and the distribution's where that is allowed."""
    spec = declared(ignore_preflight_errors=["memory"], allow_unsupported_distribution_setup=True)
    assert set(tolerated(spec)) == {"memory", "distribution"}


def test_mirrors(host_of: Callable[..., Host]) -> None:
    """Each registry has its file with its mirrors in order, and containerd looks there."""
    host = host_of(containerd_registries_mirrors=_MIRRORS)
    assert host.containerd("images")["registry"] == {"config_path": "/etc/containerd/certs.d"}
    docker = tomllib.loads(host.file("/etc/containerd/certs.d/docker.io/hosts.toml").content)
    assert list(docker) == ["host"]
    assert list(docker["host"]) == ["https://m1.example", "http://10.0.0.2:5000"]
    assert docker["host"]["https://m1.example"] == {
        "capabilities": ["pull"],
        "skip_verify": False,
        "override_path": False,
    }
    assert docker["host"]["http://10.0.0.2:5000"] == {
        "capabilities": ["pull", "resolve"],
        "skip_verify": True,
        "override_path": False,
        "ca": ["/etc/m.crt"],
    }
    own = tomllib.loads(host.file("/etc/containerd/certs.d/10.0.0.9:5000/hosts.toml").content)
    assert own == {"server": "https://10.0.0.9:5000"}
    assert "registry" not in host_of().containerd("images")


def test_credentials(host_of: Callable[..., Host]) -> None:
    """A registry's password reaches containerd as written, in a file for root; it alone is not shown."""
    host = host_of(containerd_registry_auth=_AUTH, containerd_registries_mirrors=_MIRRORS)
    registry = host.containerd("images")["registry"]
    assert registry["configs"]["10.0.0.9:5000"]["auth"] == {
        "username": "me",
        "password": 'a "quoted\\ word',
    }
    file = host.file("/etc/containerd/config.toml")
    assert (file.mode, file.secrets) == ("0600", ('a "quoted\\ word',))
    assert hide(file.content, file.secrets) == re.sub(r'password = "a.*', 'password = "***"', file.content)
    usual = host_of().file("/etc/containerd/config.toml")
    assert (usual.mode, usual.secrets) == ("0644", ())


def test_a_secret_is_marked_where_it_was_put(host_of: Callable[..., Host]) -> None:
    """A user's name beside a password hides nothing, in no unit and no file."""
    auth = [{"registry": "10.0.0.2:5000", "username": "user", "password": "pass"}]
    host = host_of(containerd_registry_auth=auth)
    marked = {r.id for r in host.resources if getattr(r, "secrets", ())}
    assert marked == {"File:/etc/containerd/config.toml"}
    file = host.file("/etc/containerd/config.toml")
    assert 'username = "user"\n    password = "***"\n' in hide(file.content, file.secrets)


def test_runtimes(host_of: Callable[..., Host]) -> None:
    """Another runtime stands beside runc with its options, and can be the one that pods have by default."""
    found = host_of(containerd_additional_runtimes=[_KATA], containerd_default_runtime="kata")
    runtimes = found.containerd("runtime")["containerd"]
    assert runtimes["default_runtime_name"] == "kata"
    assert set(runtimes["runtimes"]) == {"runc", "kata"}
    assert runtimes["runtimes"]["kata"] == {
        "runtime_type": "io.containerd.kata.v2",
        "options": {"ConfigPath": "/k.toml", "Debug": True},
    }
    assert runtimes["runtimes"]["runc"]["options"]["BinaryName"] == "/usr/local/bin/runc"


def test_the_proxy_is_containerds(host_of: Callable[..., Host]) -> None:
    """The proxy is told to containerd with all that is reached without it; another one is a restart."""
    host = host_of(https_proxy="http://u:p@proxy.example:3128", additional_no_proxy="example.org,10.1.0.0/16")
    file, unit = host.file("/etc/containerd/proxy.env"), host.unit("containerd")
    values = dict(line.split("=", 1) for line in file.content.splitlines())
    assert values == {
        "HTTPS_PROXY": '"http://u:p@proxy.example:3128"',
        "NO_PROXY": '"localhost,127.0.0.1,node1,192.168.50.5,10.233.0.0/18,10.233.64.0/18,'
        '.svc,.cluster.local,example.org,10.1.0.0/16"',
    }
    assert (file.mode, file.secrets) == ("0600", ("p",))
    assert hide(file.content, file.secrets) == file.content.replace("u:p@", "u:***@")
    assert "EnvironmentFile=/etc/containerd/proxy.env\n" in unit.text
    assert "/etc/containerd/proxy.env" in unit.inputs
    assert not host_of().has("/etc/containerd/proxy.env")
    chosen = host_of(http_proxy="http://p.example:1", no_proxy="only.example")
    assert 'NO_PROXY="only.example"' in chosen.file("/etc/containerd/proxy.env").content
    assert not chosen.file("/etc/containerd/proxy.env").secrets


def test_reservations(host_of: Callable[..., Host]) -> None:
    """What is kept from pods is in the kubelet's configuration, for whom it was asked for."""
    config = host_of(kube_reserved=True, kube_cpu_reserved="250m", kube_pid_reserved=500).kubelet()
    assert config["kubeReserved"] == {
        "cpu": "250m",
        "memory": "256Mi",
        "ephemeral-storage": "500Mi",
        "pid": "500",
    }
    assert "systemReserved" not in config
    assert host_of(system_reserved=True).kubelet()["systemReserved"]["memory"] == "512Mi"


def test_container_logs(host_of: Callable[..., Host]) -> None:
    """How long container logs are kept is the kubelet's."""
    config = host_of(kubelet_logfiles_max_nr=3, kubelet_logfiles_max_size="1Mi").kubelet()
    assert (config["containerLogMaxFiles"], config["containerLogMaxSize"]) == (3, "1Mi")


@pytest.mark.parametrize(
    ("variables", "servers", "coredns"),
    [
        ({}, ["10.233.0.3"], True),
        ({"dns_mode": "manual", "manual_dns_server": "10.0.0.53"}, ["10.0.0.53"], False),
        ({"dns_mode": "none"}, [], False),
    ],
)
def test_dns_modes(
    host_of: Callable[..., Host], variables: dict[str, Any], servers: list[str], *, coredns: bool
) -> None:
    """Pods ask whom the mode says; CoreDNS, its image and the wait for it belong to its own mode."""
    host = host_of(**variables)
    assert host.kubelet()["clusterDNS"] == servers
    objects = {
        (r.manifest["kind"], r.manifest["metadata"]["name"])
        for r in host.resources
        if isinstance(r, KubeObject)
    }
    assert (("Deployment", "coredns") in objects) is coredns
    ids = [r.id for r in host.resources]
    assert any("coredns" in i for i in ids if i.startswith("Image:")) is coredns
    assert any(i.startswith("Condition:dns") for i in ids) is coredns
    assert any(i.startswith("Condition:kubernetes-endpoint") for i in ids)


def test_oidc(host_of: Callable[..., Host]) -> None:
    """The API server is told of the provider, and of its authorities by a file of its own."""
    host = host_of(**_OIDC, kube_oidc_ca_cert=_PEM, kube_oidc_groups_prefix="oidc:")
    arguments = host.arguments("kube-apiserver")
    assert {k: v for k, v in arguments.items() if k.startswith("oidc-")} == {
        "oidc-issuer-url": "https://idp.example",
        "oidc-client-id": "kube",
        "oidc-username-claim": "sub",
        "oidc-groups-claim": "groups",
        "oidc-groups-prefix": "oidc:",
        "oidc-ca-file": "/etc/kubernetes/ssl/oidc-ca.crt",
    }
    assert host.file("/etc/kubernetes/ssl/oidc-ca.crt").content.startswith("-----BEGIN CERTIFICATE-----")
    assert "/etc/kubernetes/ssl/oidc-ca.crt" in host.unit("kube-apiserver").inputs
    assert "oidc-ca-file" not in host_of(**_OIDC).arguments("kube-apiserver")


def test_webhook(host_of: Callable[..., Host]) -> None:
    """The webhook is named by a kubeconfig, with its authorities or without a look at its certificate."""
    path = "/etc/kubernetes/webhook-token-auth-config.yaml"
    host = host_of(**_WEBHOOK, kube_webhook_token_auth_ca_data=_PEM)
    assert host.arguments("kube-apiserver")["authentication-token-webhook-config-file"] == path
    assert path in host.unit("kube-apiserver").inputs
    [cluster] = json.loads(host.file(path).content)["clusters"]
    assert cluster["cluster"] == {
        "server": "https://hook.example/token",
        "certificate-authority-data": _PEM,
    }
    blind = host_of(**_WEBHOOK, kube_webhook_token_auth_url_skip_tls_verify=True)
    [cluster] = json.loads(blind.file(path).content)["clusters"]
    assert cluster["cluster"]["insecure-skip-tls-verify"] is True


def test_audit(host_of: Callable[..., Host]) -> None:
    """The API server writes the audit log as declared, by rules that leave content and chatter out."""
    host = host_of(**_AUDIT, audit_log_maxage=7)
    arguments = host.arguments("kube-apiserver")
    assert {k: v for k, v in arguments.items() if k.startswith("audit-")} == {
        "audit-policy-file": "/etc/kubernetes/audit-policy/apiserver-audit-policy.yaml",
        "audit-log-path": "/var/log/audit/kube-apiserver-audit.log",
        "audit-log-maxage": "7",
        "audit-log-maxbackup": "10",
        "audit-log-maxsize": "100",
    }
    policy = json.loads(host.file(arguments["audit-policy-file"]).content)
    assert {rule["level"] for rule in policy["rules"]} == {"None", "Metadata"}
    assert policy["rules"][-1] == {"level": "Metadata"}
    assert arguments["audit-policy-file"] in host.unit("kube-apiserver").inputs
    assert "path:/var/log/audit/kube-apiserver-audit.log" in host.unit("kube-apiserver").residue
    assert (
        "path:/var/log/audit/kube-apiserver-audit-[0-9][0-9][0-9][0-9]-*.log"
        in host.unit("kube-apiserver").residue
    )
    assert (
        host_of(**_AUDIT, audit_log_path="-").unit("kube-apiserver").residue
        == host_of().unit("kube-apiserver").residue
    )


def test_encryption(
    host_of: Callable[..., Host],
    declared: Callable[..., ClusterSpec],
    context_of: Callable[..., HostContext],
) -> None:
    """Keys are made where encryption is asked for, and stay once they are there."""
    path = "/etc/kubernetes/ssl/secrets_encryption.yaml"
    keys = EncryptionKeys(path, "secretbox", ("secrets",))
    host = host_of(**_ENCRYPT)
    assert host.arguments("kube-apiserver")["encryption-provider-config"] == path
    assert keys in host.resources
    assert path in host.unit("kube-apiserver").inputs
    assert not host_of().has(path)
    after = Host(context_of(declared(), ledger=[keys.id]))
    assert EncryptionKeys(path, "identity", ("secrets",)) in after.resources
    assert after.arguments("kube-apiserver")["encryption-provider-config"] == path


@pytest.mark.parametrize("version", KUBE_VERSIONS)
@pytest.mark.parametrize("store", ["host", "kine"])
def test_components_have_all_arguments_that_they_are_given(
    host_of: Callable[..., Host], version: str, store: str
) -> None:
    """Each argument of each component, with everything switched on, is a flag of the declared release."""
    everything = {**_OIDC, **_WEBHOOK, **_AUDIT, **_ENCRYPT, "kube_oidc_ca_cert": _PEM}
    more = {
        "kube_oidc_username_prefix": "a",
        "kube_oidc_groups_prefix": "b",
        "node_taints": ["a=b:NoSchedule"],
    }
    host = host_of(kube_version=version, etcd_deployment_type=store, **everything, **more)
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"):
        assert set(host.arguments(component)) <= flags(component, version), component
