"""The cluster that is wanted: frozen, typed, each value with where it came from.

Fields carry the names of kubespray's variables, the vocabulary that both doors share; a host's connection
details have names of their own, with the variable's name in the field's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from ipaddress import IPv4Network
from typing import Any

from nidome.provenance import Origin, Sourced

__all__ = ["HIDDEN", "PASSWORDS", "ClusterSpec", "HostSpec", "because", "plain_value", "shown", "shown_field"]

HIDDEN = "***"
"""What is shown in place of a secret."""

_CREDENTIALS = r"://(?:[^/@:\s]*:)?([^/\s]+)@"
"""The password in an address, or all that stands before its @ where that has no name."""
_SHOWN = 200  # characters of a value in a reason
_DNS_ADDRESS = 3  # of the service network, as in kubespray; the first is the API's own Service


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HostSpec:
    """One host; ``groups`` are those of the inventory that it is in, ``all`` left out.

    None means that ssh (user, port, key) or the host (python) decides.
    """

    name: str
    groups: tuple[str, ...]
    origin: Origin
    address: Sourced[str] = field(metadata={"declared_as": "ansible_host"})
    connection: Sourced[str] = field(metadata={"declared_as": "ansible_connection"})
    user: Sourced[str | None] = field(metadata={"declared_as": "ansible_user"})
    port: Sourced[int | None] = field(metadata={"declared_as": "ansible_port"})
    private_key_file: Sourced[str | None] = field(metadata={"declared_as": "ansible_ssh_private_key_file"})
    ssh_common_args: Sourced[str] = field(metadata={"declared_as": "ansible_ssh_common_args"})
    become: Sourced[bool] = field(metadata={"declared_as": "ansible_become"})
    python: Sourced[str | None] = field(metadata={"declared_as": "ansible_python_interpreter"})
    ip: Sourced[str]
    access_ip: Sourced[str]
    node_labels: Sourced[Mapping[str, str]]
    node_taints: Sourced[tuple[str, ...]]

    @property
    def is_control_plane(self) -> bool:
        """Return whether the API server runs here."""
        return "kube_control_plane" in self.groups

    @property
    def is_node(self) -> bool:
        """Return whether workloads may run here."""
        return "kube_node" in self.groups

    @property
    def is_etcd(self) -> bool:
        """Return whether a member of etcd runs here."""
        return "etcd" in self.groups

    def values(self) -> dict[str, Any]:
        """Return every declared value by field name, without origins; as :meth:`ClusterSpec.values`."""
        return _values(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClusterSpec:
    """The whole cluster: settings, and hosts in the inventory's order. ``source`` is the inventory's path."""

    source: str
    hosts: tuple[HostSpec, ...]

    bin_dir: Sourced[str]
    kube_config_dir: Sourced[str]
    kube_cert_dir: Sourced[str]
    kube_version: Sourced[str]
    container_manager: Sourced[str]
    cert_management: Sourced[str]
    cluster_name: Sourced[str]
    kube_log_level: Sourced[int]
    event_ttl_duration: Sourced[str]
    k8s_image_pull_policy: Sourced[str]
    allow_unsupported_distribution_setup: Sourced[bool]
    http_proxy: Sourced[str]
    https_proxy: Sourced[str]
    no_proxy: Sourced[str | None]
    additional_no_proxy: Sourced[str]
    kube_service_addresses: Sourced[str]
    kube_pods_subnet: Sourced[str]
    kube_network_node_prefix: Sourced[int]
    kube_network_plugin: Sourced[str]
    kube_proxy_mode: Sourced[str]

    kube_apiserver_port: Sourced[int]
    kube_api_anonymous_auth: Sourced[bool]
    supplementary_addresses_in_ssl_keys: Sourced[tuple[str, ...]]
    kube_webhook_token_auth: Sourced[bool]
    kube_webhook_token_auth_url: Sourced[str]
    kube_webhook_token_auth_url_skip_tls_verify: Sourced[bool]
    kube_webhook_token_auth_ca_data: Sourced[str]
    kube_oidc_auth: Sourced[bool]
    kube_oidc_url: Sourced[str]
    kube_oidc_client_id: Sourced[str]
    kube_oidc_username_claim: Sourced[str]
    kube_oidc_username_prefix: Sourced[str | None]
    kube_oidc_groups_claim: Sourced[str]
    kube_oidc_groups_prefix: Sourced[str | None]
    kube_oidc_ca_cert: Sourced[str]
    kubernetes_audit: Sourced[bool]
    audit_log_path: Sourced[str]
    audit_log_maxage: Sourced[int]
    audit_log_maxbackups: Sourced[int]
    audit_log_maxsize: Sourced[int]
    audit_policy_file: Sourced[str]
    kube_encrypt_secret_data: Sourced[bool]
    kube_encryption_algorithm: Sourced[str]
    kube_encryption_resources: Sourced[tuple[str, ...]]
    kube_kubeadm_apiserver_extra_args: Sourced[Mapping[str, str]]
    kube_kubeadm_controller_extra_args: Sourced[Mapping[str, str]]
    kube_kubeadm_scheduler_extra_args: Sourced[Mapping[str, str]]

    kubelet_max_pods: Sourced[int]
    kubelet_rotate_certificates: Sourced[bool]
    kubelet_rotate_server_certificates: Sourced[bool]
    kubelet_logfiles_max_nr: Sourced[int]
    kubelet_logfiles_max_size: Sourced[str]
    kube_reserved: Sourced[bool]
    kube_cpu_reserved: Sourced[str]
    kube_memory_reserved: Sourced[str]
    kube_ephemeral_storage_reserved: Sourced[str]
    kube_pid_reserved: Sourced[str]
    system_reserved: Sourced[bool]
    system_cpu_reserved: Sourced[str]
    system_memory_reserved: Sourced[str]
    system_ephemeral_storage_reserved: Sourced[str]
    system_pid_reserved: Sourced[str]
    eviction_hard: Sourced[Mapping[str, str]]
    kubelet_custom_flags: Sourced[tuple[str, ...]]

    dns_mode: Sourced[str]
    manual_dns_server: Sourced[str | None]
    dns_min_replicas: Sourced[int]
    upstream_dns_servers: Sourced[tuple[str, ...]]
    helm_enabled: Sourced[bool]

    etcd_deployment_type: Sourced[str]
    etcd_data_dir: Sourced[str]
    kine_data_dir: Sourced[str]

    containerd_storage_dir: Sourced[str]
    containerd_state_dir: Sourced[str]
    containerd_oom_score: Sourced[int]
    containerd_snapshotter: Sourced[str]
    containerd_debug_level: Sourced[str]
    containerd_metrics_address: Sourced[str]
    containerd_max_container_log_line_size: Sourced[int]
    containerd_default_runtime: Sourced[str]
    containerd_additional_runtimes: Sourced[tuple[Mapping[str, Any], ...]]
    containerd_registries_mirrors: Sourced[tuple[Mapping[str, Any], ...]]
    containerd_registry_auth: Sourced[tuple[Mapping[str, Any], ...]] = field(
        metadata={"secret": ("password",)}
    )

    ignore_preflight_errors: Sourced[tuple[str, ...]]
    nidome_certificate_days: Sourced[int]
    nidome_ca_days: Sourced[int]

    @property
    def control_plane(self) -> tuple[HostSpec, ...]:
        """Return the hosts that run the API server."""
        return tuple(host for host in self.hosts if host.is_control_plane)

    @property
    def nodes(self) -> tuple[HostSpec, ...]:
        """Return the hosts that run workloads."""
        return tuple(host for host in self.hosts if host.is_node)

    @property
    def etcd(self) -> tuple[HostSpec, ...]:
        """Return the members of etcd; none where kine is the store."""
        return tuple(host for host in self.hosts if host.is_etcd) if self.uses_etcd else ()

    @property
    def uses_etcd(self) -> bool:
        """Return whether the store is etcd; kine otherwise."""
        return self.etcd_deployment_type.value == "host"

    @property
    def service_network(self) -> IPv4Network:
        """Return the network of the Services' addresses."""
        return IPv4Network(self.kube_service_addresses.value)

    @property
    def pod_network(self) -> IPv4Network:
        """Return the network of the pods' addresses."""
        return IPv4Network(self.kube_pods_subnet.value)

    @property
    def api_service_ip(self) -> str:
        """Return the ClusterIP of the ``kubernetes`` Service: the first address of the service network."""
        return str(self.service_network.network_address + 1)

    @property
    def dns_service_ip(self) -> str:
        """Return the ClusterIP of the DNS Service: the third address of the service network (kubespray)."""
        return str(self.service_network.network_address + _DNS_ADDRESS)

    def host(self, name: str) -> HostSpec:
        """Return a host by its name; KeyError where there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def values(self) -> dict[str, Any]:
        """Return every declared value of the cluster by field name, without origins and hosts.

        As JSON has them; of a secret only its hash.
        """
        return _values(self)

    @property
    def secrets(self) -> frozenset[str]:
        """Return the texts in the values that must not be shown or recorded."""
        return frozenset(text for texts in self.secret_fields.values() for text in texts)

    @cached_property
    def secret_fields(self) -> dict[str, frozenset[str]]:
        """Return the secrets by the field that holds them: what was encrypted, and passwords in any case."""
        found: dict[str, frozenset[str]] = {}
        parts: tuple[ClusterSpec | HostSpec, ...] = (self, *self.hosts)
        for part in parts:
            for each in fields(part):
                sourced = getattr(part, each.name)
                texts = set(_secret_texts(sourced, each.metadata)) if isinstance(sourced, Sourced) else set()
                if texts:
                    found[each.name] = found.get(each.name, frozenset()) | texts
        return found

    @property
    def digest(self) -> str:
        """Return a sha256 over all names and values: equal where two declarations say the same."""
        import hashlib  # noqa: PLC0415 - a no-op run may not need it
        import json  # noqa: PLC0415 - as above

        hosts = [{"name": host.name, "groups": host.groups, **host.values()} for host in self.hosts]
        text = json.dumps({"cluster": self.values(), "hosts": hosts}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


PASSWORDS = frozenset(
    each.name for kind in (ClusterSpec, HostSpec) for each in fields(kind) if each.metadata.get("secret")
)
"""The fields that hold passwords: secrets however they are written."""


def _values(spec: ClusterSpec | HostSpec) -> dict[str, Any]:
    names = (each.name for each in fields(spec))
    return {name: plain_value(spec, name) for name in names if isinstance(getattr(spec, name), Sourced)}


def plain_value(spec: ClusterSpec | HostSpec, name: str) -> Any:
    """Return a declared value as JSON has it; of a secret, its hash: equal where the secret is the same."""
    sourced = getattr(spec, name)
    value = _plain(sourced.value)
    if not _is_secret(sourced, name):
        return value
    import hashlib  # noqa: PLC0415 - as in digest

    return "sha256:" + hashlib.sha256(repr(value).encode()).hexdigest()


def _is_secret(sourced: Sourced[Any], name: str) -> bool:
    return bool(sourced.secrets) or (name in PASSWORDS and bool(sourced.value))


def _secret_texts(sourced: Sourced[Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    """Give the secrets of a value: what was encrypted, parts that are passwords, and those in addresses."""
    yield from sourced.secrets
    for part in metadata.get("secret", ()):
        yield from (record[part] for record in sourced.value)
    if isinstance(sourced.value, str):
        yield from (match[1] for match in re.finditer(_CREDENTIALS, sourced.value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def because(spec: ClusterSpec | HostSpec, *names: str) -> tuple[str, ...]:
    """Return ``name = value (file:line, layer)`` for each field, under the name it is declared by.

    KeyError for a name that is not a declared field, so that no change can cite what does not exist.
    """
    declared = {each.name: each for each in fields(spec)}
    lines = []
    for name in names:
        sourced = getattr(spec, declared[name].name)
        if not isinstance(sourced, Sourced):
            raise KeyError(name)
        label = declared[name].metadata.get("declared_as", name)
        lines.append(f"{label} = {_cut(shown_field(spec, name))} ({_place(sourced.origin)})")
    return tuple(lines)


def shown_field(spec: ClusterSpec | HostSpec, name: str) -> str:
    """Return a declared value the way people write it, a secret hidden."""
    sourced = getattr(spec, name)
    return HIDDEN if _is_secret(sourced, name) else shown(sourced.value)


def _cut(text: str) -> str:
    """Return the beginning of a long text: an encoded certificate is nothing for people."""
    return f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text


def _place(origin: Origin) -> str:
    return f"{origin}, {origin.layer}" if origin.file else origin.layer


def shown(value: Any) -> str:
    """Return a value the way people write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    # An address may carry a password.
    return re.sub(_CREDENTIALS, _without_password, str(value)) if value != "" else "''"


def _without_password(match: re.Match[str]) -> str:
    start = match.start(1) - match.start()
    return f"{match[0][:start]}{HIDDEN}@"
