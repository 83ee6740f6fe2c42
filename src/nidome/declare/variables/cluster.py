"""Where things are on a host, the cluster itself, and its networks."""

from __future__ import annotations

from nidome.declare.kinds import BOOL, CIDR, PATH, choice, integer, text
from nidome.declare.shapes import url, version
from nidome.declare.variables.table import ALL, DURATION, NAME, Computed, Variable

__all__ = ["KUBE_VERSIONS", "TABLE"]

KUBE_VERSIONS = ("1.36.4", "1.35.8")
"""The Kubernetes releases that the lock has artifacts for, the default first."""

_DOMAIN = text("a DNS domain in lower case", rf"{NAME}(\.{NAME})*", "domain")
_NO_PROXY = text("a comma-separated list of names and networks", r"[^\s\"'\\]*")
_PROXY = url("http", "https")

TABLE = (
    # Where things are on a host
    Variable("bin_dir", PATH, "/usr/local/bin", "Directory of the installed programs.", ALL),
    Variable("kube_config_dir", PATH, "/etc/kubernetes", "Directory of Kubernetes' configuration."),
    Variable(
        "kube_cert_dir",
        PATH,
        Computed(
            "kube_config_dir + /ssl", lambda known: f"{known['kube_config_dir']}/ssl", "kube_config_dir"
        ),
        "Directory of the certificates and keys.",
    ),
    # The cluster
    Variable(
        "kube_version",
        version(*KUBE_VERSIONS),
        KUBE_VERSIONS[0],
        "Kubernetes release, with or without a leading v. A newer one upgrades a living cluster in place.",
        pinned=True,
    ),
    Variable(
        "container_manager",
        choice("containerd"),
        "containerd",
        "Container runtime.",
    ),
    Variable(
        "cert_management",
        choice("script"),
        "script",
        "Who makes the certificates: script is Nidome, with authorities of the cluster's own.",
        ALL,
    ),
    Variable(
        "cluster_name",
        _DOMAIN,
        "cluster.local",
        "DNS domain of the cluster's Services and pods.",
        pinned=True,
    ),
    Variable("kube_log_level", integer(0, 10), 2, "Verbosity of the Kubernetes components."),
    Variable("event_ttl_duration", DURATION, "1h0m0s", "How long the API server keeps Events."),
    Variable(
        "k8s_image_pull_policy",
        choice("IfNotPresent", "Always", "Never"),
        "IfNotPresent",
        "When the images of the cluster's own pods are pulled.",
    ),
    Variable(
        "allow_unsupported_distribution_setup",
        BOOL,
        default=False,
        meaning="Whether the preflight check of the distribution may fail.",
        file=ALL,
    ),
    # Proxies
    Variable(
        "http_proxy",
        _PROXY,
        "",
        "Proxy through which containerd pulls images by HTTP; '' is none.",
        ALL,
        difference="Only containerd on the hosts is told of it. Packages and artifacts go through the "
        "proxies that apt and the environment of nidome have.",
    ),
    Variable("https_proxy", _PROXY, "", "Proxy through which containerd pulls images by HTTPS.", ALL),
    Variable(
        "no_proxy",
        _NO_PROXY,
        None,
        "What is reached without the proxy; unset is the hosts, the cluster's networks and its domain.",
        ALL,
    ),
    Variable("additional_no_proxy", _NO_PROXY, "", "What is added to no_proxy.", ALL),
    # Networks
    Variable(
        "kube_service_addresses",
        CIDR,
        "10.233.0.0/18",
        "Network that Services get their addresses from.",
        pinned=True,
    ),
    Variable(
        "kube_pods_subnet", CIDR, "10.233.64.0/18", "Network that pods get their addresses from.", pinned=True
    ),
    Variable(
        "kube_network_node_prefix",
        integer(8, 30),
        24,
        "Prefix length of the part of kube_pods_subnet that each node has.",
        pinned=True,
    ),
    Variable(
        "kube_network_plugin",
        choice("bridge"),
        "bridge",
        "How pods reach each other.",
        pinned=True,
        difference="kubespray's default is calico. bridge is the CNI project's plugin for pods of a host.",
    ),
    Variable(
        "kube_proxy_mode",
        choice("nftables", "iptables"),
        "nftables",
        "How kube-proxy serves Service addresses.",
        pinned=True,
        difference="kubespray's default is ipvs, which Kubernetes has deprecated in favour of nftables.",
    ),
)
