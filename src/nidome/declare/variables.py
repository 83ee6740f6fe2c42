"""Every supported variable, declared once: name, type, default, meaning, field of the model.

Names and defaults are kubespray's; where a default or the supported choices differ, ``difference`` says so,
and ``docs/variables.md`` is generated from this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nidome.declare.kinds import (
    BOOL,
    CIDR,
    IP,
    PATH,
    Kind,
    choice,
    integer,
    list_of,
    map_of,
    templated,
    text,
    text_or_empty,
)
from nidome.declare.yamlmarks import fail
from nidome.provenance import Sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.declare.groups import Entry

__all__ = ["BY_NAME", "KUBE_VERSIONS", "VARIABLES", "Computed", "Variable"]

KUBE_VERSIONS = ("1.36.4",)
"""The Kubernetes releases that the lock has artifacts for, the default first."""


class Computed(NamedTuple):
    """A default that follows from other values: said in words, and as a function of the values known so far.

    ``follows`` names the variable whose origin the value takes over ("" when it follows from the inventory).
    """

    words: str
    value: Callable[[Mapping[str, Any]], Any]
    follows: str = ""


class Variable(NamedTuple):
    """A supported variable. ``file`` is where the writer puts it; ``pinned`` ones are always written out."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    file: str = "group_vars/k8s_cluster/k8s-cluster.yml"
    scope: Literal["cluster", "host"] = "cluster"
    field: str = ""
    difference: str = ""
    pinned: bool = False

    @property
    def model_field(self) -> str:
        """Return the field of ClusterSpec or HostSpec that holds the value."""
        return self.field or self.name

    def read(self, entry: Entry) -> Sourced[Any]:
        """Return the typed value with its origin; DeclarationError where it is wrong."""
        template = templated((entry.node,))
        if template is not None:
            message = f"{self.name}: templating is not supported yet"
            fail("templating-unsupported", message, template.file, template.line, "write the value itself")
        return Sourced(self.kind.read(entry.node, self.name), entry.origin)


_ALL = "group_vars/all/all.yml"
_CONTAINERD = "group_vars/all/containerd.yml"
_ETCD = "group_vars/all/etcd.yml"
_ADDONS = "group_vars/k8s_cluster/addons.yml"

_NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN = text("a DNS domain in lower case", rf"{_NAME}(\.{_NAME})*", "domain")
_DURATION = text("a duration such as 1h0m0s", r"([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+", "duration")
_PORT = integer(1, 65535)
_ARGUMENTS = map_of(r"[a-z][a-z0-9-]*", r"[^\s].*|", "a mapping of flag names (without --) to values")
_HOST_NAME = text("a host name or an address", r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
_WORD = text("a user name", r"[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")
_FILE = text("the path of a file", r"[^\s-].*", "path")
_LINE = text("one line of text", r".*")
_ALT_NAME = text("a host name or an address", r"(\*\.)?[A-Za-z0-9][A-Za-z0-9.:-]*")
_FLAG = text("a flag such as --name=value", r"--[a-z][A-Za-z0-9-]*(=.*)?")
_CHECK = text("the name of a preflight check", r"[a-z][a-z0-9-]*")
_LABEL_PREFIX = rf"({_NAME}(\.{_NAME})*/)?"
_LABEL_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABELS = map_of(_LABEL_PREFIX + _LABEL_WORD, f"({_LABEL_WORD})?", "a mapping of label names to values")
_TAINT = text(
    "a taint such as key=value:NoSchedule",
    rf"{_LABEL_PREFIX}{_LABEL_WORD}(=({_LABEL_WORD})?)?:(NoSchedule|PreferNoSchedule|NoExecute)",
)
_THRESHOLDS = map_of(
    r"[a-z]+\.[A-Za-z]+", r"[0-9]+(\.[0-9]+)?(%|[kMGTPE]i?)?", "a mapping of signals to thresholds"
)
_SPREAD = Computed("2, or 1 on a single host", lambda known: min(2, known["hosts"]))


def _address(known: Mapping[str, Any]) -> str:
    """Return ansible_host where it is an IPv4 address; a host name's address is not asked for."""
    parts = str(known["ansible_host"]).split(".")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= len("255")]
    valid = len(parts) == len(numbers) == len("ipv4") and max(numbers) <= 255  # noqa: PLR2004 - an octet
    return ".".join(map(str, numbers)) if valid else ""


