"""Packages of the host's distribution."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence, Set, Tuple

from nidome.agent.resources.base import Observed, Resource
from nidome.agent.system import run

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["Package", "apply", "observe", "remove"]

_LISTS = "/var/lib/apt/lists"
_PARTIAL = f"{_LISTS}/partial"
_QUIET = ["env", "DEBIAN_FRONTEND=noninteractive"]
_APT = [*_QUIET, "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
# Nothing is left in apt's caches: what was fetched for one installation would be a trace of it.
_APT += [
    "-o",
    "APT::Keep-Downloaded-Packages=false",
    "-o",
    "Dir::Cache::pkgcache=",
    "-o",
    "Dir::Cache::srcpkgcache=",
]


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


def _known(names: Sequence[str]) -> Set[str]:
    """Return those of the packages that dpkg has anything of, if only their configuration."""
    if not names:
        return set()
    text = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *names], check=False)
    rows = [line.split() for line in text.splitlines()]
    return {row[0] for row in rows if row[1:] and row[1] != "un"}


def apply(resource: Package, host: Host) -> None:
    """Install what is missing, after refreshing the package lists where there are none."""
    # apt waits for dpkg's lock, but not for that of its lists: resources of one task go one by one here.
    with host.exclusive("apt"):
        _install(resource, host)


def _install(resource: Package, host: Host) -> None:
    missing = sorted(set(resource.names) - _installed(resource.names))
    if not missing:
        return
    known = (host.ledger.entries.get(resource.id) or {}).get("data") or {}
    added, lists = set(known.get("added", ())), known.get("lists")

    def enter() -> None:
        host.ledger.add(resource.kind, resource.key, data={"added": sorted(added), "lists": lists})

    if not any(name.endswith("Packages") for name in _lists()):
        # apt gives its directory for partial downloads to its own user then.
        lists = lists or _owner(_PARTIAL)
        enter()
        run([*_APT, "update"], timeout=600)
    # Before it is done: a kill in the middle must not hide from a reset what had come by then.
    added.update(_would_install(missing))
    enter()
    run([*_APT, "install", "--no-install-recommends", "-y", *missing], timeout=900)


def _would_install(names: Sequence[str]) -> List[str]:
    """Return the packages that an installation would add, with what they depend on."""
    text = run([*_APT, "--simulate", "install", "--no-install-recommends", "-y", *names], timeout=120)
    # "Inst NAME (NEW ...)"; an upgrade says "Inst NAME [OLD] (NEW ...)" and adds nothing.
    rows = [line.split() for line in text.splitlines() if line.startswith("Inst ")]
    return [row[1] for row in rows if not row[2].startswith("[")]


def _owner(path: str) -> List[int]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return [0, 0]
    return [status.st_uid, status.st_gid]


def _lists() -> List[str]:
    try:
        return os.listdir(_LISTS)
    except FileNotFoundError:
        return []


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Purge the packages that came with Nidome; an installation that was cut short is put in order first."""
    del host
    data = entry.get("data") or {}
    added = sorted(_known(data.get("added") or []))
    if added:
        run([*_QUIET, "dpkg", "--configure", "--pending"], check=False, timeout=900)
        run([*_APT, "purge", "-y", *added], timeout=900)
    if data.get("lists"):
        _forget_lists(data["lists"])


def _forget_lists(owner: Sequence[int]) -> None:
    for name in set(_lists()) - {"lock", "partial"}:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(_LISTS, name))
    with contextlib.suppress(OSError):
        os.chown(_PARTIAL, *owner)
