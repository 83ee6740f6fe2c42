"""What a disposable host is, and the names and releases it may have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from nidome.errors import MachineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "BLOBS_IN_GUEST",
    "DEFAULT_OS",
    "RELEASES",
    "Machine",
    "no_such_machine",
    "valid_name",
    "valid_os",
]

# Where the artifact cache of the machine is seen, read-only, inside a host that was given one.
# nspawn owns /run/host and systemd leaves it alone, so the mount survives every boot.
BLOBS_IN_GUEST = "/run/host/nidome/blobs"

DEFAULT_OS = "debian:12"

# The value of --os, and the release's codename in the package archive.
RELEASES: Mapping[str, str] = MappingProxyType(
    {"debian:11": "bullseye", "debian:12": "bookworm", "debian:13": "trixie"}
)

# RFC 1123 label: it becomes a host name, and the name of a Kubernetes node.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Machine:
    """A disposable host as seen from outside: how to reach it, and whether it is powered on.

    ``created`` is a UTC time in ISO 8601; ``key`` and ``known_hosts`` are files on this machine.
    """

    name: str
    os: str
    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    running: bool
    created: str


def valid_name(name: str) -> str:
    """Return ``name`` if a host may have it; raise UsageError ``machine-name-invalid`` if not."""
    if _NAME.fullmatch(name):
        return name
    raise UsageError(
        "machine-name-invalid",
        f"{name!r} can't be a host's name",
        where=name,
        hint="use lower-case letters, digits and inner hyphens, at most 63 characters: node1",
    )


def valid_os(os: str) -> str:
    """Return ``os`` if hosts of that release can be made; raise UsageError ``machine-os-unknown`` if not."""
    if os in RELEASES:
        return os
    raise UsageError(
        "machine-os-unknown",
        f"no host can be made with {os!r}",
        where="--os",
        hint=f"choose one of {', '.join(RELEASES)}",
    )


def no_such_machine(name: str, known: list[str]) -> MachineError:
    """Return the error for a name that no host has."""
    have = f"hosts that exist: {', '.join(known)}" if known else f"make it: nidome machines create {name}"
    return MachineError("machine-not-found", f"there is no host {name!r}", where=name, hint=have)