VARIABLES: tuple[Variable, ...] = (
    # Where things are on a host
    Variable("bin_dir", PATH, "/usr/local/bin", "Directory of the installed programs.", _ALL),
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
    Variable("kube_version", choice(*KUBE_VERSIONS), KUBE_VERSIONS[0], "Kubernetes release.", pinned=True),
    Variable(
        "cluster_name",
        _DOMAIN,
        "cluster.local",
        "DNS domain of the cluster's Services and pods.",
        pinned=True,
    ),
    Variable("kube_log_level", integer(0, 10), 2, "Verbosity of the Kubernetes components."),
    Variable("event_ttl_duration", _DURATION, "1h0m0s", "How long the API server keeps Events."),
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
    # API server
    Variable("kube_apiserver_port", _PORT, 6443, "Port of the API server.", pinned=True),
    Variable(
        "kube_api_anonymous_auth",
        BOOL,
        default=False,
        meaning="Whether the API server lets anonymous requests in.",
        difference="kubespray's default is true. Here health checks use a certificate, so nothing needs it.",
    ),
    Variable(
        "supplementary_addresses_in_ssl_keys",
        list_of(_ALT_NAME, "host names and addresses"),
        (),
        "More names and addresses that the API server's certificate is valid for.",
    ),
    Variable("kube_kubeadm_apiserver_extra_args", _ARGUMENTS, {}, "More arguments of kube-apiserver."),
    Variable(
        "kube_kubeadm_controller_extra_args", _ARGUMENTS, {}, "More arguments of kube-controller-manager."
    ),
    Variable("kube_kubeadm_scheduler_extra_args", _ARGUMENTS, {}, "More arguments of kube-scheduler."),
    # kubelet
    Variable("kubelet_max_pods", integer(1, 65535), 110, "Most pods on a node."),
    Variable(
        "kubelet_rotate_certificates",
        BOOL,
        default=True,
        meaning="Whether the kubelet renews its client certificate.",
    ),
    Variable(
        "kubelet_rotate_server_certificates",
        BOOL,
        default=True,
        meaning="Whether the kubelet asks the cluster's CA for its serving certificate and renews it.",
        difference="kubespray's default is false, which leaves the kubelet with a self-signed certificate.",
    ),
    Variable("kubelet_custom_flags", list_of(_FLAG, "flags"), (), "More arguments of the kubelet."),
    Variable(
        "eviction_hard",
        _THRESHOLDS,
        {},
        "Signals at which the kubelet evicts pods; {} is the kubelet's own choice.",
    ),
    # DNS
    Variable("dns_min_replicas", integer(1, 100), _SPREAD, "Replicas of CoreDNS."),
    Variable(
        "upstream_dns_servers",
        list_of(IP, "IPv4 addresses"),
        (),
        "Servers that CoreDNS asks for other names; [] is the host's own resolver.",
        _ALL,
    ),
    # The store
    Variable(
        "etcd_deployment_type",
        choice("host", "kine"),
        "host",
        "What stores the API's objects.",
        _ETCD,
        pinned=True,
        difference="host is etcd as a systemd service, as in kubespray. kine, SQLite behind etcd's API, "
        "exists here only, for one control-plane host. docker and kubeadm are not supported.",
    ),
    Variable("etcd_data_dir", PATH, "/var/lib/etcd", "Directory of etcd's data.", _ETCD),
    Variable(
        "kine_data_dir",
        PATH,
        "/var/lib/kine",
        "Directory of kine's database.",
        _ETCD,
        difference="Not a variable of kubespray.",
    ),
    # containerd
    Variable(
        "containerd_storage_dir",
        PATH,
        "/var/lib/containerd",
        "Directory of images and snapshots.",
        _CONTAINERD,
    ),
    Variable(
        "containerd_state_dir",
        PATH,
        "/run/containerd",
        "Directory of what does not survive a boot.",
        _CONTAINERD,
    ),
    Variable("containerd_oom_score", integer(-999, 1000), 0, "containerd's OOM score.", _CONTAINERD),
    Variable(
        "containerd_default_runtime",
        choice("runc"),
        "runc",
        "Runtime of pods that ask for none.",
        _CONTAINERD,
    ),
    Variable(
        "containerd_snapshotter",
        choice("overlayfs"),
        "overlayfs",
        "How image layers are stacked.",
        _CONTAINERD,
    ),
    Variable(
        "containerd_debug_level",
        choice("trace", "debug", "info", "warn", "error", "fatal", "panic"),
        "info",
        "Verbosity of containerd.",
        _CONTAINERD,
    ),
    Variable(
        "containerd_metrics_address",
        text_or_empty("an address such as 127.0.0.1:1338", r"[A-Za-z0-9.-]+:[0-9]{1,5}"),
        "",
        "Where containerd serves its metrics; '' is nowhere.",
        _CONTAINERD,
    ),
    Variable(
        "containerd_max_container_log_line_size",
        integer(-1, 2**31 - 1),
        16384,
        "Longest line of a container's log in bytes; a longer one is split, -1 never splits.",
        _CONTAINERD,
    ),
    # Addons
    Variable(
        "helm_enabled", BOOL, default=False, meaning="Whether the helm program is installed.", file=_ADDONS
    ),
    # Nidome's own
    Variable(
        "ignore_preflight_errors",
        list_of(_CHECK, "names of preflight checks"),
        (),
        "Preflight checks that may fail.",
        _ALL,
        difference="Not a variable of kubespray.",
    ),
    Variable(
        "nidome_certificate_days",
        integer(1, 36500),
        365,
        "Days that a certificate is valid.",
        _ALL,
        difference="Not a variable of kubespray.",
    ),
    Variable(
        "nidome_ca_days",
        integer(1, 36500),
        3650,
        "Days that a certificate authority is valid.",
        _ALL,
        difference="Not a variable of kubespray.",
    ),
    # A host
    Variable(
        "ansible_host",
        _HOST_NAME,
        Computed("the host's name", lambda known: known["name"]),
        "Name or address that ssh connects to.",
        scope="host",
        field="address",
    ),
    Variable(
        "ansible_connection",
        choice("ssh", "local"),
        "ssh",
        "ssh, or local for the machine nidome runs on.",
        scope="host",
        field="connection",
    ),
    Variable(
        "ansible_user",
        _WORD,
        None,
        "User that ssh logs in as; unset is ssh's own choice.",
        scope="host",
        field="user",
    ),
    Variable(
        "ansible_port",
        _PORT,
        None,
        "Port of the ssh server; unset is ssh's own choice.",
        scope="host",
        field="port",
    ),
    Variable(
        "ansible_ssh_private_key_file",
        _FILE,
        None,
        "Private key for ssh; unset is ssh's own choice.",
        scope="host",
        field="private_key_file",
    ),
    Variable(
        "ansible_ssh_common_args", _LINE, "", "More arguments of ssh.", scope="host", field="ssh_common_args"
    ),
    Variable(
        "ansible_become",
        BOOL,
        default=False,
        meaning="Whether to become root with sudo.",
        scope="host",
        field="become",
    ),
    Variable(
        "ansible_python_interpreter",
        _FILE,
        None,
        "Python on the host; unset looks for python3.",
        scope="host",
        field="python",
    ),
    Variable(
        "ip",
        IP,
        Computed("ansible_host, where it is an address", _address, "ansible_host"),
        "Address that the host's components listen on and advertise.",
        scope="host",
        difference="kubespray's default is the address of the host's default route.",
    ),
    Variable(
        "access_ip",
        IP,
        Computed("ip", lambda known: known["ip"], "ip"),
        "Address that other hosts reach the host at.",
        scope="host",
    ),
    Variable("node_labels", _LABELS, {}, "Labels of the node.", scope="host"),
    Variable("node_taints", list_of(_TAINT, "taints"), (), "Taints of the node.", scope="host"),
)
"""In an order in which every computed default comes after what it follows from."""

BY_NAME: Mapping[str, Variable] = {variable.name: variable for variable in VARIABLES}
