"""Certificates of the cluster's own authority, key pairs and generated tokens.

Keys are made on the host that uses them and never leave it. Made and read by the host's ``openssl``;
what it says of a file is kept until the file changes.
"""

from __future__ import annotations

import base64
import calendar
import contextlib
import os
import secrets
import string
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Collection, Dict, FrozenSet, List, Sequence, Tuple

from nidome.agent.resources.base import Observed, PathResource, Resource
from nidome.agent.system import mode_of, open_file, run, state_of, work_directory, write_whole

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = [
    "Certificate",
    "KeyPair",
    "Token",
    "apply_certificate",
    "apply_pair",
    "apply_token",
    "is_issued_by",
    "observe_certificates",
    "observe_pairs",
    "observe_tokens",
    "remove_files",
]

_DAY = 86400
_READERS = 4
_KEY_BEGIN, _KEY_END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
# DER of the curve's name and of a public key up to its point; the size of a PKCS #8 key with its point.
_P256 = bytes.fromhex("06082a8648ce3d030107")
_P256_PUBLIC = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
_P256_KEY_SIZE = 138
_USAGES = {"client": "clientAuth", "server": "serverAuth"}
_SHOWN_USAGES = {"TLS Web Client Authentication": "client", "TLS Web Server Authentication": "server"}
_ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Certificate(Resource):
    """``path`` is a certificate with this subject, issued by ``ca`` (itself where ``ca`` is empty).

    ``names`` are subject alternative names as ``IP:…`` and ``DNS:…``; ``usages`` are ``client`` and
    ``server``. It is due again ``renew_days`` before its end; its key stays as long as it matches.
    """

    kind: ClassVar[str] = "Certificate"
    path: str
    key_path: str
    common_name: str
    organizations: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    usages: Tuple[str, ...] = ()
    ca: str = ""
    ca_key: str = ""
    days: int = 365
    renew_days: int = 30
    mode: str = "0644"
    key_mode: str = "0600"

    @property
    def key(self) -> str:
        """The certificate's path."""
        return self.path

    @property
    def paths(self) -> Tuple[str, ...]:
        """Certificate and key."""
        return (self.path, self.key_path)

    def rewrites(self, attributes: Collection[str]) -> Tuple[str, ...]:
        """Return both unless only their modes are wrong."""
        return self.paths if set(attributes) - {"mode", "key mode"} else ()

    @property
    def reads(self) -> Tuple[str, ...]:
        """The certificate and the key of the authority."""
        return (self.ca, self.ca_key) if self.ca else ()

    def desired(self) -> Dict[str, Any]:
        """Everything that makes it valid for its use."""
        return {
            "subject": sorted([f"CN={self.common_name}", *(f"O={o}" for o in self.organizations)]),
            "names": sorted(self.names),
            "usages": sorted(self.usages),
            "authority": not self.ca,
            "issued by": self.ca or self.path,
            "key matches": True,
            "renewal due": False,
            "days": self.days,
            "mode": self.mode,
            "key mode": self.key_mode,
        }


def _seconds(date: str) -> int:
    return calendar.timegm(time.strptime(date.strip(), "%b %d %H:%M:%S %Y %Z"))


def _describe(path: str) -> Dict[str, Any]:
    """Return what openssl says of a certificate, {} for a file that is none."""
    if not os.path.isfile(path):
        return {}  # openssl would wait for who writes into a pipe
    ext = "subjectAltName,extendedKeyUsage,basicConstraints,authorityKeyIdentifier,subjectKeyIdentifier"
    text = run(
        [
            "openssl",
            "x509",
            "-in",
            path,
            "-noout",
            "-subject",
            "-issuer",
            "-nameopt",
            "sep_multiline,sname,esc_ctrl",
            "-startdate",
            "-enddate",
            "-ext",
            ext,
            "-pubkey",
        ],
        check=False,
    )
    if "notAfter=" not in text:
        return {}
    told: Dict[str, Any] = {
        "subject": [],
        "issuer": [],
        "names": [],
        "usages": [],
        "ca": "CA:TRUE" in text,
        "akid": "",
        "skid": "",
    }
    lines, section = text.splitlines(), "subject"
    for number, line in enumerate(lines):
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        section = line[:-1] if line in ("subject=", "issuer=") else section
        _describe_line(line.strip(), following, section, told)
    begin = text.index("-----BEGIN")
    told["public"] = text[begin : text.index("-----END", begin)].strip()
    told["subject"].sort()
    told["issuer"].sort()
    return told


