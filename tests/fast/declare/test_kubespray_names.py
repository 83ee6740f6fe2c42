"""The variables that people of kubespray edit: each is understood, as supported or as known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.declare.known import KNOWN, ON, PREFIXES, SUFFIXES, known
from nidome.declare.resolve import did_you_mean, load
from nidome.declare.variables import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_SUPPORTED = """
bin_dir access_ip ip upstream_dns_servers http_proxy https_proxy no_proxy additional_no_proxy cert_management
kube_webhook_token_auth allow_unsupported_distribution_setup
containerd_storage_dir containerd_state_dir containerd_oom_score containerd_default_runtime
containerd_snapshotter containerd_additional_runtimes containerd_debug_level containerd_metrics_address
containerd_registries_mirrors containerd_max_container_log_line_size containerd_registry_auth
etcd_data_dir etcd_deployment_type
kube_version kube_config_dir kube_cert_dir kube_log_level kube_api_anonymous_auth kube_oidc_auth
kube_network_plugin kube_service_addresses kube_pods_subnet kube_network_node_prefix kube_apiserver_port
kube_proxy_mode kube_encrypt_secret_data cluster_name dns_mode container_manager k8s_image_pull_policy
kubernetes_audit kube_reserved system_reserved eviction_hard kubelet_max_pods
supplementary_addresses_in_ssl_keys event_ttl_duration helm_enabled
kube_oidc_url kube_oidc_client_id kube_oidc_username_claim kube_oidc_username_prefix kube_oidc_groups_claim
kube_oidc_groups_prefix kube_oidc_ca_cert kube_webhook_token_auth_url
kube_webhook_token_auth_url_skip_tls_verify kube_webhook_token_auth_ca_data
audit_log_path audit_log_maxage audit_log_maxbackups audit_log_maxsize audit_policy_file
kube_encryption_algorithm kube_encryption_resources manual_dns_server
kube_cpu_reserved kube_memory_reserved kube_ephemeral_storage_reserved kube_pid_reserved
system_cpu_reserved system_memory_reserved system_ephemeral_storage_reserved system_pid_reserved
kubelet_logfiles_max_nr kubelet_logfiles_max_size kubelet_custom_flags
kube_kubeadm_apiserver_extra_args kube_kubeadm_controller_extra_args kube_kubeadm_scheduler_extra_args
ansible_host ansible_user ansible_port ansible_ssh_private_key_file ansible_become ansible_connection
"""

_KNOWN = """
loadbalancer_apiserver apiserver_loadbalancer_domain_name loadbalancer_apiserver_localhost
loadbalancer_apiserver_type loadbalancer_apiserver_port loadbalancer_apiserver_healthcheck_port
disable_host_nameservers cloud_provider ignore_assert_errors deploy_container_engine download_container
ntp_enabled unsafe_show_logs local_release_dir ipv4_stack ipv6_stack kube_proxy_strict_arp ndots
enable_nodelocaldns nodelocaldns_ip resolvconf_mode kubeconfig_localhost kubectl_localhost
auto_renew_certificates remove_anonymous_access etcd_member_name kube_encrypt_token kube_oidc_ca_file
audit_policy_custom_rules kubernetes_audit_webhook kube_webhook_authorization kube_reserved_cgroups
system_reserved_cgroups eviction_hard_control_plane
registry_enabled metrics_server_enabled local_path_provisioner_enabled cert_manager_enabled metallb_enabled
argocd_enabled kube_vip_enabled gateway_api_enabled
calico_mtu calico_ipip_mode cilium_version flannel_backend_type
registry_host files_repo kube_image_repo quay_image_repo kubelet_download_url etcd_download_url
"""

# kubespray's own value of each that is written in its sample inventory, where nothing differs by it.
_SILENT = """
loadbalancer_apiserver_port: 6443
loadbalancer_apiserver_healthcheck_port: 8081
cert_management: script
kube_webhook_token_auth: false
kube_webhook_token_auth_url_skip_tls_verify: false
ntp_enabled: false
unsafe_show_logs: false
allow_unsupported_distribution_setup: false
local_release_dir: "/tmp/releases"
kube_oidc_auth: false
kube_proxy_strict_arp: false
kube_encrypt_secret_data: false
dns_mode: coredns
container_manager: containerd
k8s_image_pull_policy: IfNotPresent
kubernetes_audit: false
kubeconfig_localhost: false
kubectl_localhost: false
auto_renew_certificates: false
remove_anonymous_access: false
event_ttl_duration: "1h0m0s"
ipv4_stack: true
ipv6_stack: false
helm_enabled: false
metrics_server_enabled: false
kube_network_plugin: bridge
calico_cni_name: k8s-pod-network
macvlan_interface: eth1
docker_daemon_graph: /var/lib/docker
metallb_speaker_enabled: "{{ metallb_enabled }}"
metallb_namespace: metallb-system
ntp_servers: [0.pool.ntp.org]
kube_owner: kube
kube_cert_group: kube-cert
ndots: 2
kube_script_dir: "{{ bin_dir }}/kubernetes-scripts"
kube_manifest_dir: "{{ kube_config_dir }}/manifests"
kube_token_dir: "{{ kube_config_dir }}/tokens"
credentials_dir: "{{ inventory_dir }}/credentials"
dns_domain: "{{ cluster_name }}"
kube_apiserver_ip: "{{ kube_service_addresses | ansible.utils.ipaddr(1) | ansible.utils.ipaddr('address') }}"
skydns_server: "{{ kube_service_subnets.split(',')|first|ansible.utils.ipaddr(3)|ipaddr('address')}}"
kube_service_addresses_ipv6: "fd85:ee78:d8a6:8607::1000/116"
enable_nodelocaldns: false
nodelocaldns_ip: 169.254.25.10
kube_proxy_nodeport_addresses: >-
  {%- if kube_proxy_nodeport_addresses_cidr is defined -%}[{{ kube_proxy_nodeport_addresses_cidr }}]
  {%- else -%}[]{%- endif -%}
