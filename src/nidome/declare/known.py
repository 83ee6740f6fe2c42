"""Variables that kubespray has and Nidome does not use: what that means, and where nothing differs by it.

``kubespray_names.txt`` has the names of all of kubespray's (scripts/kubespray_names.py writes it): a pattern
here speaks for those only, never for a name that somebody has made up.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

__all__ = ["KNOWN", "ON", "PREFIXES", "SUFFIXES", "Known", "known"]


class Known(NamedTuple):
    """A variable of kubespray's that is not used; ``effect`` is what that means.

    Nothing differs, and nothing is said, at the values in ``silent``, and at a template that ``template``
    matches without its blanks: kubespray's default is one. ``part_of`` names the variable that switches on
    what this one is a setting of: about a switch that is written there is a warning or an error already, and
    one that is not written is off in kubespray, unless it is in ``ON``.
    """

    effect: str
    silent: tuple[Any, ...] = ()
    template: str = ""
    part_of: str = ""

    def is_silent(self, value: Any, written: Container[str]) -> bool:
        """Tell whether nothing differs by a value, as it is written, beside the names that are written."""
        if self.part_of and (self.part_of not in ON or self.part_of in written):
            return True
        if self.template and isinstance(value, str):
            return re.fullmatch(self.template, re.sub(r"\s", "", value)) is not None
        return any(type(value) is type(each) and value == each for each in self.silent)


ON = frozenset({"enable_nodelocaldns", "kube_network_plugin"})
"""The switches that kubespray has on where they are not written."""


_ADDON = Known("the addon is not installed", (False,))
_BALANCER = Known("no load balancer is set up; clients use the control-plane host's own address")
_CLOUD = Known("no cloud provider is set up", ("", False))
_CRI = Known("containerd is the only container runtime", part_of="container_manager")
_DNS = Known("CoreDNS serves pods directly, without a cache on each node")
_IPV6 = Known("the cluster is IPv4 only", (False,))
_LOGIN = Known("ssh's own configuration and keys decide how to log in")
_OIDC = Known("the API server reads no file about OpenID Connect; see kube_oidc_ca_cert")
_PROXY = Known("a proxy is for containerd only", ("",))
_RESERVED = Known("kube_reserved and system_reserved hold for every node, and in no cgroup of their own")
_WEBHOOK = Known("the API server asks no webhook what a user may do", (False,))
_MIRROR = Known("artifacts come from Nidome's own providers (nidome artifacts)")
_AUDIT = Known("the API server writes its audit log to a file, by Nidome's own rules", (False,))
_DOCKER = Known("Docker is not used", part_of="container_manager")
_OS = Known("the operating system's package sources are left as they are")
_RUNTIME = Known("runc is the only runtime", (False,))
_NETWORK = Known("the bridge plugin is the only network", part_of="kube_network_plugin")
_SERVICE_ADDRESS = r"\{\{kube_service_(?:subnets|addresses)\b.*ipaddr\(%d\)\|.*\}\}"
_REST = Known("nothing that Nidome sets up uses it")
_SWITCH = Known("what it switches on is not there", (False,))

KNOWN: Mapping[str, Known] = {
    # Connections
    "ansible_password": _LOGIN,
    "ansible_ssh_pass": _LOGIN,
    "ansible_ssh_user": Known("ansible_user is the name that is read"),
    "ansible_ssh_host": Known("ansible_host is the name that is read"),
    "ansible_ssh_port": Known("ansible_port is the name that is read"),
    "ansible_private_key_file": Known("ansible_ssh_private_key_file is the name that is read"),
    "ansible_ssh_extra_args": Known("ansible_ssh_common_args is the name that is read"),
    "ansible_become_user": Known("components are set up as root", ("root",)),
    "ansible_become_method": Known("sudo is the only way to become root", ("sudo",)),
    "ansible_become_password": Known("sudo must not ask for a password"),
    "ansible_become_pass": Known("sudo must not ask for a password"),
    "ansible_shell_type": Known("a POSIX shell is used", ("sh",)),
    "etcd_member_name": Known("an etcd member has its host's name"),
    # all.yml
    "loadbalancer_apiserver": _BALANCER,
    "apiserver_loadbalancer_domain_name": _BALANCER,
    "loadbalancer_apiserver_localhost": _BALANCER,
    "loadbalancer_apiserver_type": _BALANCER,
    "loadbalancer_apiserver_port": Known(_BALANCER.effect, (6443,)),
    "loadbalancer_apiserver_healthcheck_port": Known(_BALANCER.effect, (8081,)),
    "disable_host_nameservers": Known(
        "CoreDNS asks upstream_dns_servers, else the host's resolver", (False,)
    ),
    "cloud_provider": _CLOUD,
    "external_cloud_provider": _CLOUD,
    "https_proxy_cert_file": _PROXY,
    "no_proxy_exclude_workers": Known(_PROXY.effect, (False,)),
    "skip_http_proxy_on_os_packages": Known(_PROXY.effect, (False,)),
    "download_validate_certs": Known("downloads are always verified", (True,)),
    "ignore_assert_errors": Known("a check is ignored by its name, with ignore_preflight_errors", (False,)),
    "kubeadm_ignore_preflight_errors": Known("kubeadm is not used; see ignore_preflight_errors", ([],)),
    "kube_read_only_port": Known("the kubelet has no read-only port", (0,)),
    "deploy_container_engine": Known("containerd is always set up", (True,)),
    "download_container": Known("images come from Nidome's own providers", (True,)),
    "download_run_once": Known("artifacts are fetched once, on the machine that nidome runs on"),
    "download_localhost": Known("artifacts are fetched once, on the machine that nidome runs on"),
    "download_force_cache": Known("the cache is always used"),
    "kube_webhook_authorization": _WEBHOOK,
    "kube_webhook_authorization_url": _WEBHOOK,
    "kube_webhook_authorization_url_skip_tls_verify": _WEBHOOK,
    "ntp_enabled": Known("the hosts' clocks are left as they are", (False,)),
    "ntp_manage_config": Known("the hosts' clocks are left as they are", (False,)),
    "ntp_servers": Known("the hosts' clocks are left as they are", part_of="ntp_enabled"),
    "unsafe_show_logs": Known("secrets are never shown", (False,)),
    "ping_access_ip": Known("hosts do not ping each other beforehand"),
    "sysctl_file_path": Known("kernel settings are in a file of Nidome's own"),
    "sysctl_ignore_unknown_keys": Known("an unknown kernel setting is an error", (False,)),
    "coreos_auto_upgrade": Known("the operating system's updates are left as they are"),
    "override_system_hostname": Known("the host's name is left as it is", (False,)),
    "populate_inventory_to_hosts_file": Known("/etc/hosts is left as it is", (False,)),
    # containerd.yml
    "containerd_runc_runtime": Known("runc is set up by Nidome"),
    "containerd_base_runtime_specs": Known("containers have containerd's own base specification"),
    "containerd_extra_args": Known("nothing is added to containerd's configuration", ("",)),
    "containerd_grpc_max_recv_message_size": Known("containerd's own limit holds", (16777216,)),
    "containerd_grpc_max_send_message_size": Known("containerd's own limit holds", (16777216,)),
    "containerd_debug_address": Known("containerd has no debug socket", ("",)),
    "containerd_debug_format": Known("containerd's own log format is used", ("",)),
    "containerd_debug_uid": Known("containerd has no debug socket", (0,)),
    "containerd_debug_gid": Known("containerd has no debug socket", (0,)),
    "containerd_metrics_grpc_histogram": Known("containerd makes no histograms of its calls", (False,)),
    # k8s-cluster.yml
    "kube_script_dir": Known(
        "there are no scripts to be put anywhere", template=r"\{\{bin_dir\}\}/kubernetes-scripts"
    ),
    "kube_manifest_dir": Known(
        "components are systemd services, not static pods", template=r"\{\{kube_config_dir\}\}/manifests"
    ),
    "kube_token_dir": Known("there are no token files", part_of="kube_token_auth"),
    "local_release_dir": Known("artifacts are kept in Nidome's cache", ("/tmp/releases",)),  # noqa: S108 - a default of kubespray's
    "retry_stagger": Known("Nidome's own times between two tries are used", (5,)),
    "kube_owner": Known("files belong to root", ("kube", "root")),
    "ndots": Known("the hosts' own resolv.conf is not changed; pods have the kubelet's 5", (2,)),
    "kube_cert_group": Known("files belong to root", ("kube-cert", "root")),
    "credentials_dir": Known(
        "no credentials are kept beside the inventory", template=r"\{\{inventory_dir\}\}/credentials"
    ),
    "kube_token_auth": Known("the API server reads no token file", (False,)),
    "kube_apiserver_use_authentication_config_file": Known("no authentication file is used", (False,)),
    "kube_network_plugin_multus": Known("a pod has one network", (False,)),
    "kube_service_addresses_ipv6": Known(_IPV6.effect, part_of="ipv6_stack"),
    "kube_pods_subnet_ipv6": Known(_IPV6.effect, part_of="ipv6_stack"),
    "kube_network_node_prefix_ipv6": Known(_IPV6.effect, part_of="ipv6_stack"),
    "ipv4_stack": Known(_IPV6.effect, (True,)),
    "ipv6_stack": _IPV6,
    "enable_dual_stack_networks": _IPV6,
    "kube_apiserver_ip": Known(
        "the API's Service has the first address of kube_service_addresses", template=_SERVICE_ADDRESS % 1
    ),
    "kube_proxy_strict_arp": Known("it concerns ipvs only", (False,)),
    "kube_proxy_nodeport_addresses": Known(
        "kube-proxy serves node ports on every address",
        ([],),
        r"\{%.*kube_proxy_nodeport_addresses_cidrisdefined.*\[\].*%\}",
    ),
    "kube_proxy_nodeport_addresses_cidr": Known("kube-proxy serves node ports on every address"),
    "kube_override_hostname": Known("a node has its host's inventory name"),
    "kubelet_shutdown_grace_period": Known("the kubelet's own default holds"),
    "kubelet_shutdown_grace_period_critical_pods": Known("the kubelet's own default holds"),
    "dns_timeout": Known("the resolver's own default holds", (2,)),
    "dns_attempts": Known("the resolver's own default holds", (2,)),
    "searchdomains": Known("pods have the cluster's search domains only", ([],)),
    "remove_default_searchdomains": Known("pods have the cluster's search domains", (False,)),
    "dns_domain": Known("cluster_name is the cluster's DNS domain", template=r"\{\{cluster_name\}\}"),
    "dns_replicas": Known("dns_min_replicas is the number of replicas"),
    "coredns_replicas": Known("dns_min_replicas is the number of replicas"),
    "enable_nodelocaldns": Known(_DNS.effect, (False,)),
    "enable_nodelocaldns_secondary": Known(_DNS.effect, (False,)),
    "enable_coredns_k8s_external": Known("CoreDNS serves the cluster's domain only", (False,)),
    "coredns_k8s_external_zone": Known(
        "CoreDNS serves the cluster's domain only", part_of="enable_coredns_k8s_external"
    ),
    "enable_coredns_k8s_endpoint_pod_names": Known("endpoints have no names of their pods", (False,)),
    "dns_upstream_forward_extra_opts": Known("CoreDNS' own defaults hold", ({},)),
    "coredns_kubernetes_extra_opts": Known("CoreDNS' own defaults hold", ([],)),
    "coredns_kubernetes_extra_domains": Known("CoreDNS serves the cluster's domain only", ("",)),
    "resolvconf_mode": Known("the hosts' resolv.conf is left as it is", ("none",)),
    "deploy_netchecker": _ADDON,
    "skydns_server": Known(
        "CoreDNS has the third address of kube_service_addresses", template=_SERVICE_ADDRESS % 3
    ),
    "skydns_server_secondary": Known("CoreDNS has one address", part_of="dns_mode"),
    "kata_containers_enabled": _RUNTIME,
    "kubeadm_certificate_key": Known(
        "kubeadm is not used", template=r"\{\{lookup\('password',credentials_dir\b.*\}\}"
    ),
    "kubeadm_patches": Known("kubeadm is not used", ([],)),
    "kubeadm_patches_dir": Known("kubeadm is not used", part_of="kubeadm_patches"),
    "kubernetes_audit_webhook": _AUDIT,
    "kubelet_config_dir": Known(
        "the kubelet has one configuration file", template=r"\{\{kube_config_dir\}\}/dynamic_kubelet_dir"
    ),
    "default_kubelet_config_dir": Known(
        "the kubelet has one configuration file", template=r"\{\{kube_config_dir\}\}/dynamic_kubelet_dir"
    ),
    "kubeconfig_localhost": Known("nidome kubeconfig prints it at any time", (False,)),
    "kubeconfig_localhost_ansible_host": Known("nidome kubeconfig prints it at any time", (False,)),
    "kubectl_localhost": Known("nidome kubectl is there without it", (False,)),
    "kubelet_enforce_node_allocatable": Known("the kubelet's own default holds", ("pods",)),
    "kubelet_runtime_cgroups": Known("Nidome chooses the cgroups"),
    "kubelet_kubelet_cgroups": Known("Nidome chooses the cgroups"),
    "kubelet_runtime_cgroups_cgroupfs": Known("Nidome chooses the cgroups"),
    "kubelet_kubelet_cgroups_cgroupfs": Known("Nidome chooses the cgroups"),
    "kubelet_cgroup_driver": Known("Nidome finds the driver out on the host"),
    "kubelet_flexvolumes_plugins_dir": Known("FlexVolumes are not supported"),
    "kubelet_fail_swap_on": Known("the preflight checks decide about swap"),
    "eviction_hard_control_plane": Known("eviction_hard holds for every node", ({},)),
    "kube_encrypt_token": Known("the key is made on the host and stays there"),
    "volume_cross_zone_attachment": Known("no cloud provider is set up", (False,)),
    "persistent_volumes_enabled": Known("no cloud provider is set up", (False,)),
    "tls_min_version": Known("the components' own choice holds", ("",)),
    "tls_cipher_suites": Known("the components' own choice holds", ({}, [])),
    "auto_renew_certificates": Known("certificates are renewed by an apply", (False,)),
    "auto_renew_certificates_systemd_calendar": Known(
        "certificates are renewed by an apply", part_of="auto_renew_certificates"
    ),
    "remove_anonymous_access": Known("no anonymous access is granted", (False, True)),
    # addons.yml
    "registry_enabled": _ADDON,
    "metrics_server_enabled": _ADDON,
    "local_path_provisioner_enabled": _ADDON,
    "local_volume_provisioner_enabled": _ADDON,
    "csi_snapshot_controller_enabled": _ADDON,
    "snapshot_controller_namespace": Known(_ADDON.effect, part_of="csi_snapshot_controller_enabled"),
    "gateway_api_enabled": _ADDON,
    "ingress_alb_enabled": _ADDON,
    "ingress_nginx_enabled": _ADDON,
    "krew_enabled": Known("krew is not installed", (False,)),
    "dashboard_enabled": _ADDON,
    "rbd_provisioner_enabled": _ADDON,
    "cephfs_provisioner_enabled": _ADDON,
    "cinder_csi_enabled": _ADDON,
    "scheduler_plugins_enabled": _ADDON,
    "nvidia_accelerator_enabled": Known("no GPU driver is installed", (False,)),
    "gvisor_enabled": _RUNTIME,
    "youki_enabled": _RUNTIME,
    "crun_enabled": _RUNTIME,
    "cert_manager_enabled": _ADDON,
    "metallb_enabled": _ADDON,
    "metallb_speaker_enabled": Known(_ADDON.effect, part_of="metallb_enabled"),
    "metallb_namespace": Known(_ADDON.effect, part_of="metallb_enabled"),
    "argocd_enabled": _ADDON,
    "kube_vip_enabled": _ADDON,
    "node_feature_discovery_enabled": _ADDON,
    "storage_classes": Known("no storage class is made"),
    # Networks
    "nat_outgoing": Known("pods' traffic to the outside is always translated", (True,)),
    "nat_outgoing_ipv6": Known(_IPV6.effect),
    "peer_with_router": Known("there is no BGP", (False,)),
    "global_as_num": Known("there is no BGP"),
    "macvlan_interface": _NETWORK,
    "enable_nat_default_gateway": _NETWORK,
    # offline.yml
    "registry_host": _MIRROR,
    "files_repo": _MIRROR,
    "github_url": _MIRROR,
    "dl_k8s_io_url": _MIRROR,
    "storage_googleapis_url": _MIRROR,
    "get_helm_url": _MIRROR,
    "crio_download_base": _MIRROR,
    "crio_download_crio": _MIRROR,
    "yum_repo": _OS,
    "debian_repo": _OS,
    "ubuntu_repo": _OS,
    "rhel_enable_repos": _OS,
}

_PARTS: Mapping[str, str] = {
    "alb_ingress_": "ingress_alb_enabled",
    "argocd_": "argocd_enabled",
    "cephfs_provisioner_": "cephfs_provisioner_enabled",
    "cert_manager_": "cert_manager_enabled",
    "dashboard_": "dashboard_enabled",
    "ingress_nginx_": "ingress_nginx_enabled",
    "krew_": "krew_enabled",
    "kube_vip_": "kube_vip_enabled",
    "local_path_provisioner_": "local_path_provisioner_enabled",
    "local_volume_provisioner_": "local_volume_provisioner_enabled",
    "metallb_": "metallb_enabled",
    "metrics_server_": "metrics_server_enabled",
    "netchecker_": "deploy_netchecker",
    "node_feature_discovery_": "node_feature_discovery_enabled",
    "rbd_provisioner_": "rbd_provisioner_enabled",
    "registry_": "registry_enabled",
    "scheduler_plugins_": "scheduler_plugins_enabled",
}
"""The settings of addons, by what their names begin with, and what switches each addon on."""

PREFIXES: Mapping[str, Known] = {
    **dict.fromkeys(
        (
            "calico_", "cilium_", "custom_cni_", "flannel_", "kube_etcd_", "kube_ovn_", "kube_router_",
            "typha_", "weave_",
        ),
        _NETWORK,
    ),
    **dict.fromkeys(
        (
            "aws_", "azure_", "cinder_", "external_", "gcp_", "oci_", "openstack_", "upcloud_", "vsphere_",
        ),
        Known(_CLOUD.effect, part_of="external_cloud_provider"),
    ),
    **{begin: Known(_ADDON.effect, part_of=switch) for begin, switch in _PARTS.items()},
    **dict.fromkeys(("kube_reserved_", "system_reserved_", "kube_master_", "system_master_"), _RESERVED),
    **dict.fromkeys(("kube_oidc_", "kube_apiserver_authentication_config_"), _OIDC),
    "nodelocaldns_": Known(_DNS.effect, part_of="enable_nodelocaldns"),
    "audit_": _AUDIT,
    "docker_": _DOCKER,
    "crio_": _CRI,
    "nvidia_": Known("no GPU driver is installed", part_of="nvidia_accelerator_enabled"),
    "rh_subscription_": Known("the host's subscription is left as it is"),
}  # fmt: skip
SUFFIXES: Mapping[str, Known] = {
    "_csi_enabled": _ADDON,
    **dict.fromkeys(("_image_repo", "_image_tag", "_download_url"), _MIRROR),
    **dict.fromkeys(("_repo_base_url", "_repo_gpgkey", "_repo_repokey"), _OS),
}
_OTHERS: Mapping[str, Known] = {"_enabled": _SWITCH, "": _REST}
"""What is said of kubespray's other names, by how they end."""


@cache
def _names() -> frozenset[str]:
    path = Path(__file__).with_name("kubespray_names.txt")
    return frozenset(path.read_text(encoding="ascii").split())


def known(name: str) -> Known | None:
    """Return what leaving a variable of kubespray's out means, None for a name that it does not have."""
    exact = KNOWN.get(name)
    if exact is not None or name not in _names():
        return exact
    found = [entry for end, entry in SUFFIXES.items() if name.endswith(end)]
    found += [entry for begin, entry in PREFIXES.items() if name.startswith(begin)]
    found += [entry for end, entry in _OTHERS.items() if name.endswith(end)]
    return found[0]
