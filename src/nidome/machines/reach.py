"""Reaching a host: when it answers, and the ssh command line that gets into it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from nidome.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Event

    from nidome.machines.model import Machine

__all__ = ["PORT", "ssh_arguments", "wait"]

PORT = 22
_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.02
_BANNER = b"SSH-"


def ssh_arguments(machine: Machine) -> list[str]:
    """Return the ssh command for a host; a command to run there may follow.

    It depends on no file of the user's, and accepts the host's own key only.
    """
    options = {
        "UserKnownHostsFile": str(machine.known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": "10",
        "LogLevel": "ERROR",
    }
    return [
        *("ssh", "-F", "none", "-i", str(machine.key), "-p", str(machine.port)),
        *(part for name, value in options.items() for part in ("-o", f"{name}={value}")),
        f"{machine.user}@{machine.address}",
    ]


def wait(address: str, log: Path, *, running: Callable[[], bool], cancelled: Event) -> None:
    """Return when sshd at ``address`` greets.

    Raises MachineError ``machine-boot-failed`` with the console's last lines when the host ends before
    that, or does not get there in a minute; ``machine-cancelled`` as soon as ``cancelled`` is set.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    started = False
    while not _greets(address):
        alive = running()
        started = started or alive
        if time.monotonic() > deadline or (started and not alive):
            raise _boot_failed(address, log)
        if cancelled.wait(_POLL_SECONDS):
            raise MachineError(
                "machine-cancelled", "the host is not wanted any more", where=address, hint="run this again"
            )


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, PORT), timeout=1.0) as connection:
            return connection.makefile("rb").readline().startswith(_BANNER)
    except OSError:
        return False


def _boot_failed(address: str, log: Path) -> MachineError:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    said = "; ".join(line.strip() for line in lines[-3:] if line.strip()) or "it said nothing"
    return MachineError(
        "machine-boot-failed",
        f"the host did not get as far as answering over ssh: {said}",
        where=address,
        hint="nidome machines check",
    )
