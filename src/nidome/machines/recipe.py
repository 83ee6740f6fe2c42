"""What a host's root file system consists of, as data; its digest names the cached copy."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from nidome.machines.model import RELEASES

__all__ = ["FILES", "MASKED", "PACKAGES", "REMOVED", "Recipe", "build_command"]

PACKAGES = (
    "ca-certificates",
    "conntrack",
    "curl",
    "dbus",
    "ethtool",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "nftables",
    "openssh-server",
    "openssl",
    "procps",
    "python3",
    "socat",
    "systemd",
    "systemd-sysv",
    "util-linux",
)

# Useless in a namespace, or harmful to the machine around it; each costs boot time.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "modprobe@.service",
    "ssh.socket",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-network-generator.service",
    "systemd-networkd-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)

# Made anew for each host.
REMOVED = (
    "etc/ssh/ssh_host_ecdsa_key",
    "etc/ssh/ssh_host_ecdsa_key.pub",
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_ed25519_key.pub",
    "etc/ssh/ssh_host_rsa_key",
    "etc/ssh/ssh_host_rsa_key.pub",
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "var/lib/dbus/machine-id",
)

# PID 1 starts as this script: systemd looks once, at its start, which cgroup controllers it may write.
# nspawn mounts those of cgroup v1 read-only; a plain remount is "busy", a bind remount is not.
# The address is set here as well: it costs one process, and is there before any service is.
_INIT = """\
#!/bin/sh
for controller in /sys/fs/cgroup/*/; do
    mount -o remount,bind,rw "$controller" 2>/dev/null
done
ip -batch /etc/nidome/network
exec /lib/systemd/systemd
"""

_SSHD = """\
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
PrintMotd no
PrintLastLog no
HostKey /etc/ssh/ssh_host_ed25519_key
MaxStartups 100:30:200
MaxSessions 100
"""

# A service that ignores SIGTERM holds up a power-off for this long, not for systemd's 90 s.
_SYSTEM_CONF = "[Manager]\nDefaultTimeoutStopSec=15s\n"

# path -> (text, mode)
FILES: dict[str, tuple[str, int]] = {
    "usr/lib/nidome/init": (_INIT, 0o755),
    "etc/ssh/sshd_config.d/nidome.conf": (_SSHD, 0o644),
    "etc/systemd/system.conf.d/nidome.conf": (_SYSTEM_CONF, 0o644),
    "etc/motd": ("", 0o644),
    "etc/default/locale": ("LANG=C.UTF-8\n", 0o644),
}

# The caches of a package installation are of no use, and what is never read need not be written.
_DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in a root file system.

    ``sources`` are lines of sources.list (empty: mmdebstrap's own choice), ``apt_options`` settings of the
    package client.
    """

    os: str
    sources: tuple[str, ...] = ()
    apt_options: tuple[str, ...] = ()
    packages: tuple[str, ...] = PACKAGES
    masked: tuple[str, ...] = MASKED
    removed: tuple[str, ...] = REMOVED

    @property
    def codename(self) -> str:
        """Return the release's name in the package archive."""
        return RELEASES[self.os]

    @property
    def directory(self) -> str:
        """Return the name of the cached copy: the release and a digest of everything that matters."""
        content = json.dumps([asdict(self), FILES, _DPKG_OPTIONS], sort_keys=True)
        return f"{self.os.replace(':', '-')}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def build_command(recipe: Recipe, target: str) -> list[str]:
    """Return the command that makes ``recipe`` in ``target``; it reads the source lines from its input.

    The build has its own PID namespace and dies with the process that started it, so that nothing goes on
    writing after a crash.
    """
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
        f"--include={','.join(recipe.packages)}",
        *(f"--aptopt={option}" for option in recipe.apt_options),
        *(f"--dpkgopt={option}" for option in _DPKG_OPTIONS),
        recipe.codename,
        target,
        *(["-"] if recipe.sources else []),
    ]
