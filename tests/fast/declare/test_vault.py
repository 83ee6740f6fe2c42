"""Encrypted values and files: made by ansible-vault's own code, read by Nidome."""

from __future__ import annotations

import importlib
import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.agent.hiding import hide
from nidome.agent.resources.unit import Unit
from nidome.declare.inventory import read_inventory
from nidome.declare.passwords import make_vault
from nidome.declare.resolve import declare, load
from nidome.declare.vault import NO_VAULT, Password, Vault
from nidome.engine.diff import Change, Delta
from nidome.engine.masking import masked, masking
from nidome.errors import DeclarationError, NidomeError, UsageError
from nidome.events import Event, TaskFinished
from nidome.model.spec import because
from nidome.prove.origins import origins
from nidome.roles.playbook import CLUSTER, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nidome.roles.base import HostContext

    Make = Callable[[Mapping[str, str]], Path]

_PASSWORD = "swordfish"  # noqa: S105 - of the tests' own vaults


def _sealed(text: str, label: str = "default", password: str = _PASSWORD) -> str:
    vault = importlib.import_module("ansible.parsing.vault")
    secret = vault.VaultSecret(password.encode())
    return str(vault.VaultLib([(label, secret)]).encrypt(text, secret, label).decode())


def _value(name: str, text: str, **how: str) -> str:
    return f"{name}: !vault |\n{textwrap.indent(_sealed(text, **how), '  ')}"


def _vault(*passwords: str) -> Vault:
    return Vault([Password("default", password.encode) for password in passwords or (_PASSWORD,)])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_what_ansible_vault_encrypts_is_opened(text: str) -> None:
    """Every text that ansible-vault encrypts comes out as it went in."""
    assert _vault().open(_sealed(text), "f") == text


@pytest.mark.parametrize("label", ["default", "prod"])
def test_both_headers(label: str) -> None:
    """Values with a label (1.2) and without one (1.1) are opened, whatever the password's own label is."""
    text = _sealed("x", label)
    assert text.split(";")[1] == {"default": "1.1", "prod": "1.2"}[label]
    assert _vault().open(text, "f") == "x"


def test_the_password_of_the_label_is_tried_first() -> None:
    """Of several passwords the one with the value's label is taken, and others are not even asked for."""
    asked: list[str] = []

    def password(label: str, text: bytes) -> Password:
        def load() -> bytes:
            asked.append(label)
            return text

        return Password(label, load)

    vault = Vault([password("dev", b"wrong"), password("prod", _PASSWORD.encode())])
    assert vault.open(_sealed("x", "prod"), "f") == "x"
    assert vault.open(_sealed("x", "prod"), "f") == "x"
    assert asked == ["prod"]
    assert vault.open(_sealed("y", "other"), "f") == "y"
    assert asked == ["prod", "dev"]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


_GOOD = _sealed("x")
_BAD: dict[str, tuple[str, str]] = {
    "the wrong password": (_sealed("x", "default", "other"), "vault-password-wrong"),
    "a digit is another": (_GOOD[:200] + ("0" if _GOOD[200] != "0" else "1") + _GOOD[201:], "vault-"),
    "no hexadecimal": (_lines(_GOOD)[0] + "xyz\n", "vault-damaged"),
    "half a byte": (_GOOD.rstrip()[:-1], "vault-damaged"),
    "only a header": (_lines(_GOOD)[0], "vault-damaged"),
    "an old cipher": (_GOOD.replace("1.1;AES256", "1.0;AES"), "vault-damaged"),
    "a coming version": (_GOOD.replace("1.1;", "1.9;"), "vault-damaged"),
    "no header": ("secret\n", "vault-damaged"),
    "nothing": ("", "vault-damaged"),
}


@pytest.mark.parametrize("case", _BAD)
def test_what_cannot_be_opened_is_an_error_with_its_line(case: str) -> None:
    """A wrong password and damaged text are errors with the place of the value, and never show any of it."""
    text, code = _BAD[case]
    with pytest.raises(DeclarationError) as caught:
        _vault().open(text, "v.yml", 7)
    assert caught.value.code.startswith(code)
    assert caught.value.where == "v.yml:7"
    assert caught.value.hint
    assert _PASSWORD not in caught.value.render()


@given(st.text(alphabet="$ANSIBLE_VAULT;1.2AES56\n0123456789abcdef ", max_size=120))
def test_no_envelope_makes_reading_fail_otherwise(text: str) -> None:
    """Any text in place of an encrypted one is an error of the declaration."""
    with pytest.raises(DeclarationError):
        _vault().open(text, "f")


@pytest.mark.parametrize("name", ["hosts.yaml", "group_vars/all.yml", "host_vars/node1.yml"])
def test_without_a_password_the_place_is_named(name: str, inventory: Make) -> None:
    """Where no password is given, the error names the encrypted file and how to give one."""
    root = inventory({name: _sealed("a: 1\n")})
    with pytest.raises(DeclarationError) as caught:
        read_inventory(root)
    assert (caught.value.code, caught.value.where) == ("vault-password-missing", f"{root}/{name}")
    assert "--vault-password-file" in caught.value.hint


