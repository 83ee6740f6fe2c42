from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nidome.agent.resources.registry import KINDS
from nidome.engine.reset import GONE_WITH_DATA, STAGES, groups


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