"""

# The same variables where something does differ by their value.
_TOLD = """
calico_cni_name: k8s-pod-network
kube_owner: somebody
ndots: 3
kube_script_dir: /opt/scripts
dns_domain: other.example
kube_apiserver_ip: "{{ kube_service_addresses | ansible.utils.ipaddr(7) | ansible.utils.ipaddr('address') }}"
nodelocaldns_ip: 169.254.25.10
kube_proxy_nodeport_addresses: [10.0.0.0/8]
metallb_enabled: true
registry_host: registry.example
cinder_csi_enabled: true
kubelet_systemd_hardening: true
"""


@pytest.mark.parametrize("name", _SUPPORTED.split())
def test_a_variable_is_supported(name: str) -> None:
    """What concerns something that exists here can be declared."""
    assert name in BY_NAME


@pytest.mark.parametrize("name", _KNOWN.split())
def test_a_variable_is_known(name: str) -> None:
    """What does not is named with what leaving it out means, and never called a misspelling."""
    found = known(name)
    assert name not in BY_NAME
    assert found is not None
    assert found.effect


def test_a_value_that_changes_nothing_is_not_mentioned(
    inventory: Callable[[Mapping[str, str]], Path],
) -> None:
    """Where kubespray's sample and Nidome agree, an inventory that writes it out gives no warning."""
    _, warnings = load(inventory({"group_vars/all.yml": _SILENT}), strict=True)
    assert warnings == []


def test_a_value_by_which_something_differs_is_told(inventory: Callable[[Mapping[str, str]], Path]) -> None:
    """The same variables are mentioned where leaving them out is felt."""
    _, warnings = load(inventory({"group_vars/all.yml": _TOLD}))
    assert {w.code for w in warnings} == {"variable-unsupported"}
    assert [w.name for w in warnings] == [line.split(":")[0] for line in _TOLD.split("\n") if line]
    assert all(w.effect for w in warnings)


def test_what_switches_a_setting_on_speaks_for_it() -> None:
    """A setting is silent only beside a switch that is a variable, whose own value is checked or told."""
    entries = [*KNOWN.values(), *PREFIXES.values(), *SUFFIXES.values()]
    switches = {entry.part_of for entry in entries if entry.part_of}
    assert switches | ON == {name for name in switches | ON if name in BY_NAME or name in KNOWN}


def test_a_name_of_somebodys_own_is_not_kubesprays(inventory: Callable[[Mapping[str, str]], Path]) -> None:
    """A name that only begins as kubespray's do is unknown, and no part of an addon."""
    _, warnings = load(inventory({"group_vars/all.yml": "registry_password: x\nmy_image_repo: y\n"}))
    assert [w.code for w in warnings] == ["variable-unknown"] * 2


@pytest.mark.parametrize("name", ["ingress_nginx_enabled", "krew_enabled"])
def test_what_older_releases_have_is_known(name: str) -> None:
    """A variable of a kubespray of some years ago is named as known, not as a misspelling."""
    assert known(name) is not None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("helm_enabeld", "did you mean helm_enabled?"),
        ("kubelet_max_pod", "did you mean kubelet_max_pods?"),
        ("metalb_enabled", "remove it"),
        ("kerw_enabled", "remove it"),
    ],
)
def test_a_suggestion_is_a_supported_name_that_is_near(name: str, meant: str) -> None:
    """What is suggested has an effect and is nearly the name that was written; else nothing is suggested."""
    assert did_you_mean(name).startswith(meant)