def test_an_encrypted_value_is_typed_and_never_shown(inventory: Make) -> None:
    """A variable reads an encrypted value by its own type, and no reason for a change shows it."""
    files = {
        "group_vars/all.yml": _value("kube_config_dir", "/etc/hidden"),
        "host_vars/node1.yml": "x: 1\n" + _value("kubelet_max_pods", "77"),
        "group_vars/k8s_cluster.yml": _sealed("kube_log_level: 5\n"),
    }
    root = inventory(files)
    spec, _ = load(root, vault=_vault())
    assert (spec.kubelet_max_pods.value, spec.kube_log_level.value) == (77, 5)
    assert because(spec, "kubelet_max_pods", "kube_log_level", "kube_config_dir", "kube_cert_dir") == (
        f"kubelet_max_pods = *** ({root}/host_vars/node1.yml:2, host_vars/node1.yml)",
        f"kube_log_level = *** ({root}/group_vars/k8s_cluster.yml:1, group_vars/k8s_cluster.yml)",
        f"kube_config_dir = *** ({root}/group_vars/all.yml:1, group_vars/all.yml)",
        f"kube_cert_dir = *** ({root}/group_vars/all.yml:1, from kube_config_dir)",
    )
    assert spec.secrets >= {"77", "5", "/etc/hidden", "/etc/hidden/ssl"}


def test_what_a_template_makes_of_a_secret_is_one(inventory: Make) -> None:
    """A template that uses what is encrypted, directly, through others or of a host, gives a secret."""
    files = {
        "group_vars/all.yml": _value("base", "hidden")
        + "middle: '{{ base }}x'\n"
        + "kube_config_dir: '/etc/{{ middle }}'\n"
        + "bin_dir: \"/opt/{{ hostvars['node1'].base }}\"\n"
        + "kubelet_max_pods: '{{ base | length }}'\n"
        + "kube_log_level: '{{ 1 + 2 }}'\n"
    }
    spec, _ = load(inventory(files), vault=_vault())
    assert (spec.kube_config_dir.value, spec.bin_dir.value) == ("/etc/hiddenx", "/opt/hidden")
    names = ("kube_config_dir", "bin_dir", "kubelet_max_pods", "kube_log_level")
    shown = [line.partition(" (")[0].partition(" = ")[2] for line in because(spec, *names)]
    assert shown == ["***", "***", "***", "3"]
    assert {"/etc/hiddenx", "/opt/hidden", "6"} <= spec.secrets


def test_only_the_encrypted_part_is_a_secret(inventory: Make) -> None:
    """What stands beside an encrypted value in one variable is no secret, also where a template uses it."""
    auth = "containerd_registry_auth: [{registry: '{{ r }}', username: user, password: '{{ p }}'}]\n"
    files = {"group_vars/all.yml": _value("p", "hidden-pw") + "r: '10.0.0.2:5000'\n" + auth}
    spec, _ = load(inventory(files), vault=_vault())
    assert spec.secrets == {"hidden-pw"}
    assert because(spec, "containerd_registry_auth")[0].startswith("containerd_registry_auth = *** (")


def test_why_hides_what_was_encrypted_alone(inventory: Make, context_of: Callable[..., HostContext]) -> None:
    """Of a value that was encrypted, why hides the text, and shows the plain ones that it beats."""
    files = {
        "group_vars/all.yml": "kube_log_level: 3\n",
        "group_vars/k8s_cluster.yml": _value("kube_log_level", "4"),
    }
    declaration = declare(inventory(files), vault=_vault())
    answer = origins("kube_log_level", declaration, "node1")
    assert (answer.value, [each.value for each in answer.written]) == ("***", ["***", "3"])
    plays = evaluate(CLUSTER, context_of(declaration.spec))
    resources = [r for play in plays for task in play.tasks for r in task.resources]
    texts = {r.name: hide(r.text, r.secrets) for r in resources if isinstance(r, Unit)}
    assert [name for name, text in texts.items() if "--v=***" in text and "--v=4" not in text] == [
        name for name, text in texts.items() if "--v=" in text
    ]
    assert len([text for text in texts.values() if "--v=***" in text]) > 3


def test_a_template_that_fails_does_not_show_the_secret(inventory: Make) -> None:
    """An error of a template that uses something encrypted names its line and not what it was given."""
    text = _value("base", "hunter2") + 'kubelet_max_pods: "{{ base | to_datetime }}"\n'
    with pytest.raises(DeclarationError) as caught:
        load(inventory({"group_vars/all.yml": text}), vault=_vault())
    assert "hunter2" not in caught.value.render()