def _describe_line(line: str, following: str, section: str, told: Dict[str, Any]) -> None:
    if line.startswith(("CN=", "O=")):
        told[section].append(line)
    elif line.startswith("notAfter="):
        told["end"] = _seconds(line[9:])
    elif line.startswith("notBefore="):
        told["begin"] = _seconds(line[10:])
    elif line.startswith("X509v3 Subject Alternative Name"):
        told["names"] = sorted(n.strip().replace("IP Address:", "IP:") for n in following.split(","))
    elif line.startswith("X509v3 Extended Key Usage"):
        told["usages"] = sorted(_SHOWN_USAGES.get(u.strip(), u.strip()) for u in following.split(","))
    elif line.startswith("X509v3 Authority Key Identifier"):
        told["akid"] = following.replace("keyid:", "")
    elif line.startswith("X509v3 Subject Key Identifier"):
        told["skid"] = following


def _public_of(key_path: str) -> str:
    """Return the public half of a private key in PEM, "" where the file holds none.

    Keys of the kind made here carry it at their end (RFC 5915), and it is taken from there: a process of
    openssl for each would be a good part of the time that all certificates take. It answers for the rest.
    """
    try:
        text = _text_of(key_path)
        der = base64.b64decode(
            "".join(text.partition(_KEY_BEGIN)[2].partition(_KEY_END)[0].split()), validate=True
        )
    except (OSError, ValueError):
        der = b""
    if _P256 in der and len(der) == _P256_KEY_SIZE and der[-66:-64] == b"\x00\x04":
        body = base64.b64encode(_P256_PUBLIC + der[-65:]).decode()
        lines = [body[n : n + 64] for n in range(0, len(body), 64)]
        return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines])
    return _public_by_openssl(key_path)


def _public_by_openssl(key_path: str) -> str:
    if not os.path.isfile(key_path):
        return ""
    text = run(["openssl", "pkey", "-in", key_path, "-pubout"], check=False)
    return text[: text.rindex("-----END")].strip() if "-----END" in text else ""


def observe_certificates(resources: Sequence[Certificate], host: Host) -> List[Observed]:
    """Read each certificate, its key and its issuer; each is two processes, so some are read side by side."""
    if all(host.knows("certificate", r.path) for r in resources):
        return [_observe_one(resource, host) for resource in resources]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda r: _observe_one(r, host), resources))


def _observe_one(resource: Certificate, host: Host) -> Observed:
    told = host.learned("certificate", resource.path, _describe)
    if told is None:
        return None
    if not told:
        return {"subject": "not a certificate"}
    ca = resource.ca or resource.path
    issuer = host.learned("certificate", ca, _describe) or {}
    public = host.learned("public-key", resource.key_path, _public_of)
    state: Dict[str, Any] = {name: told[name] for name in ("subject", "names", "usages")}
    state.update(
        {
            "authority": told["ca"],
            "issued by": ca if _issued(told, issuer, own=not resource.ca) else "another authority",
            "key matches": public == told["public"],
            "days": round((told["end"] - told["begin"]) / _DAY),
            "renewal due": time.time() > told["end"] - resource.renew_days * _DAY,
            "mode": mode_of(os.stat(resource.path)),
            "key mode": mode_of(os.stat(resource.key_path)) if public is not None else "absent",
            "$end": told["end"],
        }
    )
    return state


