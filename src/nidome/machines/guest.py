"""What makes one host differ from another: its disk, its names, its keys, its address."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.machines.commands import run
from nidome.machines.places import make_readable_directories, write_atomic

if TYPE_CHECKING:
    from nidome.machines.network import Network
    from nidome.machines.supervisor import Boot

__all__ = ["ensure_key", "key_path", "known_hosts", "network_batch", "prepare", "resolver"]

_KEYS = "_ssh"  # no host has an underscore in its name
_STUB = "nameserver 127.0.0.53"
_RESOLVED = Path("/run/systemd/resolve/resolv.conf")


def key_path(root: Path) -> Path:
    """Return the private key that opens all hosts of a state directory."""
    return root / _KEYS / "id_ed25519"


def known_hosts(directory: Path) -> Path:
    """Return the file that holds a host's public key."""
    return directory / "known_hosts"


def ensure_key(root: Path) -> None:
    """Make the key pair for the hosts of ``root``, unless it is there. The caller holds the lock."""
    key = key_path(root)
    if not key.with_suffix(".pub").exists():
        key.parent.mkdir(mode=0o700, exist_ok=True)
        key.unlink(missing_ok=True)
        _make_key(key, "nidome")


def _make_key(path: Path, comment: str) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def prepare(boot: Boot, address: str, network: Network, key: Path) -> None:
    """Make the host's disk and everything on it that is its own."""
    for name in ("upper", "work", "root"):
        make_readable_directories(boot.directory / name)
    run(["cp", "--archive", "--reflink=auto", f"{boot.lower}/var", str(boot.var)])
    for path, text, mode in _files(boot.name, address, network, key):
        file = boot.upper / path
        make_readable_directories(file.parent)
        write_atomic(file, text, mode)
    for private in ("root", "root/.ssh"):
        (boot.upper / private).chmod(0o700)
    _make_host_key(boot, address)


def _files(name: str, address: str, network: Network, key: Path) -> list[tuple[str, str, int]]:
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    return [
        ("etc/hostname", f"{name}\n", 0o644),
        ("etc/hosts", f"127.0.0.1 localhost\n::1 localhost ip6-localhost\n{address} {name}\n", 0o644),
        ("etc/machine-id", f"{secrets.token_hex(16)}\n", 0o444),
        ("etc/resolv.conf", resolver(), 0o644),
        ("etc/nidome/network", network_batch(address, network), 0o644),
        ("root/.ssh/authorized_keys", public, 0o600),
    ]


def network_batch(address: str, network: Network) -> str:
    """Return what ``ip -batch`` does when the host boots."""
    return (
        f"link set host0 mtu {network.mtu} up\n"
        f"address replace {address}/{network.network.prefixlen} dev host0\n"
        f"route replace default via {network.gateway}\n"
    )


def resolver() -> str:
    """Return this machine's resolv.conf; behind a local stub, the one with the real servers."""
    try:
        text = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    return _RESOLVED.read_text(encoding="utf-8") if _STUB in text and _RESOLVED.exists() else text


def _make_host_key(boot: Boot, address: str) -> None:
    """Make the host's ssh key before it boots, so that the very first connection can be checked."""
    key = boot.upper / "etc/ssh/ssh_host_ed25519_key"
    make_readable_directories(key.parent)
    _make_key(key, f"root@{boot.name}")
    kind, public, *_ = key.with_suffix(".pub").read_text(encoding="utf-8").split()
    write_atomic(known_hosts(boot.directory), f"{address} {kind} {public}\n")
