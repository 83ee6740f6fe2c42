"""The real openssl makes the files; the cryptography package says what they are."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nidome.agent import system
from nidome.agent.host import Host
from nidome.agent.resources import certificate
from nidome.agent.resources.certificate import Certificate, KeyPair, Token
from nidome.engine.diff import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.agent.resources.base import Resource

FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "Certificate": (certificate.observe_certificates, certificate.apply_certificate),
    "KeyPair": (certificate.observe_pairs, certificate.apply_pair),
    "Token": (certificate.observe_tokens, certificate.apply_token),
}


@pytest.fixture(autouse=True)
def _keys_in_the_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep keys in the making below the test's directory, whoever runs the tests."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(system, "RUN", str(tmp_path / "run"))


@pytest.fixture
def ca(tmp_path: Path) -> Certificate:
    """Return an authority that must be there."""
    return Certificate(str(tmp_path / "ca.crt"), str(tmp_path / "ca.key"), "test-ca", days=3650)


@pytest.fixture
def leaf(tmp_path: Path, ca: Certificate) -> Certificate:
    """Return a certificate for a server and client that must be there."""
    return Certificate(
        str(tmp_path / "leaf.crt"),
        str(tmp_path / "leaf.key"),
        "system:node:node1",
        ("system:nodes", "more"),
        ("DNS:node1", "DNS:kubernetes.default", "IP:10.0.0.1", "IP:127.0.0.1"),
        ("client", "server"),
        ca.path,
        ca.key_path,
    )


def _differences(host: Host, *resources: Resource) -> dict[str, list[str]]:
    """Return by file name what the next process finds to differ."""
    found = {}
    for resource in resources:
        (state,) = FUNCTIONS[resource.kind][0]([resource], host)
        change = compare(resource, state).change
        if change:
            found[Path(resource.key).name] = [d.attribute for d in change.deltas]
    return found


def _apply(host: Host, *resources: Resource) -> None:
    for resource in resources:
        FUNCTIONS[resource.kind][1](resource, host)


def _read(path: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(path).read_bytes())


def _public(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text: bytes = key.public_bytes(serialization.Encoding.DER, form)
    return text


def _key_of(path: str) -> bytes:
    return _public(serialization.load_pem_private_key(Path(path).read_bytes(), None).public_key())


def test_certificates_are_what_is_declared(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """A certificate has the declared subject, names, usages and term, its own key, and a valid chain."""
    _apply(host, ca, leaf)
    made, root = _read(leaf.path), _read(ca.path)
    assert [a.value for a in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [leaf.common_name]
    organizations = [a.value for a in made.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert organizations == ["system:nodes", "more"]
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node1", "kubernetes.default"]
    addresses = [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("127.0.0.1")]
    assert names.get_values_for_type(x509.IPAddress) == addresses
    usages = list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert usages == [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    made.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    assert _public(made.public_key()) == _key_of(leaf.key_path)
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)
    assert made.not_valid_after_utc - made.not_valid_before_utc == dt.timedelta(days=365)
    assert made.serial_number != root.serial_number


def test_a_second_look_finds_nothing_to_do(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """Certificates, key pair and token that were made are left alone by the next run, each byte of them."""
    pair = KeyPair(f"{ca.path}.sa.key", f"{ca.path}.sa.pub")
    token = Token(f"{ca.path}.token", "nidome")
    assert len(_differences(host, ca, leaf, pair, token)) == 4
    _apply(host, ca, leaf, pair, token)
    host.close()
    assert _differences(Host(host.state), ca, leaf, pair, token) == {}
    assert _differences(Host(host.state, forgetful=True), ca, leaf, pair, token) == {}


def test_keys_are_for_root_only(host: Host, tmp_path: Path, ca: Certificate, leaf: Certificate) -> None:
    """Private keys are readable by their owner only, and none is left where they were made."""
    _apply(host, ca, leaf)
    assert {Path(p).stat().st_mode & 0o777 for p in (ca.key_path, leaf.key_path)} == {0o600}
    assert Path(leaf.path).stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("change", "attribute"),
    [
        ({"common_name": "other"}, "subject"),
        ({"organizations": ("system:masters",)}, "subject"),
        ({"names": ("DNS:node2",)}, "names"),
        ({"names": ()}, "names"),
        ({"usages": ("server",)}, "usages"),
        ({"renew_days": 366}, "renewal due"),
        ({"mode": "0600"}, "mode"),
        ({"key_mode": "0640"}, "key mode"),
    ],
)
def test_each_declared_attribute_counts(
    host: Host, ca: Certificate, leaf: Certificate, change: dict[str, Any], attribute: str
) -> None:
    """A change of any declared attribute is seen by its name, and one apply of it is enough."""
    _apply(host, ca, leaf)
    wanted = replace(leaf, **change)
    assert _differences(host, wanted) == {"leaf.crt": [attribute]}
    if attribute != "renewal due":
        _apply(host, wanted)
        assert _differences(host, wanted) == {}


def test_renewal_keeps_the_key(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """A certificate near its end is issued again for the same key, for its whole term from now on."""
    short = replace(leaf, days=10, renew_days=30)
    _apply(host, ca, short)
    key = Path(leaf.key_path).read_bytes()
    assert _differences(host, short) == {"leaf.crt": ["renewal due"]}
    _apply(host, replace(short, days=365))
    assert _differences(host, leaf) == {}
    assert Path(leaf.key_path).read_bytes() == key


def test_a_wrong_mode_costs_no_certificate(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """A wrong mode is mended without issuing anything: no process has to read it again."""
    token = Token(f"{ca.path}.token", "nidome")
    _apply(host, ca, leaf, token)
    files = [ca.path, ca.key_path, leaf.path, leaf.key_path, token.path]
    before = {p: Path(p).read_bytes() for p in files}
    for path in files:
        Path(path).chmod(0o604)
    assert len(_differences(host, ca, leaf, token)) == 3
    _apply(host, ca, leaf, token)
    assert _differences(host, ca, leaf, token) == {}
    assert {p: Path(p).read_bytes() for p in files} == before


def _damage(path: str, content: bytes | None) -> Callable[[], None]:
    def damage() -> None:
        Path(path).unlink() if content is None else Path(path).write_bytes(content)

    return damage


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nMIIB", b"\xff\x00"])
@pytest.mark.parametrize("which", ["path", "key_path"])
def test_damaged_files_are_made_again(
    host: Host, ca: Certificate, leaf: Certificate, which: str, content: bytes | None
) -> None:
    """A certificate or a key that is missing, torn or no such thing is made again, whole and matching."""
    _apply(host, ca, leaf)
    _damage(getattr(leaf, which), content)()
    assert "leaf.crt" in _differences(host, leaf)
    _apply(host, leaf)
    assert _differences(host, ca, leaf) == {}
    _read(leaf.path).verify_directly_issued_by(_read(ca.path))
    assert _public(_read(leaf.path).public_key()) == _key_of(leaf.key_path)


def test_a_kill_between_key_and_certificate_is_resumed(
    host: Host, ca: Certificate, leaf: Certificate
) -> None:
    """A run killed after the new key was written and before its certificate is resumed with that key."""
    _apply(host, ca, leaf)
    other = replace(leaf, path=f"{leaf.path}.2", key_path=f"{leaf.key_path}.2")
    _apply(host, other)
    Path(leaf.key_path).write_bytes(Path(other.key_path).read_bytes())
    assert _differences(host, leaf) == {"leaf.crt": ["key matches"]}
    _apply(host, leaf)
    assert _differences(host, leaf) == {}
    assert Path(leaf.key_path).read_bytes() == Path(other.key_path).read_bytes()


@pytest.mark.parametrize("renamed", [True, False])
def test_a_new_authority_issues_anew(
    host: Host, ca: Certificate, leaf: Certificate, *, renamed: bool
) -> None:
    """When an authority has another key or another name, what it issued before is seen as another's."""
    _apply(host, ca, leaf)
    if renamed:
        _apply(host, replace(ca, common_name="renamed"))
    else:
        Path(ca.key_path).unlink()
        _apply(host, ca)
    assert _differences(host, leaf) == {"leaf.crt": ["issued by"]}
    _apply(host, leaf)
    assert _differences(host, leaf) == {}
    _read(leaf.path).verify_directly_issued_by(_read(ca.path))


