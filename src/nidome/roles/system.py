"""The host beneath the cluster: packages, kernel, directories, and the restart helper of older systemds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.agent.resources.kernel import KernelModule, Sysctl
from nidome.agent.resources.package import Package
from nidome.roles.base import HostContext, Role, Task
from nidome.roles.paths import Paths
from nidome.roles.units import BACKOFF_PATH, native_backoff

if TYPE_CHECKING:
    from nidome.agent.resources.base import Resource

__all__ = ["BOOTSTRAP", "PREINSTALL"]

# What each is for: nft and iptables for kube-proxy, conntrack and ethtool for kube-proxy and kubelet,
# socat for port-forward, kmod for modprobe, openssl for certificates.
_PACKAGES = ("conntrack", "ethtool", "iptables", "kmod", "nftables", "openssl", "socat")

_MODULES = (
    KernelModule("overlay", "overlay"),
    KernelModule("br_netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables"),
)

_SYSCTLS = (
    # Pods behind the bridge reach Services through the host's netfilter.
    Sysctl("net.bridge.bridge-nf-call-iptables", "1"),
    Sysctl("net.ipv4.ip_forward", "1"),
    # kubelet and containerd watch many files; these limits are shared by all containers of a machine.
    Sysctl("fs.inotify.max_user_instances", "1024", at_least=True),
    Sysctl("fs.inotify.max_user_watches", "65536", at_least=True),
    # What kubelet would set by itself: declared here so that it is known and put back at a reset.
    Sysctl("vm.overcommit_memory", "1"),
    Sysctl("kernel.panic", "10"),
    Sysctl("kernel.panic_on_oops", "1"),
)

# Waits ever longer, up to ten seconds, between starts that follow each other closely: for systemd before 254.
_BACKOFF = """\
#!/bin/sh
# nidome: delays the restarts of a unit that keeps ending. $1 is the unit. Removed by `nidome reset`.
set -u
state="/run/nidome/backoff/$1"
mkdir -p /run/nidome/backoff
read -r now _ < /proc/uptime
now=${now%.*}
last=0 count=0
[ -r "$state" ] && read -r last count < "$state"
if [ $((now - last)) -lt 30 ]; then count=$((count + 1)); else count=0; fi
echo "$now $count" > "$state"
case $count in
  0|1|2) ;;
  3) sleep 0.5 ;;
  4) sleep 1 ;;
  5) sleep 2 ;;
  6) sleep 5 ;;
  *) sleep 10 ;;
esac
"""


def _packages(context: HostContext) -> list[Task]:
    del context
    packages = tuple(Package((name,)) for name in _PACKAGES)
    return [Task("bootstrap_os", "Install packages", packages, ("bootstrap_os",))]


def _preinstall(context: HostContext) -> list[Task]:
    role, paths, tags = "kubernetes/preinstall", Paths(context.spec), ("preinstall",)
    directories = (
        Directory(paths.bin),
        Directory(paths.config),
        Directory(paths.certs, "0750"),
        Directory("/usr/local/lib/nidome"),
    )
    tasks = [
        Task(
            role,
            "Create Kubernetes directories",
            directories,
            tags,
            ("bin_dir", "kube_config_dir", "kube_cert_dir"),
        ),
        Task(role, "Load kernel modules", _MODULES, tags),
        Task(role, "Set kernel parameters", _SYSCTLS, tags),
        Task(role, "Keep kernel parameters over a reboot", _kept(), tags),
    ]
    if not native_backoff(context.facts):
        tasks.append(Task(role, "Install restart back-off", (File(BACKOFF_PATH, _BACKOFF, "0755"),), tags))
    return tasks


def _kept() -> tuple[Resource, ...]:
    modules = "".join(f"{m.name}\n" for m in _MODULES)
    # A shared limit may be higher already: only what is ours alone is set at boot.
    settings = "".join(f"{s.name} = {s.value}\n" for s in _SYSCTLS if not s.at_least)
    return (File("/etc/modules-load.d/nidome.conf", modules), File("/etc/sysctl.d/99-nidome.conf", settings))


BOOTSTRAP = Role("bootstrap_os", _packages)
PREINSTALL = Role("kubernetes/preinstall", _preinstall)
