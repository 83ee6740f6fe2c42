from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.approver import refusal

if TYPE_CHECKING:
    from pathlib import Path

USER = "system:node:node1"
NAMES = "DNS:node1,IP:10.0.0.5,IP:fd00::5"
NODE: dict[str, Any] = {
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.5"},
            {"type": "InternalIP", "address": "fd00::5"},
            {"type": "Hostname", "address": "node1"},
        ]
    }
}


def _csr(tmp_path: Path, *subjects: str, names: str = NAMES) -> str:
    """Return a request that the real openssl made."""
    key, csr = str(tmp_path / "key"), str(tmp_path / "csr")
    subject = "".join(f"/{s}" for s in subjects)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key]
    extra = ["-addext", f"subjectAltName={names}"] if names else []
    subprocess.run(
        ["openssl", "req", "-new", *curve, "-subj", subject, *extra, "-out", csr],
        check=True,
        capture_output=True,
    )
    return base64.b64encode((tmp_path / "csr").read_bytes()).decode()


def _request(csr: str, **spec: Any) -> dict[str, Any]:
    usages = ["digital signature", "server auth"]
    groups = ["system:nodes", "system:authenticated"]
    return {"spec": {"username": USER, "groups": groups, "usages": usages, "request": csr, **spec}}


@pytest.fixture
def csr(tmp_path: Path) -> str:
    """Return a node's request for itself."""
    return _csr(tmp_path, "O=system:nodes", f"CN={USER}")


@pytest.mark.parametrize(
    "usages", [["digital signature", "server auth"], ["key encipherment", "server auth"]]
)
def test_a_node_gets_what_is_its_own(csr: str, usages: list[str]) -> None:
    """A node that asks for a server certificate for itself, under its own addresses, gets it."""
    assert refusal(_request(csr, usages=usages), NODE) == ""


@pytest.mark.parametrize("names", ["IP:10.0.0.5", "DNS:node1", "IP:FD00:0:0:0:0:0:0:5"])
def test_some_of_its_names_will_do(tmp_path: Path, names: str) -> None:
    """A node may ask for fewer names than it has, however an address is written."""
    assert refusal(_request(_csr(tmp_path, "O=system:nodes", f"CN={USER}", names=names)), NODE) == ""


@pytest.mark.parametrize(
    ("subjects", "names", "reason"),
    [
        (("O=system:nodes", f"CN={USER}"), "DNS:node1,IP:10.0.0.6", "the node does not have"),
        (("O=system:nodes", f"CN={USER}"), "DNS:kubernetes", "the node does not have"),
        (("O=system:nodes", f"CN={USER}"), "DNS:10.0.0.5", "the node does not have"),
        (("O=system:nodes", f"CN={USER}"), "DNS:node1,URI:spiffe://node1", "the node does not have"),
        (("O=system:nodes", f"CN={USER}"), "DNS:node1,email:node1", "the node does not have"),
        (("O=system:nodes", f"CN={USER}"), "", "the node does not have"),
        (("O=system:nodes", "CN=system:node:node2"), NAMES, "another subject"),
        (("O=system:masters", f"CN={USER}"), NAMES, "another subject"),
        (("O=system:nodes", "O=system:masters", f"CN={USER}"), NAMES, "another subject"),
        (("O=system:nodes", f"CN={USER}", "CN=system:admin"), NAMES, "another subject"),
        (("O=system:nodes", "OU=more", f"CN={USER}"), NAMES, "another subject"),
        ((f"CN={USER}",), NAMES, "another subject"),
        ((f"CN={USER}\n    O=system:nodes",), NAMES, "another subject"),
        ((f"CN=x\nsubject=\n    O=system:nodes\n    CN={USER}",), NAMES, "another subject"),
    ],
)
def test_what_is_not_its_own_is_refused(
    tmp_path: Path, subjects: tuple[str, ...], names: str, reason: str
) -> None:
    """A request for another subject, or with a name that the node does not have, is refused with a reason."""
    assert reason in refusal(_request(_csr(tmp_path, *subjects, names=names)), NODE)


@pytest.mark.parametrize(
    ("spec", "node", "reason"),
    [
        ({"username": "system:serviceaccount:default:x"}, NODE, "does not come from a node"),
        ({"username": "system:node:node1", "groups": ["system:authenticated"]}, NODE, "does not come from a"),
        ({"username": ""}, NODE, "does not come from a node"),
        ({"usages": ["client auth"]}, NODE, "usages"),
        ({"usages": ["server auth", "client auth"]}, NODE, "usages"),
        ({"usages": ["digital signature"]}, NODE, "usages"),
        ({"usages": []}, NODE, "usages"),
        ({}, None, "its node is unknown"),
        ({}, {}, "the node does not have"),
        ({}, {"status": {}}, "the node does not have"),
        ({}, {"status": {"addresses": None}}, "the node does not have"),
        ({"request": base64.b64encode(b"garbage").decode()}, NODE, "not a certificate request"),
        ({"request": "%%%"}, NODE, ""),
        ({"request": ""}, NODE, "not a certificate request"),
    ],
)
def test_each_condition_counts(csr: str, spec: dict[str, Any], node: Any, reason: str) -> None:
    """A sender that is no node, other usages, missing addresses and a damaged request are refused."""
    said = refusal(_request(csr, **spec), node)
    assert said
    assert reason in said
