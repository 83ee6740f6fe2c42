"""A directory with its mode and owner."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence

from nidome.agent.resources.base import Observed, Resource, failed
from nidome.agent.system import identity, mode_of, owner_of
from nidome.errors import ResourceError

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
            if not stat.S_ISDIR(status.st_mode):
                found.append(failed(_in_the_way(resource.path).to_json()))
                continue
            found.append({"mode": mode_of(status), "owner": owner_of(status)})
        except (FileNotFoundError, NotADirectoryError):
            found.append(None)
    return found


def _in_the_way(path: str) -> ResourceError:
    return ResourceError(
        "not-a-directory",
        f"{path} is not a directory",
        where=f"Directory:{path}",
        hint="move it away on the host, or declare another directory",
    )


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
    uid, gid = identity(resource.owner, resource.group)
    _enter(resource, host)
    os.makedirs(resource.path, mode=0o700, exist_ok=True)
    os.chown(resource.path, uid, gid)
    os.chmod(resource.path, int(resource.mode, 8))


def _enter(resource: Directory, host: Host) -> None:
    """Put the directory into the ledger; of one that was there before, its mode and owner."""
    known = host.ledger.entries.get(resource.id)
    if known is not None and known["prior"]:
        return
    if known is None and os.path.isdir(resource.path):
        status = os.stat(resource.path)
        prior = {"mode": mode_of(status), "owner": owner_of(status)}
        host.ledger.add(resource.kind, resource.key, prior=prior, data={"owned": False})
        return
    host.ledger.add(resource.kind, resource.key, data={"owned": resource.owned})


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Remove an owned directory with all in it, another one only when it is empty.

    One that stood there before Nidome gets back its mode and owner.
    """
    del host
    prior = entry.get("prior")
    if prior:
        with contextlib.suppress(FileNotFoundError):
            os.chown(entry["key"], *identity(*prior["owner"]))
            os.chmod(entry["key"], int(prior["mode"], 8))
        return
    if (entry.get("data") or {}).get("owned"):
        shutil.rmtree(entry["key"], ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(entry["key"])
