"""Where vault passwords come from, as with Ansible: files, programs, pipes, the person at the terminal."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.declare.files import fail, is_executable, read_bytes
from nidome.declare.vault import NO_VAULT, Password, Vault
from nidome.errors import DeclarationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["make_vault"]

_DEFAULT = "default"
_NAME = (
    "name the file that has it: --vault-password-file FILE, --vault-id LABEL@FILE or "
    "ANSIBLE_VAULT_PASSWORD_FILE; --ask-vault-pass has you type it"
)


def make_vault(ids: Sequence[str], files: Sequence[str], *, ask: bool, from_environment: str = "") -> Vault:
    """Return the vault of a run: passwords of ``--vault-id``, then of files, then the one that is asked for.

    ``from_environment`` names a file that is used where no file is given (ANSIBLE_VAULT_PASSWORD_FILE).
    Nothing is read, run or asked before a value needs it.
    """
    chosen = list(files) or ([from_environment] if from_environment else [])
    passwords = [_identity(text) for text in ids]
    passwords += [_source(_DEFAULT, name) for name in chosen]
    passwords += [Password(_DEFAULT, partial(_ask, _DEFAULT))] if ask else []
    return Vault(passwords) if passwords else NO_VAULT


def _identity(text: str) -> Password:
    label, at, source = text.partition("@")
    if not at:
        label, source = _DEFAULT, text
    if not source:
        message = f"'{text}' names no source of a password"
        hint = "for example: --vault-id prod@password-file, or prod@prompt"
        raise UsageError("vault-id", message, where="--vault-id", hint=hint)
    return _source(label or _DEFAULT, source)


def _source(label: str, source: str) -> Password:
    load = partial(_ask, label) if source == "prompt" else partial(_of_file, label, Path(source).expanduser())
    return Password(label, load)


def _of_file(label: str, path: Path) -> bytes:
    if is_executable(path):
        from nidome.declare.programs import run_program  # noqa: PLC0415 - only where there is one to run

        # As with Ansible, a program named SOMETHING-client keeps many passwords and is told which.
        words = ("--vault-id", label) if path.stem.endswith("-client") else ()
        password = run_program(path, *words, interactive=True).strip(b"\r\n")
    else:
        password = _read(path)
    if not password:
        fail(
            "vault-password-empty", "the vault password is empty", str(path), 0, "write the password into it"
        )
    return password


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, pipes=True).strip()
    except DeclarationError as error:
        if error.code == "file-unreadable":
            error.message = f"the vault password: {error.message}"
            error.hint = _NAME
        raise


def _ask(label: str) -> bytes:
    question = "Vault password: " if label == _DEFAULT else f"Vault password ({label}): "
    password = _typed(question).strip()
    if not password:
        hint = "run it at a terminal, or use --vault-password-file FILE"
        raise UsageError(
            "vault-password-empty", "no vault password was typed", where="--ask-vault-pass", hint=hint
        )
    return password.encode()


def _typed(question: str) -> str:
    """Read a line from the terminal without showing it; without a terminal, from what is piped in."""
    import getpass  # noqa: PLC0415 - only where a person is asked

    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.readline()
    try:
        return getpass.getpass(question)
    except EOFError:
        return ""
