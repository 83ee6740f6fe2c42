"""Another Kubernetes release on a living cluster: which steps are allowed, and what a host remembers of one.

A newer release is an upgrade in place: the API server first, then what talks to it. The store may then hold
what an older API server cannot read, so there is no way back, also not from an upgrade that was interrupted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.binary import Binary
from nidome.errors import PreflightError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nidome.agent.resources.base import Resource
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["BEGUN", "begun", "require_step", "require_whole", "touches_kubernetes"]

BEGUN = "kube_version_begun"
"""Under which a host keeps, beside the values of the last whole apply, the release that a run began with."""
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_BINARIES = frozenset(
    {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"}
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def begun(declared: Mapping[str, Any]) -> str:
    """Return the newest release that a host's cluster may have run, "" where there is none."""
    # The note is a file that anybody may have edited: what is no version says nothing.
    found = [v for n in ("kube_version", BEGUN) if _VERSION.fullmatch(v := str(declared.get(n, "")))]
    return max(found, key=_numbers, default="")


def require_step(spec: ClusterSpec, host: HostSpec, declared: Mapping[str, Any]) -> None:
    """Refuse an older release, and one that is more than one minor release ahead."""
    before, setting = begun(declared), spec.kube_version
    if not before or before == setting.value:
        return
    was, wanted = _numbers(before), _numbers(setting.value)
    where = f"{host.name}, {setting.origin}"
    if wanted < was:
        raise PreflightError(
            "kubernetes-downgrade",
            f"this cluster has run Kubernetes {before} and cannot go back to {setting.value}",
            where=where,
            hint=f"set kube_version: {before}; an older release needs a new cluster: nidome reset",
        )
    if wanted[0] != was[0] or wanted[1] > was[1] + 1:
        raise PreflightError(
            "kubernetes-skip",
            f"Kubernetes {before} cannot become {setting.value}: a minor release would be left out",
            where=where,
            hint=f"upgrade to a release of {was[0]}.{was[1] + 1} first",
        )


def touches_kubernetes(resources: Iterable[Resource]) -> bool:
    """Tell whether a component's program is among the resources."""
    return any(isinstance(r, Binary) and r.path.rpartition("/")[2] in _BINARIES for r in resources)


def require_whole(spec: ClusterSpec, declared: Mapping[str, Any]) -> None:
    """Refuse to change the release of some components only: a kubelet must not be ahead of its API server."""
    before, setting = str(declared.get("kube_version", "")), spec.kube_version
    if before and before != setting.value:
        raise UsageError(
            "upgrade-partial",
            f"Kubernetes {before} becomes {setting.value}, and chosen tasks would do a part of that",
            where=f"--tags, --skip-tags; {setting.origin}",
            hint=f"run without them; or leave the release as it is for now: -e kube_version={before}",
        )
