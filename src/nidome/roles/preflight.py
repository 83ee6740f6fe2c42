"""Named checks of a host before anything is changed: what would fail later, or harm what is there already.

Pure: each check reads the declaration and the host's facts and says what is wrong. A check can be ignored by
its name (``ignore_preflight_errors``), never all at once without naming them.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from nidome.errors import PreflightError, UsageError
from nidome.roles.store import CLIENT_PORT
from nidome.roles.upgrade import require_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = [
    "CHECKS",
    "IMMUTABLE",
    "Check",
    "check_host",
    "directories",
    "require_fit",
    "require_known",
    "tolerated",
]

_MEMORY_MIB = 1024
_FREE_MIB = 2048
_NFT = (1, 0, 1)
_SYSTEMD = 245
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_FAMILIES = ("debian", "ubuntu")
_OWN = frozenset({"Unit:kubelet.service", "Unit:containerd.service", "Unit:kube-apiserver.service"})
_PORTS = {
    "Unit:kube-controller-manager.service": 10257,
    "Unit:kube-scheduler.service": 10259,
    "Unit:kubelet.service": 10250,
    "Unit:kube-proxy.service": 10256,
}

IMMUTABLE: Mapping[str, str] = {
    "kube_service_addresses": "Services keep their addresses; reset the cluster to change it",
    "kube_pods_subnet": "nodes keep their pod networks; reset the cluster to change it",
    "kube_network_node_prefix": "nodes keep their pod networks; reset the cluster to change it",
    "cluster_name": "names and certificates of running pods contain it; reset the cluster to change it",
    "etcd_deployment_type": "the data would stay behind in the old store; reset the cluster to change it",
    "etcd_data_dir": "the data would stay behind; reset the cluster to change it",
    "kine_data_dir": "the data would stay behind; reset the cluster to change it",
    "containerd_storage_dir": "running containers would lose their images; reset the cluster to change it",
    "containerd_state_dir": "running containers are reached through it; reset the cluster to change it",
    "kube_config_dir": "running components read it; reset the cluster to change it",
    "kube_cert_dir": "certificates would be made anew; reset the cluster to change it",
    "bin_dir": "running components were started from it; reset the cluster to change it",
}
"""Settings that cannot be changed on a cluster that exists, each with why and what to do."""


@dataclass(frozen=True)
class Check:
    """A named check; ``find`` gives what is wrong and what to do about it, nothing where all is well."""

    name: str
    meaning: str
    find: Callable[[ClusterSpec, HostSpec, Mapping[str, Any]], Iterator[tuple[str, str]]]


def directories(spec: ClusterSpec) -> list[str]:
    """Return the directories that must be writable and have room."""
    data = spec.etcd_data_dir.value if spec.uses_etcd else spec.kine_data_dir.value
    return [
        spec.bin_dir.value,
        spec.kube_config_dir.value,
        spec.containerd_storage_dir.value,
        data,
        "/var/lib/kubelet",
        "/etc/systemd/system",
        "/var/lib/nidome",
    ]


def _systemd(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["systemd"] < _SYSTEMD:
        found = f"systemd {facts['systemd']}" if facts["systemd"] else "no systemd as PID 1"
        yield (
            f"the host has {found}, not {_SYSTEMD} or newer",
            "use a host with systemd; `nidome up` makes one",
        )


def _distribution(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not {facts["os"], *facts["os_like"]} & set(_FAMILIES):
        yield (
            f"the host runs '{facts['os']} {facts['os_version']}', not Debian or one of its family",
            "use Debian 11 to 13 or Ubuntu 22.04 or newer",
        )


def _architecture(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["architecture"] not in ("amd64", "arm64"):
        yield f"no artifacts for {facts['architecture']}", "use an amd64 or arm64 host"


def _memory(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["memory_mib"] < _MEMORY_MIB:
        yield (
            f"the host has {facts['memory_mib']} MiB of memory, less than {_MEMORY_MIB}",
            "give it more memory",
        )


def _disk(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if _installed(facts):
        return
    for path, free in facts["free_mib"].items():
        if free < _FREE_MIB:
            yield (
                f"{path} has {free} MiB free, less than {_FREE_MIB}",
                "free some space, or move the directory in the inventory",
            )
            return


def _writable(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path, writable in facts["writable"].items():
        if not writable:
            yield (
                f"{path} is on a read-only file system",
                "remount it for writing, or move the directory in the inventory",
            )


def _snapshots(spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    path = spec.containerd_storage_dir.value
    if facts["filesystems"].get(path) == "overlay":
        yield (
            f"{path} is on an overlay file system, on which containers' overlays cannot be mounted",
            "set containerd_storage_dir to a directory on an ordinary file system",
        )


def _nft(spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Check what kube-proxy's nftables mode needs: nft 1.0.1 (Debian 11 has 0.9.8)."""
    version = facts["nft"] or ("0.9.8" if (facts["os"], facts["os_version"]) == ("debian", "11") else "")
    old = version and tuple(int(n) for n in version.split(".")) < _NFT
    if spec.kube_proxy_mode.value == "nftables" and old:
        yield (
            f"kube-proxy's nftables mode needs nft 1.0.1, the host has {version}",
            "set kube_proxy_mode: iptables in the inventory",
        )


