"""The table of resource kinds: where each is defined, and its three functions."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from nidome.agent.resources.base import Observed, Resource, freeze
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["KINDS", "Kind", "decode", "handlers"]


class Kind(NamedTuple):
    """A module of this package and the names of the kind's functions in it ("" where it has none)."""

    module: str
    observe: str = "observe"
    apply: str = "apply"
    remove: str = "remove"


KINDS: Dict[str, Kind] = {
    "Binary": Kind("binary"),
    "Certificate": Kind("certificate", "observe_certificates", "apply_certificate", "remove_files"),
    "Condition": Kind("condition", remove=""),
    "Directory": Kind("directory"),
    "EncryptionKeys": Kind("encryption", remove="remove_files"),
    "File": Kind("file"),
    "Image": Kind("image"),
    "IssuedCertificates": Kind("issued", remove=""),
    "KernelModule": Kind("kernel", "observe_modules", "apply_module", "remove_module"),
    "KeyPair": Kind("certificate", "observe_pairs", "apply_pair", "remove_files"),
    "KubeObject": Kind("kubeobject"),
    "NodeTaints": Kind("taints"),
    "Package": Kind("package"),
    "Restart": Kind("unit", "observe_restarts", "apply_restart", ""),
    "Sysctl": Kind("kernel", "observe_sysctls", "apply_sysctl", "remove_sysctl"),
    "Token": Kind("certificate", "observe_tokens", "apply_token", "remove_files"),
    "Unit": Kind("unit"),
}


class Handlers(NamedTuple):
    """A kind's functions on the host; ``note`` enters in the ledger what must not be shown later."""

    observe: Callable[[Sequence[Any], "Host"], List[Observed]]
    apply: Callable[[Any, "Host"], None]
    remove: Optional[Callable[[Dict[str, Any], "Host"], None]]
    note: Callable[[Any, "Host"], None]


def _module(kind: str) -> Any:
    if kind not in KINDS:
        raise ResourceError(
            "unknown-kind", f"no resource kind '{kind}'", hint="the agent and nidome must be of one version"
        )
    # Only the kinds in use are imported: a host without objects does not load the TLS client.
    return importlib.import_module(f"nidome.agent.resources.{KINDS[kind].module}")


def handlers(kind: str) -> Handlers:
    """Return the functions of a kind."""
    module, entry = _module(kind), KINDS[kind]
    remove = getattr(module, entry.remove) if entry.remove else None
    note = getattr(module, "note", _nothing_to_note)
    return Handlers(getattr(module, entry.observe), getattr(module, entry.apply), remove, note)


def _nothing_to_note(resource: Any, host: Host) -> None:
    """Do nothing: of this kind, no text is shown."""


def decode(data: Mapping[str, Any]) -> Resource:
    """Return the resource that plain data from the wire describes."""
    cls = getattr(_module(data["kind"]), data["kind"])
    names = {f.name for f in dataclasses.fields(cls)}
    made: Resource = cls(**{k: freeze(v) for k, v in data.items() if k in names})
    return made
