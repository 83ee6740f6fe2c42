from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.agent.resources.base import Resource, encode, failed, unobservable
from nidome.agent.resources.binary import Binary
from nidome.agent.resources.certificate import Certificate, KeyPair, Token
from nidome.agent.resources.condition import Condition
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.encryption import EncryptionKeys
from nidome.agent.resources.file import File
from nidome.agent.resources.image import Image
from nidome.agent.resources.issued import IssuedCertificates
from nidome.agent.resources.kernel import KernelModule, Sysctl
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.package import Package
from nidome.agent.resources.registry import KINDS, decode
from nidome.agent.resources.taints import NodeTaints
from nidome.agent.resources.unit import Restart, Unit
from nidome.engine.diff import Change, Delta, Difference, compare
from nidome.errors import ResourceError

MANIFEST = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
ACCESS = ("https://10.0.0.1:6443", "/ca", "/cert", "/key")
EACH: tuple[Resource, ...] = (
    Binary("/usr/local/bin/runc", "a" * 64),
    Certificate(
        "/pki/a.crt", "/pki/a.key", "a", ("o",), ("DNS:a",), ("client",), "/pki/ca.crt", "/pki/ca.key"
    ),
    Condition("dns", ("kubelet.service",), parameters={"name": "x", "server": "10.0.0.3"}),
    Directory("/etc/kubernetes"),
    EncryptionKeys("/pki/keys.yaml", "secretbox", ("secrets",)),
    EncryptionKeys("/pki/off.yaml", "identity", ("secrets",)),
    File("/etc/f", "text\n"),
    File("/etc/secret", "hidden\n", secrets=("hidden",)),
    File("/etc/empty", ""),
    File("/etc/once", "first", ownership="create-only"),
    Image("registry.local/pause:1", "b" * 64),
    IssuedCertificates(("/pki/kubelet-client-current.pem",), "/pki/ca.crt", "kubelet.service"),
    KernelModule("overlay", "overlay"),
    KeyPair("/pki/sa.key", "/pki/sa.pub"),
    KubeObject(MANIFEST, ACCESS, "kube-apiserver.service", "/var/lib/kine/state.db"),
    NodeTaints("node1", ("a=1:NoSchedule",), ACCESS, "kube-apiserver.service", "/var/lib/kine/state.db"),
    Package(("socat",)),
    Restart("kubelet.service", ("/etc/f",)),
    Sysctl("net.ipv4.ip_forward", "1"),
    Token("/pki/token", "nidome"),
    Unit("kubelet.service", "[Service]\n"),
)
BY_ID = [pytest.param(r, id=r.id) for r in EACH]


def _other(value: Any) -> Any:
    """Return a value of the same kind that differs."""
    if isinstance(value, bool):
        return not value
    return [*value, "other"] if isinstance(value, list) else f"not {value}"


def test_every_kind_is_compared_here() -> None:
    """The tests of the comparison cover every kind of resource that there is."""
    assert {r.kind for r in EACH} == set(KINDS)


@pytest.mark.parametrize("resource", BY_ID)
def test_a_resource_survives_the_wire(resource: Resource) -> None:
    """A resource is the same after its way to the agent as JSON."""
    assert decode(json.loads(json.dumps(encode(resource)))) == resource


@pytest.mark.parametrize("resource", BY_ID)
def test_nothing_differs_from_what_must_be(resource: Resource) -> None:
    """What is found as it must be is settled, whatever else the observation carries."""
    observed = json.loads(json.dumps(resource.desired()))
    assert compare(resource, observed) == Difference()
    assert compare(resource, {**observed, "$detail": "x", "$text": "y", "more": 1}).settled


@pytest.mark.parametrize("resource", BY_ID)
def test_what_is_absent_is_created(resource: Resource) -> None:
    """What does not exist is certain to be created, with every attribute that it will have."""
    difference = compare(resource, None)
    assert difference.change is not None
    assert (difference.change.action, difference.change.resource) == ("create", resource.id)
    if resource.kind not in ("File", "Unit"):
        deltas = [(d.attribute, d.before, d.after) for d in difference.change.deltas]
        assert deltas == [(k, None, v) for k, v in sorted(resource.desired().items())]


