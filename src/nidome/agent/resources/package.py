"""Packages of the host's distribution."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence, Set, Tuple

from nidome.agent.resources.base import Observed, Resource
from nidome.agent.system import run

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["Package", "apply", "observe", "remove"]

_APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]


@dataclass(frozen=True)
class Package(Resource):
    """All of these packages are installed; at a reset those that were not there before are purged."""

    kind: ClassVar[str] = "Package"
    names: Tuple[str, ...]

    @property
    def key(self) -> str:
        """The names."""
        return ",".join(self.names)

    def desired(self) -> Dict[str, Any]:
        """Nothing is missing."""
        return {"missing": []}


def _installed(names: Sequence[str]) -> Set[str]:
    text = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *names], check=False)
    return {line.split()[0] for line in text.splitlines() if " ii" in line}


def observe(resources: Sequence[Package], host: Host) -> List[Observed]:
    """Ask dpkg once per resource."""
    del host
    return [{"missing": sorted(set(r.names) - _installed(r.names))} for r in resources]


def apply(resource: Package, host: Host) -> None:
    """Install what is missing, after refreshing the package lists where there are none."""
    before = _installed_all()
    missing = sorted(set(resource.names) - before)
    host.ledger.add(resource.kind, resource.key, data={"before_known": True})
    if not any(name.endswith("Packages") for name in _lists()):
        run([*_APT, "update"], timeout=600)
    run([*_APT, "install", "--no-install-recommends", "-y", *missing], timeout=900)
    added = sorted(_installed_all() - before)
    host.ledger.add(resource.kind, resource.key, data={"added": added})


def _installed_all() -> Set[str]:
    text = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n"])
    return {line.split()[0] for line in text.splitlines() if " ii" in line}


def _lists() -> List[str]:
    try:
        return os.listdir("/var/lib/apt/lists")
    except FileNotFoundError:
        return []


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Purge the packages that came with Nidome."""
    del host
    added = (entry.get("data") or {}).get("added") or []
    if added:
        run([*_APT, "purge", "-y", *added], timeout=900)