def test_a_renewed_authority_keeps_what_it_issued(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """An authority renewed with its key leaves every certificate that it issued valid and untouched."""
    _apply(host, ca, leaf)
    _apply(host, replace(ca, renew_days=4000))
    assert _differences(host, ca, leaf) == {}
    _read(leaf.path).verify_directly_issued_by(_read(ca.path))


def test_key_pairs_keep_their_private_key(host: Host, tmp_path: Path) -> None:
    """A lost public key is derived again: tokens that were signed with the private one stay valid."""
    pair = KeyPair(str(tmp_path / "sa.key"), str(tmp_path / "sa.pub"))
    _apply(host, pair)
    private = Path(pair.private_path).read_bytes()
    public = serialization.load_pem_public_key(Path(pair.public_path).read_bytes())
    assert _public(public) == _key_of(pair.private_path)
    for content in (None, b"", b"another"):
        _damage(pair.public_path, content)()
        assert _differences(host, pair) == {"sa.key": ["matches"]}
        assert pair.rewrites(["matches"]) == (pair.public_path,)
        _apply(host, pair)
        assert _differences(host, pair) == {}
        assert Path(pair.private_path).read_bytes() == private
    _damage(pair.private_path, b"torn")()
    assert _differences(host, pair) == {"sa.key": ["matches", "usable"]}
    _apply(host, pair)
    assert _differences(host, pair) == {}


@pytest.mark.parametrize("content", ["", "nidome", "nidome.short", "other." + "a" * 16])
def test_tokens_of_a_wrong_form_are_made_again(host: Host, tmp_path: Path, content: str) -> None:
    """A token is made where there is none of its form; one of the right form is never replaced."""
    token = Token(str(tmp_path / "token"), "nidome")
    Path(token.path).write_text(content)
    assert _differences(host, token)
    _apply(host, token)
    assert _differences(host, token) == {}
    made = Path(token.path).read_text()
    identity, _, secret = made.partition(".")
    assert (identity, len(secret), secret.isalnum(), secret.lower()) == ("nidome", 16, True, secret)
    _apply(host, token)
    assert Path(token.path).read_text() == made


def test_tokens_are_never_told(host: Host, tmp_path: Path) -> None:
    """What is observed of a token and of keys says nothing of their value."""
    token, pair = Token(str(tmp_path / "t"), "nidome"), KeyPair(str(tmp_path / "k"), str(tmp_path / "p"))
    _apply(host, token, pair)
    secret = Path(token.path).read_text().partition(".")[2]
    told = str([FUNCTIONS[r.kind][0]([r], host) for r in (token, pair)]) + str(host.ledger.made())
    assert secret not in told
    assert "PRIVATE" not in told


def test_a_reset_removes_both_files(host: Host, ca: Certificate, leaf: Certificate) -> None:
    """Removing a certificate removes its key too, and removing it twice is no error."""
    _apply(host, ca, leaf)
    for _ in range(2):
        certificate.remove_files(host.ledger.entries[leaf.id], host)
    assert not Path(leaf.path).exists()
    assert not Path(leaf.key_path).exists()
    assert Path(ca.path).exists()


def test_what_depends_on_an_authority_says_so(ca: Certificate, leaf: Certificate) -> None:
    """A plan can tell that a certificate depends on its authority's files, and an authority on nothing."""
    assert leaf.reads == (ca.path, ca.key_path)
    assert ca.reads == ()


@pytest.mark.usefixtures("promptly")
@pytest.mark.parametrize("place", ["path", "key_path"])
def test_a_pipe_in_a_certificates_place_is_replaced(
    leaf: Certificate, ca: Certificate, host: Host, place: str
) -> None:
    """A pipe in the place of a certificate or of its key is replaced by a file, and then nothing differs."""
    for resource in (ca, leaf):
        certificate.apply_certificate(resource, host)
    os.unlink(getattr(leaf, place))
    os.mkfifo(getattr(leaf, place))
    certificate.apply_certificate(leaf, host)
    assert os.path.isfile(getattr(leaf, place))
    assert compare(leaf, certificate.observe_certificates([leaf], host)[0]).settled


def test_a_key_that_stays_is_not_written_again(leaf: Certificate, ca: Certificate, host: Host) -> None:
    """When only the certificate is issued anew, the key's file is left as it is, its time included."""
    for resource in (ca, leaf):
        certificate.apply_certificate(resource, host)
    before = os.stat(leaf.key_path)
    certificate.apply_certificate(replace(leaf, names=("DNS:another",)), host)
    after = os.stat(leaf.key_path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