@pytest.mark.parametrize("resource", BY_ID)
def test_each_attribute_counts(resource: Resource) -> None:
    """Each attribute that differs is a certain change by itself (a condition: something to wait for)."""
    for name, value in resource.desired().items():
        observed = {**resource.desired(), name: _other(value)}
        difference = compare(resource, observed)
        if resource.kind == "Condition":
            assert difference == Difference(waiting="it does not hold")
            continue
        assert difference.change is not None
        assert difference.change.action == ("restart" if resource.kind == "Restart" else "update")
        assert len(difference.change.deltas) == 1
        missing = {k: v for k, v in observed.items() if k != name}
        assert compare(resource, missing).change is not None


@pytest.mark.parametrize("resource", BY_ID)
def test_what_cannot_be_seen_is_neither_settled_nor_certain(resource: Resource) -> None:
    """What cannot be observed is unknown with its reason; an error is carried whole; neither is a change."""
    unknown = compare(resource, unobservable("the API is down"))
    assert unknown == Difference(unknown="the API is down")
    error = ResourceError("host-refused", "no", where=resource.id, hint="do").to_json()
    broken = compare(resource, failed(error))
    assert broken == Difference(error=error)
    assert not unknown.settled
    assert not broken.settled


@pytest.mark.parametrize(
    "observed",
    [None, {"sha256": "0" * 64, "mode": "0644", "owner": ["root", "root"], "$hidden": True}],
)
def test_a_secret_is_never_in_a_change(observed: Any) -> None:
    """The change of a secret file shows that it changes, and neither text nor hash."""
    secret = File("/etc/secret", "the secret itself", secrets=("the secret itself",))
    change = compare(secret, observed).change
    assert change is not None
    assert [d.to_json() for d in change.deltas] == [
        {"attribute": "content", "before": "***" if observed else None, "after": "***"}
    ]
    assert "the secret itself" not in json.dumps(change.to_json())
    assert secret.desired()["sha256"] not in json.dumps(change.to_json())


def test_texts_are_shown_before_and_after() -> None:
    """The change of a file or a unit shows both texts; of a file too large to send, both hashes."""
    for resource, name in ((File("/f", "new\n"), "content"), (Unit("u.service", "new\n"), "text")):
        observed = {**resource.desired(), "sha256": "0" * 64}
        change = compare(resource, {**observed, "$text": "old\n"}).change
        assert change is not None
        assert change.deltas == (Delta(name, "old\n", "new\n"),)
        change = compare(resource, observed).change
        assert change is not None
        assert change.deltas == (Delta(name, "sha256 " + "0" * 64, "sha256 " + resource.desired()["sha256"]),)
    change = compare(File("/f", ""), None).change
    assert change is not None
    assert change.deltas == (Delta("content", None, ""),)


def test_an_object_shows_the_fields_that_differ() -> None:
    """The change of an object in the API names its fields, as the API server itself found them."""
    observed = {"in sync": False, "$fields": [["spec.replicas", 1, 2]]}
    change = compare(EACH[11], observed).change
    assert change == Change(EACH[11].id, "update", (Delta("spec.replicas", 1, 2),))


def test_a_stopped_unit_shows_its_state() -> None:
    """The change of a unit that does not run shows the state that systemd tells."""
    unit = Unit("u.service", "")
    change = compare(unit, {**unit.desired(), "running": False, "$state": "failed (failed, oom-kill)"}).change
    assert change is not None
    assert change.deltas == (Delta("running", "failed (failed, oom-kill)", after=True),)


@given(st.dictionaries(st.sampled_from(["mode", "owner", "sha256", "extra"]), st.integers(0, 2)))
def test_settled_is_exactly_equality(observed: dict[str, Any]) -> None:
    """A file is settled exactly where every attribute that must hold is found so."""
    resource = File("/f", "x")
    desired = resource.desired()
    found = {k: desired.get(k, 0) if v == 0 else v for k, v in observed.items()}
    assert compare(resource, found).settled == all(found.get(k) == v for k, v in desired.items())


@pytest.mark.parametrize("resource", BY_ID)
def test_rewritten_files_are_files_of_the_resource(resource: Resource) -> None:
    """Whatever attributes change, only files of the resource are rewritten, and none when nothing changes."""
    for attributes in ([], ["mode"], list(resource.desired()), ["content"], ["text"]):
        rewritten = resource.rewrites(attributes)
        assert set(rewritten) <= set(resource.paths)
        assert not rewritten or attributes
    assert resource.kind not in ("File", "Binary", "Unit", "Certificate", "Token", "KeyPair") or (
        resource.rewrites(["mode"]) == ()
    )