_WRONG = {
    "a choice": ("kube_proxy_mode", "hunter2"),
    "a number": ("kubelet_max_pods", "hunter2"),
    "a list": ("upstream_dns_servers", "hunter2"),
    "a mapping": ("eviction_hard", "[hunter2"),
    "an address": ("ip", "hunter2"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_errors_do_not_show_what_is_encrypted(case: str, inventory: Make) -> None:
    """An encrypted value of the wrong type is an error with its line, without the value."""
    name, text = _WRONG[case]
    root = inventory({"group_vars/all.yml": _value(name, text)})
    with pytest.raises(DeclarationError) as caught:
        load(root, vault=_vault())
    assert "hunter2" not in caught.value.render()
    assert caught.value.where == f"{root}/group_vars/all.yml:1"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hosts.ini", "[g]\nn1 hunter2\n"),
        ("hosts.ini", "[g]\nn1 x='hunter2\n"),
        ("group_vars/all.yml", "a: !!int hunter2\n"),
        ("hosts.yaml", "all: {hosts: {h1: hunter2}}\n"),
    ],
)
def test_errors_in_encrypted_files_do_not_show_their_text(name: str, text: str, inventory: Make) -> None:
    """A mistake in an encrypted file is named with its line in the decrypted text, without quoting it."""
    root = inventory({name: _sealed(text)})
    with pytest.raises(DeclarationError) as caught:
        read_inventory(root, vault=_vault())
    assert "hunter2" not in caught.value.render()
    assert caught.value.where.startswith(f"{root}/{name}:")


def test_plans_and_events_hold_no_secret() -> None:
    """What was encrypted is *** in every text of a plan or an event; of a value, both sides are."""
    texts = ("a\ntoken=*** (earlier)\n", "b\ntoken=hunter2\n")
    deltas = (Delta("content", *texts), Delta("spec.x", "older", "hunter2"), Delta("mode", "0600", "0644"))
    change = Change("File:/x", "update", deltas, ("token = hunter2 (f:1)",)).to_json()
    assert masked(change, {"hunter2", "06"}) == {
        "resource": "File:/x",
        "action": "update",
        "deltas": [
            {"attribute": "content", "before": "a\ntoken=*** (earlier)\n", "after": "b\ntoken=***\n"},
            {"attribute": "spec.x", "before": "***", "after": "***"},
            {"attribute": "mode", "before": "0600", "after": "0644"},
        ],
        "because": ["token = *** (f:1)"],
    }
    seen: list[Event] = []
    sink = masking(seen.append, frozenset({"hunter2"}))
    sink(TaskFinished("h", "p", "t", "failed", 0.1, (change,), {"message": "said hunter2"}, at=1.0))
    assert "hunter2" not in str(seen)
    assert "***" in str(seen)


def _password_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def _make(*, ids: tuple[str, ...] = (), files: tuple[str, ...] = (), environment: str = "") -> Vault:
    return make_vault(ids, files, ask=False, from_environment=environment)


def test_passwords_come_from_files_and_programs(tmp_path: Path) -> None:
    """A password file, a program that prints the password, and a client that is told the label all work."""
    plain = _password_file(tmp_path / "plain", f"  {_PASSWORD}\n")
    script = _password_file(tmp_path / "script", f"#!/bin/sh\necho {_PASSWORD}\n", 0o700)
    client = f'#!/bin/sh\ntest "$1 $2" = "--vault-id prod" && echo {_PASSWORD}\n'
    client_file = _password_file(tmp_path / "my-client.sh", client, 0o700)
    vaults: dict[str, Any] = {
        "file": _make(files=(str(plain),)),
        "script": _make(files=(str(script),)),
        "label": _make(ids=(f"dev@{plain}",)),
        "no label": _make(ids=(str(plain),)),
        "client": _make(ids=(f"prod@{client_file}",)),
        "environment": _make(environment=str(plain)),
    }
    opened = {name: vault.open(_sealed("x"), "f") for name, vault in vaults.items()}
    assert opened == dict.fromkeys(vaults, "x")
    assert _make() is NO_VAULT


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        ("\n", 0o600, "vault-password-empty"),
        ("#!/bin/sh\necho\n", 0o700, "vault-password-empty"),
        ("#!/bin/sh\nexit 3\n", 0o700, "program-failed"),
        ("swordfish\n", 0o700, "program-failed"),
        ("#!/nowhere/sh\n", 0o700, "program-failed"),
    ],
)
def test_a_source_without_a_password_is_an_error(text: str, mode: int, code: str, tmp_path: Path) -> None:
    """An empty password and a program that fails or is none are errors that name the source."""
    path = _password_file(tmp_path / "source", text, mode)
    with pytest.raises(NidomeError) as caught:
        _make(files=(str(path),)).open(_sealed("x"), "f")
    assert caught.value.code == code
    assert caught.value.where == str(path)


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password program that does not end is ended after NIDOME_PROGRAM_TIMEOUT seconds."""
    monkeypatch.setenv("NIDOME_PROGRAM_TIMEOUT", "0.2")
    path = _password_file(tmp_path / "slow", "#!/bin/sh\nexec sleep 600\n", 0o700)
    with pytest.raises(DeclarationError) as caught:
        _make(files=(str(path),)).open(_sealed("x"), "f")
    assert (caught.value.code, caught.value.where) == ("program-timeout", str(path))


@pytest.mark.parametrize("text", ["prod@", "@", ""])
def test_a_vault_id_without_a_source_is_bad_usage(text: str) -> None:
    """A --vault-id that names no source is refused before anything is read."""
    with pytest.raises(UsageError) as caught:
        _make(ids=(text,))
    assert re.fullmatch(r"vault-id", caught.value.code)
