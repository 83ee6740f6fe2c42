"""Ansible Vault: values and whole files that are encrypted with a password, formats 1.1 and 1.2.

An envelope is a header (``$ANSIBLE_VAULT;1.2;AES256;LABEL``) and hexadecimal lines. They hold a salt, an
HMAC-SHA256 and the text, by AES-256 in counter mode; PBKDF2 makes the keys from password and salt. A label
only says which password to try first. What was decrypted is marked secret by those who read it.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, NamedTuple

from nidome.declare.files import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["HEADER", "NO_VAULT", "Password", "Vault"]

HEADER = "$ANSIBLE_VAULT;"
_VERSIONS = ("1.1", "1.2")
_CIPHER = "AES256"
_ROUNDS = 10_000
_KEY, _BLOCK = 32, 16
_SHOWN = 40
_GIVE = "give the password: --vault-password-file FILE, --vault-id LABEL@FILE or --ask-vault-pass"
_ENCRYPT = "encrypt it again: ansible-vault encrypt_string, or ansible-vault encrypt FILE"


class Password(NamedTuple):
    """A password's label, and how to get it: ``load`` is called when the first value needs it."""

    label: str
    load: Callable[[], bytes]


class _Envelope(NamedTuple):
    label: str
    salt: bytes
    mac: bytes
    ciphertext: bytes


class Vault:
    """The passwords of a run. Each is asked for once, and each envelope is opened once."""

    def __init__(self, passwords: Sequence[Password] = ()) -> None:
        self._passwords = tuple(passwords)
        self._loaded: dict[int, bytes] = {}
        self._opened: dict[str, str] = {}

    def open(self, text: str, file: str, line: int = 0) -> str:
        """Return the plain text of an envelope; ``file:line`` is where the errors say it stands."""
        if text not in self._opened:
            envelope = _parse(text, file, line)
            if not self._passwords:
                fail("vault-password-missing", "it is encrypted and no password is given", file, line, _GIVE)
            self._opened[text] = self._decrypt(envelope, file, line)
        return self._opened[text]

    def _decrypt(self, envelope: _Envelope, file: str, line: int) -> str:
        attempts = (_decrypt(envelope, self._load(number)) for number in self._order(envelope.label))
        data = next((attempt for attempt in attempts if attempt is not None), None)
        if data is None:
            tried = ", ".join(dict.fromkeys(password.label for password in self._passwords))
            message = f"no given password opens it (tried: {tried}), or its text is damaged"
            fail("vault-password-wrong", message, file, line, _hint(envelope.label))
        return _text(data, file, line)

    def _order(self, label: str) -> list[int]:
        """Return the passwords in the order in which they are tried: those of the label first."""
        return sorted(range(len(self._passwords)), key=lambda n: self._passwords[n].label != label)

    def _load(self, number: int) -> bytes:
        if number not in self._loaded:
            self._loaded[number] = self._passwords[number].load()
        return self._loaded[number]


NO_VAULT = Vault()
"""For a declaration that no password was given for: what is encrypted in it is an error."""


def _hint(label: str) -> str:
    """Return what to do where no given password is right; ``label`` is the encrypted text's own."""
    named = f" (the label of what is encrypted is {label})" if label else ""
    return f"look at the password that was given; another one: --vault-id {label or 'LABEL'}@FILE{named}"


def _parse(text: str, file: str, line: int) -> _Envelope:
    header, *body = text.split() or [""]
    parts = header.split(";")
    if not header.startswith(HEADER) or len(parts) not in (3, 4):
        fail("vault-damaged", f"it does not begin with {HEADER}", file, line, _ENCRYPT)
    if parts[1] not in _VERSIONS or parts[2] != _CIPHER:
        found = ";".join(parts[1:3])[:_SHOWN]
        message = f"the vault format {found} is not supported, supported: 1.1 and 1.2 with {_CIPHER}"
        fail("vault-damaged", message, file, line, _ENCRYPT)
    try:
        salt, mac, ciphertext = map(binascii.unhexlify, binascii.unhexlify("".join(body)).split(b"\n", 2))
    except ValueError:
        fail("vault-damaged", "what follows the vault header is damaged", file, line, _ENCRYPT)
    return _Envelope(parts[3] if len(parts) > 3 else "", salt, mac, ciphertext)  # noqa: PLR2004 - 1.2 has a label


def _decrypt(envelope: _Envelope, password: bytes) -> bytes | None:
    """Return what the password opens; None where it is not the envelope's."""
    import hashlib  # noqa: PLC0415 - only an encrypted value pays for it
    import hmac  # noqa: PLC0415 - as above

    keys = hashlib.pbkdf2_hmac("sha256", password, envelope.salt, _ROUNDS, 2 * _KEY + _BLOCK)
    mac = hmac.digest(keys[_KEY : 2 * _KEY], envelope.ciphertext, "sha256")
    if not hmac.compare_digest(mac, envelope.mac):
        return None
    from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415 - as above
        Cipher,
        algorithms,
        modes,
    )

    cipher = Cipher(algorithms.AES(keys[:_KEY]), modes.CTR(keys[2 * _KEY :])).decryptor()
    padded = cipher.update(envelope.ciphertext) + cipher.finalize()
    # The HMAC has vouched for the padding (PKCS7).
    return padded[: -padded[-1]] if padded else b""


def _text(data: bytes, file: str, line: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        fail("vault-damaged", "what is encrypted there is not UTF-8 text", file, line, _ENCRYPT)
