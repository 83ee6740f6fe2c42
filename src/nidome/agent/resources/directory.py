"""A directory with its mode and owner."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence

from nidome.agent.resources.base import Observed, Resource
from nidome.agent.system import mode_of, owner_of

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["Directory", "apply", "observe", "remove"]


@dataclass(frozen=True)
class Directory(Resource):
    """``path`` is a directory. What components put into an ``owned`` one goes with it at a reset."""

    kind: ClassVar[str] = "Directory"
    path: str
    mode: str = "0755"
    owner: str = "root"
    group: str = "root"
    owned: bool = False

    @property
    def key(self) -> str:
        """The path."""
        return self.path

    def desired(self) -> Dict[str, Any]:
        """Mode, owner and group."""
        return {"mode": self.mode, "owner": [self.owner, self.group]}


def observe(resources: Sequence[Directory], host: Host) -> List[Observed]:
    """Stat each directory."""
    del host
    found: List[Observed] = []
    for resource in resources:
        try:
            status = os.stat(resource.path)
            found.append({"mode": mode_of(status), "owner": owner_of(status)})
        except (FileNotFoundError, NotADirectoryError):
            found.append(None)
    return found


def _missing_parents(path: str) -> List[str]:
    missing = []
    parent = os.path.dirname(path.rstrip("/"))
    while parent and not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    return missing[::-1]


def apply(resource: Directory, host: Host) -> None:
    """Make the directory, and its parents, which are then Nidome's too."""
    for parent in _missing_parents(resource.path):
        host.ledger.add("Directory", parent, data={"implicit": True})
        os.makedirs(parent, mode=0o755, exist_ok=True)
    if not os.path.isdir(resource.path) or host.ledger.has(resource.id):
        host.ledger.add(resource.kind, resource.key, data={"owned": resource.owned})
        os.makedirs(resource.path, exist_ok=True)
    os.chmod(resource.path, int(resource.mode, 8))
    os.chown(resource.path, pwd.getpwnam(resource.owner).pw_uid, grp.getgrnam(resource.group).gr_gid)


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Remove an owned directory with all in it, another one only when it is empty."""
    del host
    if (entry.get("data") or {}).get("owned"):
        shutil.rmtree(entry["key"], ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(entry["key"])
