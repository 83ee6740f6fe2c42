"""Whether a value is in force on a host: real roles and plans, a host's answers as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nidome.engine.plan import plan_host
from nidome.engine.selection import Selection
from nidome.prove.reach import reach
from nidome.prove.why import effects, questions
from nidome.roles.playbook import CLUSTER, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.agent.resources.base import Observed
    from nidome.model.spec import ClusterSpec
    from nidome.prove.why import Effect
    from nidome.roles.base import HostContext

_CONFIG = "File:/etc/containerd/config.toml"
_RESTART = "Restart:containerd.service"


@pytest.fixture
def asked(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> Callable[..., list[Effect]]:
    """Return a function that gives a value's effects on a host that is as declared, but for what is told."""

    def ask(
        name: str,
        value: Any,
        other: Any,
        found: Mapping[str, Observed] | None = None,
        drop_ins: Mapping[str, list[str]] | None = None,
        **answers: Any,
    ) -> list[Effect]:
        base, changed = (context_of(declared(**{name: v})) for v in (value, other))
        plays = evaluate(CLUSTER, base)
        resources = [r for p in plays for t in p.tasks for r in t.resources]
        restarts = {h.restart.id: _running() for p in plays for h in p.handlers}
        observed = (
            {r.id: json.loads(json.dumps(r.desired())) for r in resources} | restarts | dict(found or {})
        )
        for identity, files in (drop_ins or {}).items():
            observed[identity]["$overrides"] = files
        plan = plan_host(base, plays, observed, Selection(), ())
        reached = reach(base, changed, CLUSTER)
        asks = {q["id"]: q for q in questions(reached)}
        assert set(answers) <= {"file", "unit", "object"}
        said = {i: answers[next(iter(q))] for i, q in asks.items() if next(iter(q)) in answers}
        return effects(reached, plan, observed, said)

    return ask


def _running(*stale: str) -> Observed:
    return {"stale": list(stale), "$running": True, "$in_force": {}}


_NAME, _WANTED = "containerd_max_container_log_line_size", "max_container_log_line_size = 32768"


def test_in_force(asked: Callable[..., list[Effect]]) -> None:
    """A value is in force where its file is as declared and the process has read it."""
    (effect,) = asked(_NAME, 32768, 16384)
    assert (effect.resource, effect.state, effect.detail) == (_CONFIG, "in force", "")
    assert effect.task == "container-engine/containerd : Write containerd configuration"


def test_not_yet_applied(asked: Callable[..., list[Effect]]) -> None:
    """A value that the file does not have yet is shown beside the line that it has."""
    live = 'version = 3\n\n[plugins."x"]\n  max_container_log_line_size = 16384\n'
    drift = {_CONFIG: {"mode": "0644", "owner": ["root", "root"], "sha256": "0" * 64, "$text": live}}
    (effect,) = asked(_NAME, 32768, 16384, drift, file={"text": live})
    assert (effect.state, effect.detail) == ("not yet applied", "nidome apply")
    (place,) = effect.found
    assert (place.wanted, place.live) == (_WANTED, "max_container_log_line_size = 16384")


def test_another_value_of_the_same_file(asked: Callable[..., list[Effect]]) -> None:
    """A value whose line is live is in force, though its file is to be written for another value's sake."""
    live = f'version = 3\n[debug]\n  level = "trace"\n[x]\n  {_WANTED}\n'
    drift = {_CONFIG: {"mode": "0644", "owner": ["root", "root"], "sha256": "0" * 64, "$text": live}}
    (effect,) = asked(_NAME, 32768, 16384, drift, file={"text": live})
    assert (effect.state, effect.detail) == ("in force", "")


def test_not_yet_read(asked: Callable[..., list[Effect]]) -> None:
    """A value that stands in the file is not in force while the process runs with what it read before."""
    (effect,) = asked(_NAME, 32768, 16384, {_RESTART: _running("/etc/containerd/config.toml")})
    assert effect.state == "not yet read"
    assert effect.detail.startswith("containerd.service runs with what it read before")


def test_a_live_argument(asked: Callable[..., list[Effect]]) -> None:
    """An argument is shown with the one that the running process was started with."""
    found = asked("kube_log_level", 4, 2, unit={"argv": ["/usr/local/bin/kubelet", "--v=2", "--x=1"]})
    (effect,) = (e for e in found if e.resource == "Unit:kubelet.service")
    assert [(p.wanted, p.live) for p in effect.found] == [("--v=4", "--v=2")]


def test_a_live_field(asked: Callable[..., list[Effect]]) -> None:
    """A field of an object is shown with its live value."""
    found = asked("dns_min_replicas", 3, 2, object={"object": {"spec": {"replicas": 2}}})
    (effect,) = (e for e in found if "deployments/coredns" in e.resource)
    assert [(p.wanted, p.live) for p in effect.found] == [("3", "2")]


@pytest.mark.parametrize(
    ("live", "state", "detail"),
    [
        ("--v=9", "overridden", "/etc/systemd/system/kubelet.service.d/x.conf changes the unit"),
        ("--v=4", "in force", ""),
    ],
)
def test_overridden(asked: Callable[..., list[Effect]], live: str, state: str, detail: str) -> None:
    """A value is overridden where somebody's drop-in gives the process another one, not by any drop-in."""
    unit = "Unit:kubelet.service"
    dropin = "/etc/systemd/system/kubelet.service.d/x.conf"
    found = asked("kube_log_level", 4, 2, drop_ins={unit: [dropin]}, unit={"argv": ["kubelet", live]})
    (effect,) = (e for e in found if e.resource == unit)
    assert (effect.state, effect.detail) == (state, detail)