def _controllers(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    missing = [c for c in _CONTROLLERS if c not in facts["cgroup_controllers"]]
    if missing:
        yield (
            f"the kernel has no cgroup controller {', '.join(missing)}",
            "enable it on the kernel's command line (cgroup_enable=…)",
        )


def _installed(facts: Mapping[str, Any]) -> bool:
    return bool(_OWN & set(facts["ledger"]))


def _foreign(_spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Refuse to fight over sockets, units and directories that somebody else made."""
    if _installed(facts):
        return
    advice = "remove it first, or use another host; Nidome takes over nothing that it did not make"
    for unit in facts["units"]:
        yield f"the service {unit} is installed already", advice
    for socket in facts["sockets"]:
        yield f"something serves {socket} already", advice
    mine = {entry.partition(":")[2] for entry in facts["ledger"]}
    for path in facts["directories"]:
        if path not in mine:
            yield f"{path} has content that Nidome did not make", advice


def _ports(spec: ClusterSpec, host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    wanted = dict(_PORTS)
    if host.is_control_plane:
        wanted["Unit:kube-apiserver.service"] = spec.kube_apiserver_port.value
        wanted["Unit:etcd.service" if spec.uses_etcd else "Unit:kine.service"] = CLIENT_PORT
    for unit, port in wanted.items():
        if port in facts["listening"] and unit not in facts["ledger"]:
            name = unit.partition(":")[2]
            yield (
                f"port {port}, which {name} needs, is in use",
                f"see `ss -ltnp sport = :{port}` on the host, and end what listens there",
            )


def _networks(spec: ClusterSpec, _host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("kube_service_addresses", "kube_pods_subnet"):
        setting = getattr(spec, name)
        for route in facts["routes"]:
            network, _, device = route.partition(" ")
            if device != "cni0" and IPv4Network(setting.value).overlaps(IPv4Network(network)):
                place = f"the host's route {network} on {device}"
                yield (
                    f"{name} {setting.value} ({setting.origin}) overlaps {place}",
                    "choose another network in the inventory",
                )


def _address(_spec: ClusterSpec, host: HostSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if host.ip.value not in facts["addresses"]:
        yield (
            f"the host does not have its address ip {host.ip.value} ({host.ip.origin}); {_has(facts)}",
            f"set ip of {host.name} to one of them in the inventory",
        )


def _access_address(
    _spec: ClusterSpec, host: HostSpec, facts: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    value = host.access_ip.value
    if value not in facts["addresses"] and value != host.ip.value:
        yield (
            f"the host does not have its address access_ip {value} ({host.access_ip.origin}); {_has(facts)}",
            f"set access_ip of {host.name} to one of them, unless something on the way translates it",
        )


def _has(facts: Mapping[str, Any]) -> str:
    own = [address for address in facts["addresses"] if not address.startswith("127.")]
    return f"it has {', '.join(own) or 'none'}"


CHECKS: tuple[Check, ...] = (
    Check("systemd", "systemd is PID 1 and new enough", _systemd),
    Check("distribution", "the distribution is one whose packages are known", _distribution),
    Check("architecture", "there are artifacts for the processor", _architecture),
    Check("memory", "there is enough memory", _memory),
    Check("disk-space", "there is room where data goes", _disk),
    Check("writable", "the directories can be written to", _writable),
    Check("cgroup-controllers", "the kernel has the cgroup controllers", _controllers),
    Check("snapshots", "containers' file systems can be mounted where containerd keeps them", _snapshots),
    Check("nft", "nft is new enough for kube-proxy's mode", _nft),
    Check("foreign-runtime", "no other container runtime or Kubernetes is there", _foreign),
    Check("ports", "the ports are free, or our own components have them", _ports),
    Check("address", "the host has the address that its components listen on", _address),
    Check("access-address", "the host has the address that others reach it at", _access_address),
    Check("networks", "pod and service networks do not overlap the host's routes", _networks),
)


def tolerated(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the checks that may fail by what is declared."""
    distribution = ("distribution",) if spec.allow_unsupported_distribution_setup.value else ()
    return (*spec.ignore_preflight_errors.value, *distribution)


def require_known(ignored: Iterable[str]) -> None:
    """Raise UsageError for a check to be ignored that does not exist."""
    names = [check.name for check in CHECKS]
    for name in ignored:
        if name not in names:
            raise UsageError(
                "check-unknown",
                f"no preflight check '{name}'",
                where="--ignore-preflight-errors, ignore_preflight_errors",
                hint="checks: " + ", ".join(names),
            )


def check_host(
    spec: ClusterSpec, host: HostSpec, facts: Mapping[str, Any], ignored: tuple[str, ...] = ()
) -> list[PreflightError]:
    """Return everything that is wrong with a host."""
    return [
        PreflightError(
            f"preflight-{check.name}",
            message,
            where=host.name,
            hint=f"{advice} (to go on all the same: --ignore-preflight-errors {check.name})",
        )
        for check in CHECKS
        if check.name not in ignored
        for message, advice in check.find(spec, host, facts)
    ]


def require_fit(
    spec: ClusterSpec, host: HostSpec, facts: Mapping[str, Any], ignored: tuple[str, ...] = ()
) -> None:
    """Raise the first finding, with the others in its text, and refuse to change what cannot be changed."""
    declared = facts.get("declared") or {}
    require_step(spec, host, declared)
    for name, advice in IMMUTABLE.items():
        setting = getattr(spec, name)
        if name in declared and declared[name] != setting.value:
            raise PreflightError(
                "immutable-setting",
                f"{name} is {declared[name]} on this cluster and cannot become {setting.value}",
                where=f"{host.name}, {setting.origin}",
                hint=advice,
            )
    found = check_host(spec, host, facts, ignored)
    if found:
        first, *others = found
        message = "\n".join([first.message, *(f"  also: [{e.code}] {e.message}" for e in others)])
        names = ",".join(dict.fromkeys(e.code.removeprefix("preflight-") for e in found))
        hint = f"{first.hint.rpartition(' ')[0]} {names})"
        raise PreflightError(first.code, message, where=first.where, hint=hint)
