"""An executable (or another large file) known by its sha256."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar, Dict, List, Optional, Sequence

from nidome.agent.resources.base import Observed, PathResource
from nidome.agent.system import TEMPORARY, mode_of, replaced
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["Binary", "apply", "observe", "remove"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Binary(PathResource):
    """``path`` is the artifact with this ``sha256`` (``version`` and ``size`` in bytes are for people)."""

    kind: ClassVar[str] = "Binary"
    sha256: str
    version: str = ""
    size: int = 0
    mode: str = "0755"

    def desired(self) -> Dict[str, Any]:
        """Hash and mode."""
        return {"sha256": self.sha256, "mode": self.mode}


def observe(resources: Sequence[Binary], host: Host) -> List[Observed]:
    """Hash each file, from the cache where its inode is untouched."""
    found: List[Observed] = []
    for resource in resources:
        digest = host.sha256(resource.path)
        if digest is not None:
            host.installed[digest] = resource.path
        found.append(None if digest is None else {"sha256": digest, "mode": mode_of(os.stat(resource.path))})
    return found


def apply(resource: Binary, host: Host) -> None:
    """Put the artifact in place: a hard link where this host has it already, else a checked copy."""
    if not host.ledger.has(resource.id):
        host.ledger.add(resource.kind, resource.key, prior=_kept(resource, host))
    with host.exclusive(resource.sha256):
        _install(resource, host)


def _kept(resource: Binary, host: Host) -> Optional[Dict[str, Any]]:
    """Keep the file or link that stood at the path before Nidome, for a reset; None where none did."""
    if not (os.path.isfile(resource.path) or os.path.islink(resource.path)):
        return None
    directory = os.path.join(host.state, "kept")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    kept = os.path.join(directory, hashlib.sha256(resource.path.encode()).hexdigest())
    _duplicate(resource.path, kept)
    return {"kept": kept}


def _duplicate(source: str, target: str) -> None:
    """Copy a file or a link whole, with mode, owner and times."""
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}{TEMPORARY}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    shutil.copyfile(source, temporary, follow_symlinks=False)
    status = os.lstat(source)
    os.chown(temporary, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(source, temporary, follow_symlinks=False)
    os.rename(temporary, target)


def _install(resource: Binary, host: Host) -> None:
    twin = host.installed.get(resource.sha256)
    if twin is not None and host.sha256(twin) == resource.sha256 and _link(twin, resource):
        host.remember_sha256(resource.path, resource.sha256)
        return
    blob = host.blob(resource.sha256)
    if blob is None:
        raise ResourceError(
            "artifact-not-sent",
            f"the artifact {resource.sha256[:12]} is not on the host",
            where=resource.path,
            hint="run `nidome apply` again: it sends what is missing",
        )
    with open(blob, "rb", buffering=0) as source, replaced(resource.path, int(resource.mode, 8)) as out:
        digest = _copy(source, out)
        if digest != resource.sha256:
            if blob.startswith(host.state):
                os.unlink(blob)
            raise ResourceError(
                "artifact-corrupt",
                f"{blob} has sha256 {digest[:12]}, not {resource.sha256[:12]}",
                where=resource.path,
                hint="run `nidome artifacts verify`, then this again",
            )
    host.remember_sha256(resource.path, resource.sha256)
    host.installed[resource.sha256] = resource.path


def _copy(source: IO[bytes], out: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while True:
        block = source.read(_CHUNK)
        if not block:
            return digest.hexdigest()
        digest.update(block)
        out.write(block)


def _link(twin: str, resource: Binary) -> bool:
    directory, name = os.path.split(resource.path)
    temporary = os.path.join(directory, f".{name}{TEMPORARY}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    try:
        os.link(twin, temporary)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ENOENT, errno.EPERM, errno.EMLINK):
            return False
        raise
    os.chmod(temporary, int(resource.mode, 8))
    os.rename(temporary, resource.path)
    # Renaming one link of a file over another link of it does nothing and leaves the first name.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    return True


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Remove the file, or put back what stood there before."""
    del host
    if entry.get("prior"):
        with contextlib.suppress(FileNotFoundError):
            _duplicate(entry["prior"]["kept"], entry["key"])
            os.unlink(entry["prior"]["kept"])
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(entry["key"])