def is_issued_by(path: str, ca: str, host: Host) -> bool:
    """Tell whether a certificate names the authority's key as its issuer's."""
    told = host.learned("certificate", path, _describe)
    issuer = host.learned("certificate", ca, _describe) or {}
    return bool(told) and _issued(told, issuer, own=False)


def _issued(told: Dict[str, Any], issuer: Dict[str, Any], *, own: bool) -> bool:
    """Tell whether a certificate names this issuer and was signed with its key, by their identifiers."""
    if not issuer or told["issuer"] != issuer["subject"]:
        return False
    return bool(told["akid"] == issuer["skid"] or (own and not told["akid"]))


def _extensions(resource: Certificate) -> str:
    if not resource.ca:
        lines = [
            "basicConstraints=critical,CA:TRUE",
            "keyUsage=critical,digitalSignature,keyCertSign,cRLSign",
        ]
    else:
        lines = [
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=critical,digitalSignature",
            "authorityKeyIdentifier=keyid",
        ]
    if resource.usages:
        lines.append("extendedKeyUsage=" + ",".join(_USAGES[u] for u in resource.usages))
    if resource.names:
        lines.append("subjectAltName=" + ",".join(resource.names))
    return "\n".join(["[v3]", *lines, "subjectKeyIdentifier=hash", ""])


def _subject(resource: Certificate) -> str:
    return "".join(f"/O={o}" for o in resource.organizations) + f"/CN={resource.common_name}"


def apply_certificate(resource: Certificate, host: Host) -> None:
    """Make the key where there is none, and issue the certificate."""
    host.ledger.add(resource.kind, resource.key, data={"files": [resource.path, resource.key_path]})
    found = _observe_one(resource, host) or {}
    wrong = [name for name, value in resource.desired().items() if found.get(name) != value]
    if found and not resource.rewrites(wrong):
        os.chmod(resource.path, int(resource.mode, 8))
        os.chmod(resource.key_path, int(resource.key_mode, 8))
        return
    with work_directory() as work:
        key, request, made, extensions = (f"{work}/{n}" for n in ("key", "csr", "crt", "ext"))
        write_whole(extensions, _extensions(resource).encode(), 0o600)
        run(
            ["openssl", "req", "-new", *_key_for(resource, key), "-subj", _subject(resource), "-out", request]
        )
        signer = ["-CA", resource.ca, "-CAkey", resource.ca_key] if resource.ca else ["-signkey", key]
        serial = "0x" + secrets.token_hex(16)
        run(
            [
                "openssl",
                "x509",
                "-req",
                "-in",
                request,
                *signer,
                "-set_serial",
                serial,
                "-days",
                str(resource.days),
                "-sha256",
                "-extfile",
                extensions,
                "-extensions",
                "v3",
                "-out",
                made,
            ]
        )
        for source, target, mode in (
            (key, resource.key_path, resource.key_mode),
            (made, resource.path, resource.mode),
        ):
            _put(source, target, int(mode, 8))


def _put(source: str, target: str, mode: int) -> None:
    """Give a file another's content and this mode; one that has both is not touched."""
    content, wanted = _text_of(source), f"{mode:04o} root:root"
    if state_of(target) != wanted or _text_of(target) != content:
        write_whole(target, content.encode(), mode, durable=True)


def _key_for(resource: Certificate, work: str) -> List[str]:
    """Return the arguments for a request with the present key, or with a new one where there is none."""
    write_whole(work, b"", 0o600)
    if os.path.exists(resource.key_path) and _public_of(resource.key_path):
        write_whole(work, _text_of(resource.key_path).encode(), 0o600)
        return ["-key", work]
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", work]


def _new_key(path: str) -> None:
    write_whole(path, b"", 0o600)
    run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path])


