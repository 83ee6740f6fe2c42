from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.resources.binary import Binary
from nidome.agent.resources.file import File
from nidome.errors import PreflightError, UsageError
from nidome.roles.preflight import require_fit
from nidome.roles.upgrade import BEGUN, begun, require_step, require_whole, touches_kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec

# What the host remembers, the release that is declared, and the error ("" where it is allowed).
_STEPS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "1.35.8", ""),
    ({"kube_version": "1.35.8"}, "1.35.8", ""),
    ({"kube_version": "1.35.8"}, "1.36.4", ""),
    ({"kube_version": "1.36.1"}, "1.36.4", ""),
    ({"kube_version": "1.36.4"}, "1.35.8", "kubernetes-downgrade"),
    ({"kube_version": "1.36.10"}, "1.36.4", "kubernetes-downgrade"),
    ({"kube_version": "1.34.9"}, "1.36.4", "kubernetes-skip"),
    ({"kube_version": "1.34.9"}, "1.35.8", ""),
    # An upgrade that was interrupted: on with it, and not back.
    ({"kube_version": "1.35.8", BEGUN: "1.36.4"}, "1.36.4", ""),
    ({"kube_version": "1.35.8", BEGUN: "1.36.4"}, "1.35.8", "kubernetes-downgrade"),
    # A first install that was interrupted.
    ({BEGUN: "1.36.4"}, "1.35.8", "kubernetes-downgrade"),
    ({BEGUN: "1.36.4"}, "1.36.4", ""),
]


@pytest.mark.parametrize(("remembered", "version", "code"), _STEPS)
def test_steps_between_releases(
    declared: Callable[..., ClusterSpec],
    facts: dict[str, Any],
    remembered: dict[str, Any],
    version: str,
    code: str,
) -> None:
    """A newer release of the same or the next minor upgrades; back, and over a minor release, is refused."""
    spec = declared(kube_version=version)
    if not code:
        require_fit(spec, spec.hosts[0], {**facts, "declared": remembered})
        return
    with pytest.raises(PreflightError) as raised:
        require_step(spec, spec.hosts[0], remembered)
    assert raised.value.code == code
    assert "all.yml:1" in raised.value.where
    assert raised.value.hint


def test_the_newest_release_counts() -> None:
    """Releases are compared as numbers; one that a run only began with counts too."""
    assert begun({}) == ""
    assert begun({"kube_version": 5, BEGUN: ["x"]}) == ""
    assert begun({"kube_version": "1.36.10", BEGUN: "1.36.9"}) == "1.36.10"


def test_a_part_of_an_upgrade_is_refused(declared: Callable[..., ClusterSpec]) -> None:
    """Chosen tasks cannot change the release of some components only."""
    spec = declared(kube_version="1.36.4")
    require_whole(spec, {})
    require_whole(spec, {"kube_version": "1.36.4"})
    with pytest.raises(UsageError) as raised:
        require_whole(spec, {"kube_version": "1.35.8"})
    assert raised.value.code == "upgrade-partial"
    assert "-e kube_version=1.35.8" in raised.value.hint


def test_programs_of_kubernetes_are_recognised() -> None:
    """A component's program is recognised wherever programs are; other programs and files are none."""
    assert touches_kubernetes([File("/a", ""), Binary("/opt/bin/kubelet", "0" * 64)])
    assert not touches_kubernetes([File("/a/kubelet", ""), Binary("/usr/local/bin/containerd", "0" * 64)])
