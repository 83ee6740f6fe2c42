from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.agent.resources.registry import KINDS
from nidome.engine.reset import GONE_WITH_DATA, STAGES, _HostReset, groups, unaccounted_for
from nidome.engine.run import ledger_damaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.engine.transport import AgentConnection
    from nidome.model.spec import ClusterSpec


def _entry(kind: str, key: str) -> dict[str, Any]:
    return {"id": f"{kind}:{key}", "kind": kind, "key": key}


def test_every_kind_is_removed() -> None:
    """Whatever kind of thing Nidome can make on a host, a reset has a place for it."""
    makeable = {name for name, kind in KINDS.items() if kind.remove}
    assert makeable == {"Unit", *GONE_WITH_DATA, *(kind for _, kinds in STAGES for kind in kinds)}


def test_order() -> None:
    """What started last stops first: the API server still has its store then; files follow the units."""
    ledger = [
        _entry("Package", "socat"),
        _entry("Directory", "/etc/kubernetes"),
        _entry("Directory", "/etc/kubernetes/ssl"),
        _entry("Sysctl", "net.ipv4.ip_forward"),
        _entry("Certificate", "/etc/kubernetes/ssl/ca.crt"),
        _entry("Unit", "kine.service"),
        _entry("Binary", "/usr/local/bin/kube-apiserver"),
        _entry("Unit", "kube-apiserver.service"),
        _entry("Image", "pause"),
        _entry("Unit", "kubelet.service"),
        _entry("KubeObject", "/api/v1/x"),
    ]
    assert [(g.title.removeprefix("reset : "), *g.ids) for g in groups(ledger)] == [
        ("Stop and remove kubelet", "Unit:kubelet.service"),
        ("Stop and remove kube-apiserver", "Unit:kube-apiserver.service"),
        ("Stop and remove kine", "Unit:kine.service"),
        ("Remove certificates and keys", "Certificate:/etc/kubernetes/ssl/ca.crt"),
        ("Restore kernel parameters", "Sysctl:net.ipv4.ip_forward"),
        ("Remove programs", "Binary:/usr/local/bin/kube-apiserver"),
        ("Remove directories and data", "Directory:/etc/kubernetes/ssl", "Directory:/etc/kubernetes"),
        ("Remove packages", "Package:socat"),
    ]


_LEDGERS = st.lists(
    st.tuples(st.sampled_from(sorted(n for n, k in KINDS.items() if k.remove)), st.text(min_size=1)),
    unique=True,
)


@given(_LEDGERS)
def test_nothing_forgotten(ledger: list[tuple[str, str]]) -> None:
    """Each entry of a ledger is removed exactly once, or goes with the data of a component."""
    entries = [_entry(kind, key) for kind, key in ledger]
    removed = [identity for group in groups(entries) for identity in group.ids]
    assert sorted(removed) == sorted(e["id"] for e in entries if e["kind"] not in GONE_WITH_DATA)


class _Host:
    """A host that answers what it is asked, and remembers it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def call(self, operation: str, **_: Any) -> Any:
        """Answer."""
        self.asked.append(operation)
        return self.answers[operation]


@pytest.mark.parametrize(
    ("found", "code", "named"),
    [
        ({"lines": [3, 7], "units": []}, "ledger-damaged", "3, 7"),
        ({"lines": [], "units": ["kine.service"]}, "ledger-lost", "kine.service"),
    ],
)
def test_a_ledger_that_does_not_tell_all_ends_the_reset(
    declared: Callable[..., ClusterSpec], found: dict[str, Any], code: str, named: str
) -> None:
    """Where the ledger lost what Nidome made, a reset removes nothing, fails, and says how to go on."""
    host, events = _Host(unaccounted=found), list[Any]()
    work = _HostReset(declared().hosts[0], cast("AgentConnection", host), events.append)
    work.run()
    assert (host.asked, work.clean) == (["unaccounted"], False)
    error = events[-1].error
    assert (error["code"], error["where"]) == (code, "/var/lib/nidome/ledger.jsonl")
    assert named in error["message"]
    assert error["hint"]
    (warning,) = ledger_damaged("node1", found)
    assert (warning.code, warning.where) == (code, "node1: /var/lib/nidome/ledger.jsonl")


def test_a_whole_ledger_is_no_error() -> None:
    """Where the ledger tells all, nobody is warned and the reset goes on."""
    assert unaccounted_for({"lines": [], "units": []}) is None
