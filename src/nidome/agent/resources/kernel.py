"""Kernel settings and modules."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence

from nidome.agent.resources.base import Observed, Resource, unobservable
from nidome.agent.system import read_text, run
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = [
    "KernelModule",
    "Sysctl",
    "apply_module",
    "apply_sysctl",
    "observe_modules",
    "observe_sysctls",
    "remove_module",
    "remove_sysctl",
]


SETTINGS = "/proc/sys"


@dataclass(frozen=True)
class Sysctl(Resource):
    """The running kernel's setting ``name`` has this value; with ``at_least`` a greater one will do.

    A value that is enough already is left alone: some settings are shared by all containers of a
    machine, and lowering them would harm the neighbours.
    """

    kind: ClassVar[str] = "Sysctl"
    name: str
    value: str
    at_least: bool = False

    @property
    def key(self) -> str:
        """The setting's name, with dots."""
        return self.name

    def desired(self) -> Dict[str, Any]:
        """Return the value."""
        return {"value": self.value}


def _path(name: str) -> str:
    return os.path.join(SETTINGS, name.replace(".", "/"))


def observe_sysctls(resources: Sequence[Sysctl], host: Host) -> List[Observed]:
    """Read each setting; a greater value is told as the wanted one where that will do."""
    del host
    found: List[Observed] = []
    for resource in resources:
        text = read_text(_path(resource.name))
        if text is None:
            # Perhaps only until an earlier task has loaded the module it belongs to.
            found.append(unobservable(f"the kernel has no setting {resource.name}"))
            continue
        value = " ".join(text.split())
        enough = resource.at_least and value.isdigit() and int(value) >= int(resource.value)
        found.append({"value": resource.value if enough else value})
    return found


def apply_sysctl(resource: Sysctl, host: Host) -> None:
    """Write the setting, remembering what it was."""
    path = _path(resource.name)
    host.ledger.add(resource.kind, resource.key, prior=" ".join((read_text(path) or "").split()))
    try:
        with open(path, "w", encoding="utf-8") as out:
            out.write(resource.value)
    except OSError as error:
        raise ResourceError(
            "sysctl-read-only",
            f"cannot set {resource.name} to {resource.value}: {error.strerror}",
            where=resource.id,
            hint=f"set it where the kernel is yours: sysctl -w {resource.name}={resource.value}",
        ) from None


def remove_sysctl(entry: Dict[str, Any], host: Host) -> None:
    """Put the earlier value back."""
    del host
    if entry.get("prior") and os.access(_path(entry["key"]), os.W_OK):
        with open(_path(entry["key"]), "w", encoding="utf-8") as out:
            out.write(entry["prior"])


@dataclass(frozen=True)
class KernelModule(Resource):
    """The kernel has this feature: ``probe`` exists, built in or loaded."""

    kind: ClassVar[str] = "KernelModule"
    name: str
    probe: str

    @property
    def key(self) -> str:
        """The module's name."""
        return self.name

    def desired(self) -> Dict[str, Any]:
        """Return that the feature is there."""
        return {"available": True}


def _available(resource: KernelModule) -> bool:
    if resource.probe.startswith("/"):
        return os.path.exists(resource.probe)
    return f"\t{resource.probe}\n" in (read_text("/proc/filesystems") or "")


def observe_modules(resources: Sequence[KernelModule], host: Host) -> List[Observed]:
    """Look for what each module brings (a path, or the name of a file system)."""
    del host
    return [{"available": True} if _available(resource) else None for resource in resources]


def apply_module(resource: KernelModule, host: Host) -> None:
    """Load the module."""
    host.ledger.add(resource.kind, resource.key)
    run(["modprobe", resource.name])


def remove_module(entry: Dict[str, Any], host: Host) -> None:
    """Unload a module that Nidome loaded, unless something else uses it by now."""
    del host
    run(["modprobe", "--remove", entry["key"]], check=False)
