"""What a cluster needs of a host, tried inside one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Nidome

pytestmark = pytest.mark.hosts


def test_scope(nidome_session: Nidome, host: str) -> None:
    """A transient scope with a memory limit can be made."""
    nidome_session.ssh(host, "systemd-run -q --scope -p MemoryMax=100M true")


def test_memory_limit_is_real(nidome_session: Nidome, host: str) -> None:
    """A unit that takes more memory than its limit is killed by the kernel."""
    said = nidome_session.ssh(
        host,
        "systemd-run -q --wait --pipe -p MemoryMax=64M -p MemorySwapMax=0 "
        "python3 -c 'b = bytearray(300 << 20); print(len(b))'; echo $?",
        check=False,
    )
    assert said != "0"
    assert str(300 << 20) not in said


DELEGATED = r"""
for line in $(cat /proc/self/cgroup); do
    path=${line##*:}; controller=${line#*:}; controller=${controller%%:*}; controller=${controller#name=}
    [ "$path" != / ] || continue
    below=/sys/fs/cgroup/${controller:-unified}$path/below
    mkdir "$below" && rmdir "$below" && echo made
done
"""


def test_delegation(nidome_session: Nidome, host: str) -> None:
    """A unit with Delegate=yes may make cgroups below its own in every hierarchy it is in."""
    nidome_session.ssh(host, f"cat >/root/delegated <<'END'\n{DELEGATED}\nEND")
    said = nidome_session.ssh(
        host, "systemd-run -q --wait --pipe -p Delegate=yes -p MemoryAccounting=yes sh -e /root/delegated"
    )
    assert set(said.split()) == {"made"}


def test_cgroups_are_writable(nidome_session: Nidome, host: str) -> None:
    """Every cgroup hierarchy in a host can be written at its root, as runc and the kubelet do."""
    said = nidome_session.ssh(
        host,
        "for d in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts);"
        " do mkdir $d/kubepods && rmdir $d/kubepods || echo $d; done",
    )
    assert said == ""


@pytest.mark.parametrize(
    "place", ["/var/lib/containerd", "/var/lib/k0s/containerd", "/var/lib/kubelet", "/run/x"]
)
def test_overlay(nidome_session: Nidome, host: str, place: str) -> None:
    """A container's overlay can be mounted wherever container runtimes keep theirs."""
    nidome_session.ssh(
        host,
        f"set -e; mkdir -p {place}/t; cd {place}/t; mkdir l u w m; echo low >l/f;"
        "mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m; echo high >m/f;"
        f"grep -q low l/f; grep -q high u/f; umount m; cd /; rm -r {place}",
    )


def test_networks(nidome_session: Nidome, host: str) -> None:
    """Bridges, network namespaces, VXLAN, packet filters and address translation can be made."""
    nidome_session.ssh(
        host,
        "set -e; ip link add cni9 type bridge; ip netns add pod9;"
        "ip link add v9 type veth peer name eth0 netns pod9;"
        "ip link set v9 master cni9; ip link add vx9 type vxlan id 9 dstport 4789 dev host0;"
        "nft add table ip t9; nft add chain ip t9 c '{ type nat hook postrouting priority 100; }';"
        "nft add rule ip t9 c counter masquerade; iptables -t nat -N T9; iptables -t nat -X T9;"
        "nft delete table ip t9; ip link delete vx9; ip link delete cni9; ip netns delete pod9",
    )


def test_kernel_settings_are_the_hosts_own(nidome_session: Nidome, host: str) -> None:
    """Network settings can be written in a host, and are not this machine's."""
    path = Path("/proc/sys/net/ipv4/conf/all/forwarding")
    before = path.read_text(encoding="utf-8")
    for value in ("1", "0", "1"):
        said = nidome_session.ssh(host, f"echo {value} >{path}; cat {path}")
        assert said == value
        assert path.read_text(encoding="utf-8") == before


def test_boot_keeps_the_machines_settings(nidome_session: Nidome, host: str) -> None:
    """A host's boot leaves the kernel settings alone that the whole machine shares."""
    said = nidome_session.ssh(
        host, "systemd-analyze cat-config sysctl.d | grep -v -e '^#' -e '^$'", check=False
    )
    assert said == ""


def test_the_clock_is_the_machines(nidome_session: Nidome, host: str) -> None:
    """A host cannot set the clock, which is this machine's own too."""
    # To what it is: nothing is spoilt where the host can after all.
    assert "date: cannot set date" in nidome_session.ssh(host, 'date -s "@$(date +%s)" 2>&1', check=False)


def test_kmsg(nidome_session: Nidome, host: str) -> None:
    """The kubelet can open the kernel's log."""
    nidome_session.ssh(host, "exec 3</dev/kmsg")


def test_programs(nidome_session: Nidome, host: str) -> None:
    """The programs that a Kubernetes node calls are there."""
    nidome_session.ssh(
        host,
        "set -e; for p in python3 openssl nft iptables ip6tables conntrack socat ethtool modprobe curl ip"
        " mount ping; do command -v $p; done; test -s /etc/ssl/certs/ca-certificates.crt",
    )


def test_python_is_compiled(nidome_session: Nidome, host: str) -> None:
    """The standard library in a host has its byte code, so that an agent starts quickly."""
    said = nidome_session.ssh(
        host, "python3 -c 'import json, http.client; print(json.__cached__, http.client.__cached__)'"
    )
    nidome_session.ssh(host, f"ls {said}")
