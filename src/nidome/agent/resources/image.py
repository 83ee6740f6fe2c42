"""A container image in containerd, imported from an archive that this host was sent."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence

from nidome.agent.resources.base import Observed, Resource, unobservable
from nidome.agent.system import run
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["Image", "apply", "observe", "remove"]

_START_SECONDS = 60


@dataclass(frozen=True)
class Image(Resource):
    """``reference`` is in containerd's Kubernetes namespace, from the archive with this sha256.

    ``store`` is containerd's data directory: where it is empty there are no images, whether containerd
    runs or not. ``unit`` is containerd's unit. A ``kept`` image is a user's own: it stays although another
    operator does not know of it.
    """

    kind: ClassVar[str] = "Image"
    reference: str
    sha256: str
    ctr: str = "/usr/local/bin/ctr"
    socket: str = "/run/containerd/containerd.sock"
    store: str = "/var/lib/containerd"
    unit: str = "containerd.service"
    kept: bool = False

    @property
    def key(self) -> str:
        """The reference."""
        return self.reference

    def desired(self) -> Dict[str, Any]:
        """Return the archive it came from."""
        return {"archive": self.sha256}


def _ctr(resource: Image, *arguments: str, check: bool = True) -> str:
    return run([resource.ctr, "-a", resource.socket, "-n", "k8s.io", *arguments], check=check)


def _listed(resource: Image) -> Dict[str, str]:
    rows = _ctr(resource, "images", "list").splitlines()[1:]
    return {row.split()[0]: row.split()[2] for row in rows if len(row.split()) > 2}  # noqa: PLR2004 - REF TYPE DIGEST


def _listed_soon(resource: Image) -> Dict[str, str]:
    """List the images, of a containerd that is starting as soon as it answers."""
    try:
        return _listed(resource)
    except ResourceError:
        _wait_for(resource)
        return _listed(resource)


def observe(resources: Sequence[Image], host: Host) -> List[Observed]:
    """List containerd's images once."""
    if not resources:
        return []
    first = resources[0]
    if not os.path.isdir(f"{first.store}/io.containerd.metadata.v1.bolt"):
        return [None for _ in resources]
    if not os.path.exists(first.ctr) or not host.comes_up(first.unit):
        return [unobservable("containerd is not running") for _ in resources]
    try:
        listed = _listed_soon(first)
    except ResourceError as error:
        return [unobservable(f"containerd does not answer: {error.message}") for _ in resources]
    return [_state(resource, listed, host) for resource in resources]


def _state(resource: Image, listed: Dict[str, str], host: Host) -> Observed:
    digest = listed.get(resource.reference)
    if digest is None:
        return None
    known = (host.ledger.entries.get(resource.id) or {}).get("data") or {}
    return {"archive": known.get("archive") if known.get("digest") == digest else f"unknown, image {digest}"}


def apply(resource: Image, host: Host) -> None:
    """Import the archive; the image is pinned, since no registry may be there to bring it back."""
    blob = host.blob(resource.sha256)
    if blob is None:
        raise ResourceError(
            "artifact-not-sent",
            f"the archive {resource.sha256[:12]} is not on the host",
            where=resource.id,
            hint="run `nidome apply` again: it sends what is missing",
        )
    if host.sha256(blob) != resource.sha256:
        if blob.startswith(host.state):
            os.unlink(blob)
        raise ResourceError(
            "artifact-corrupt",
            f"{blob} is not the archive {resource.sha256[:12]}",
            where=resource.id,
            hint="run `nidome artifacts verify`, then this again",
        )
    _wait_for(resource)
    _ctr(resource, "images", "import", "--label", "io.cri-containerd.pinned=pinned", blob)
    digest = _listed(resource).get(resource.reference)
    host.ledger.add(
        resource.kind,
        resource.key,
        data={"archive": resource.sha256, "digest": digest, "kept": resource.kept},
    )


def _wait_for(resource: Image) -> None:
    """Wait until containerd accepts connections: it may have been started a moment ago."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(resource.socket)
        except OSError as error:
            if time.monotonic() > deadline:
                raise ResourceError(
                    "containerd-silent",
                    f"containerd does not accept connections: {error.strerror}",
                    where=resource.id,
                    hint="nidome logs containerd",
                ) from None
            time.sleep(0.02)
        else:
            return


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Forget the image where containerd still runs; at a reset its data directory goes anyway."""
    resource = Image(entry["key"], "")
    del host
    if os.path.exists(resource.socket) and os.path.exists(resource.ctr):
        _ctr(resource, "images", "remove", resource.reference, check=False)