@dataclass(frozen=True)
class KeyPair(Resource):
    """``private_path`` is a private key, ``public_path`` its public half (for service-account tokens)."""

    kind: ClassVar[str] = "KeyPair"
    private_path: str
    public_path: str
    mode: str = "0600"

    @property
    def key(self) -> str:
        """The private key's path."""
        return self.private_path

    @property
    def paths(self) -> Tuple[str, ...]:
        """Both files."""
        return (self.private_path, self.public_path)

    def rewrites(self, attributes: Collection[str]) -> Tuple[str, ...]:
        """Return both where the private key is of no use, else the public one where that is another's."""
        if "usable" in attributes:
            return self.paths
        return (self.public_path,) if "matches" in attributes else ()

    def desired(self) -> Dict[str, Any]:
        """Return that they belong together, and that only root reads the private one."""
        return {"usable": True, "matches": True, "mode": self.mode}


def observe_pairs(resources: Sequence[KeyPair], host: Host) -> List[Observed]:
    """Compare the halves."""
    found: List[Observed] = []
    for resource in resources:
        public = host.learned("public-key", resource.private_path, _public_of)
        if public is None:
            found.append(None)
            continue
        kept = host.learned("text", resource.public_path, _text_of) or ""
        found.append(
            {
                "usable": bool(public),
                "matches": bool(public) and kept.startswith(public),
                "mode": mode_of(os.stat(resource.private_path)),
            }
        )
    return found


def _text_of(path: str) -> str:
    with open_file(path) as source:
        return source.read().decode(errors="replace")


def apply_pair(resource: KeyPair, host: Host) -> None:
    """Make a new pair only where there is no usable private key: tokens signed by it would end."""
    host.ledger.add(
        resource.kind, resource.key, data={"files": [resource.private_path, resource.public_path]}
    )
    usable = os.path.exists(resource.private_path) and _public_of(resource.private_path)
    if not usable:
        with work_directory() as work:
            _new_key(f"{work}/key")
            with open(f"{work}/key", "rb") as source:
                write_whole(resource.private_path, source.read(), int(resource.mode, 8), durable=True)
    os.chmod(resource.private_path, int(resource.mode, 8))
    public = run(["openssl", "pkey", "-in", resource.private_path, "-pubout"])
    if not os.path.exists(resource.public_path) or _text_of(resource.public_path) != public:
        write_whole(resource.public_path, public.encode(), 0o644, durable=True)


@dataclass(frozen=True)
class Token(PathResource):
    """``path`` holds a token: a public ``identity``, a dot, and a random secret of ``length`` characters.

    Kubernetes bootstrap tokens are six and sixteen lower-case letters and digits.
    """

    kind: ClassVar[str] = "Token"
    content_attributes: ClassVar[FrozenSet[str]] = frozenset({"identity", "length"})
    identity: str
    length: int = 16
    mode: str = "0600"

    def desired(self) -> Dict[str, Any]:
        """Return its form, and that only root reads it."""
        return {"identity": self.identity, "length": self.length, "mode": self.mode}


def observe_tokens(resources: Sequence[Token], host: Host) -> List[Observed]:
    """Look at the token's form, never at its value."""
    del host
    found: List[Observed] = []
    for resource in resources:
        try:
            identity, _, secret = _text_of(resource.path).strip().partition(".")
            found.append(
                {"identity": identity, "length": len(secret), "mode": mode_of(os.stat(resource.path))}
            )
        except FileNotFoundError:
            found.append(None)
    return found


def apply_token(resource: Token, host: Host) -> None:
    """Make a token where there is none of the right form."""
    host.ledger.add(resource.kind, resource.key, data={"files": [resource.path]})
    found = observe_tokens([resource], host)[0] or {}
    if (found.get("identity"), found.get("length")) == (resource.identity, resource.length):
        os.chmod(resource.path, int(resource.mode, 8))
        return
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(resource.length))
    write_whole(resource.path, f"{resource.identity}.{secret}".encode(), int(resource.mode, 8), durable=True)


def remove_files(entry: Dict[str, Any], host: Host) -> None:
    """Remove the files that were made."""
    del host
    for path in entry["data"]["files"]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
