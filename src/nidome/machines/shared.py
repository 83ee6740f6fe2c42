"""What all hosts of this machine share, and what must be as before when the last of them is gone.

Bridges, packet filter tables and kernel settings belong to the machine, not to one state directory, and
vanish at its restart. So the record of them is in /run: the settings' values from before, and for each
state directory that has hosts (its user) the bridge and the range. The lock is that of /run itself.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.machines.places import locked, remove_empty, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["RAISED", "REMEMBERED", "Setting", "Shared", "User", "opened", "restore", "take_over"]

_RUN = Path("/run")
_HOME = _RUN / "nidome"
_RECORD = _HOME / "machines.json"
_SYSCTL = Path("/proc/sys")
_BOOT_ID = _SYSCTL / "kernel/random/boot_id"

# Too low by default for several systemds and kubelets on one kernel.
RAISED: Mapping[str, int] = {
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
}

# Not in any namespace, and written by what runs in hosts: the kubelet, or kernel settings it asks for.
REMEMBERED = (
    "fs/file-max",
    "fs/nr_open",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/pid_max",
    "vm/max_map_count",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "vm/swappiness",
)


@dataclass(frozen=True)
class User:
    """What one state directory uses: its bridge's number and its address range."""

    bridge: int
    network: str


@dataclass(frozen=True)
class Setting:
    """A kernel setting's value from before, and the one we gave it ("" where only hosts may change it)."""

    before: str
    ours: str


@dataclass
class Shared:
    """The record: kernel settings by their path under /proc/sys, and the users by their directory."""

    settings: dict[str, Setting] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)

    def save(self) -> None:
        """Write the record, or remove it when nobody uses anything."""
        if not self.users and not self.settings:
            _RECORD.unlink(missing_ok=True)
            remove_empty(_HOME)
            return
        _HOME.mkdir(mode=0o755, exist_ok=True)
        users = {path: asdict(user) for path, user in self.users.items()}
        settings = {path: asdict(setting) for path, setting in self.settings.items()}
        write_json(_RECORD, {"boot": _boot(), "settings": settings, "users": users})


@contextmanager
def opened() -> Iterator[Shared]:
    """Yield the record, under its lock. Changes count once they are saved."""
    with locked(_RUN):
        yield _load()


def _load() -> Shared:
    try:
        raw: dict[str, Any] = json.loads(_RECORD.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Shared()
    if raw["boot"] != _boot():  # /run is no tmpfs here, and the machine was restarted since
        return Shared()
    return Shared(
        settings={path: Setting(**setting) for path, setting in raw["settings"].items()},
        users={path: User(**user) for path, user in raw["users"].items()},
    )


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="utf-8").strip()


def take_over(shared: Shared, forwarding: list[str]) -> None:
    """Set what hosts need, after noting each value from before.

    ``forwarding`` are the links whose packets may go on to hosts.
    """
    wanted = {path: str(max(value, int(_read(path) or 0))) for path, value in RAISED.items()}
    wanted |= {f"net/ipv4/conf/{link}/forwarding": "1" for link in forwarding}
    for path in (*wanted, *REMEMBERED):
        value = _read(path)
        if value is not None:
            shared.settings.setdefault(path, Setting(before=value, ours=wanted.get(path, "")))
    shared.save()
    for path, value in wanted.items():
        _write(path, value)


def restore(shared: Shared) -> None:
    """Give every setting its value from before, and forget them.

    One that we set and that somebody else has set since is theirs, and stays.
    """
    for path, setting in shared.settings.items():
        if setting.ours in ("", _read(path)):
            _write(path, setting.before)
    shared.settings.clear()


def _read(path: str) -> str | None:
    try:
        return (_SYSCTL / path).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def _write(path: str, value: str) -> None:
    """Write a setting if it differs; a setting whose link is gone is left out."""
    if _read(path) not in (None, value):
        (_SYSCTL / path).write_text(value, encoding="utf-8")
