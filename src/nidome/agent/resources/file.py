"""A file with its content, mode and owner."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Optional, Sequence, Tuple

from nidome.agent import hiding
from nidome.agent.resources.base import Observed, PathResource
from nidome.agent.system import mode_of, open_file, owner_of, read_text, replaced, state_of

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["File", "apply", "note", "observe", "remove"]

_SHOWN = 65536


@dataclass(frozen=True)
class File(PathResource):
    """``path`` holds ``content``.

    Ownership ``whole``: nobody else may write to it. ``create-only``: written where it is missing, then
    left to whoever rotates it. ``unclaimed``: as ``whole``, unless somebody else's file is there, which
    stays as it is. ``secrets`` are texts in the content that are never shown (see
    :mod:`nidome.agent.hiding`).
    """

    kind: ClassVar[str] = "File"
    content: str
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    ownership: str = "whole"
    secrets: Tuple[str, ...] = ()

    def desired(self) -> Dict[str, Any]:
        """Hash, mode and owner; for a create-only file the hash is whatever is found."""
        state: Dict[str, Any] = {"mode": self.mode, "owner": [self.owner, self.group]}
        if self.ownership != "create-only":
            state["sha256"] = hashlib.sha256(self.content.encode()).hexdigest()
        return state


def _content(resource: File) -> bytes:
    return resource.content.encode()


def observe(resources: Sequence[File], host: Host) -> List[Observed]:
    """Read each file; its text comes along where it differs, as far as it may be shown.

    ``$hidden`` says that it may not.
    """
    return [
        resource.desired() if _is_anothers(resource, host) else _observe_one(resource, host)
        for resource in resources
    ]


def _is_anothers(resource: File, host: Host) -> bool:
    taken = resource.ownership == "unclaimed" and not host.ledger.has(resource.id)
    return taken and os.path.lexists(resource.path)


def _observe_one(resource: File, host: Host) -> Observed:
    try:
        status = os.lstat(resource.path)
        with open_file(resource.path) as source:
            content = source.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    state: Dict[str, Any] = {"mode": mode_of(status), "owner": owner_of(status)}
    if not stat.S_ISREG(status.st_mode):
        # A link leads out of what Nidome keeps, a pipe or a device is no file: it is replaced by one.
        state["mode"] = state_of(resource.path)
    if resource.ownership != "create-only":
        state["sha256"] = hashlib.sha256(content).hexdigest()
        if content != _content(resource):
            state.update(_told(resource, content, status, host))
    return state


def _told(resource: File, content: bytes, status: os.stat_result, host: Host) -> Dict[str, Any]:
    """Return what is told of a content that differs."""
    private = not status.st_mode & stat.S_IROTH
    if len(content) > _SHOWN:
        return {"$hidden": True} if private or resource.secrets else {}
    data = (host.ledger.entries.get(resource.id) or {}).get("data")
    text = hiding.shown(content.decode(errors="replace"), data, resource.secrets, private=private)
    return {"$hidden": True} if text is None else {"$text": text}


def apply(resource: File, host: Host) -> None:
    """Write the file whole; what stood there before Nidome is kept for a reset."""
    if _is_anothers(resource, host):
        return
    note(resource, host)
    content = _content(resource)
    if resource.ownership == "create-only" and os.path.isfile(resource.path):
        with open_file(resource.path) as source:
            content = source.read()
    with replaced(resource.path, int(resource.mode, 8), resource.owner, resource.group) as out:
        out.write(content)
        if resource.secrets:
            out.flush()
            os.fsync(out.fileno())


def note(resource: File, host: Host) -> None:
    """Enter the file in the ledger, with what must not be shown of it later."""
    entry = host.ledger.entries.get(resource.id)
    data = (entry or {}).get("data")
    if resource.ownership != "create-only":
        data = hiding.noted(data, read_text(resource.path), resource.content, resource.secrets)
    prior = entry["prior"] if entry else _prior(resource.path)
    host.ledger.add(resource.kind, resource.key, prior=prior, data=data)


def _prior(path: str) -> Optional[Dict[str, Any]]:
    """Return what puts back a file or a link; a pipe, a socket or a device is nobody's content."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return {"link": os.readlink(path)}
    if not stat.S_ISREG(status.st_mode):
        return None
    with open_file(path) as source:
        content = base64.b64encode(source.read()).decode()
    return {"content": content, "mode": mode_of(status), "owner": owner_of(status)}


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Remove the file, or put back what stood there before."""
    del host
    prior, path = entry.get("prior") or {}, entry["key"]
    if "content" in prior:
        with replaced(path, int(prior["mode"], 8), *prior["owner"]) as out:
            out.write(base64.b64decode(prior["content"]))
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    if "link" in prior:
        os.symlink(prior["link"], path)
