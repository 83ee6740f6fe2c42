"""How a host is reached: ssh's own command line, and what its refusals are told as."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nidome.engine.transport import AgentConnection, ssh_command
from nidome.errors import TransportError
from nidome.provenance import Origin, Sourced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nidome.model.spec import ClusterSpec

# The last words of OpenSSH 9.2 for a host key that is unknown, and for one that is another than before.
_UNKNOWN = "Host key verification failed."
_CHANGED = (
    "Offending ED25519 key in /root/.ssh/known_hosts:1\n"
    "Host key for 192.168.50.5 has changed and you have requested strict checking.\n"
    "Host key verification failed."
)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a program named ssh on the PATH, which says this and fails as ssh does."""

    def make(words: str) -> None:
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 255\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return make


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (_UNKNOWN, "host-key-unknown", "ssh-keyscan -p 2222 192.168.50.5 >> ~/.ssh/known_hosts"),
        (_UNKNOWN, "host-key-unknown", "StrictHostKeyChecking=accept-new"),
        (_CHANGED, "host-key-changed", "ssh-keygen -R HOST"),
    ],
)
def test_a_host_key_that_is_not_known(
    words: str, code: str, said: str, declared: Callable[..., ClusterSpec], ssh: Callable[[str], None]
) -> None:
    """First contact with a host says how its key becomes known; another key than before is told as that."""
    ssh(words)
    host = declared(ansible_port=2222).hosts[0]
    with pytest.raises(TransportError) as caught:
        AgentConnection(host)
    assert caught.value.code == code
    assert said in caught.value.hint


@pytest.mark.parametrize(("value", "taken"), [("False", True), ("0", True), ("True", False), ("", False)])
def test_host_keys_need_not_be_checked(
    value: str, declared: Callable[..., ClusterSpec], monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """ANSIBLE_HOST_KEY_CHECKING=False has ssh take unknown keys, as it has with Ansible."""
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", value)
    assert ("StrictHostKeyChecking=no" in ssh_command(declared().hosts[0])) == taken


def test_the_inventory_s_arguments_win(declared: Callable[..., ClusterSpec]) -> None:
    """An option of ssh that the inventory sets comes before Nidome's own: ssh takes the first."""
    host = replace(declared().hosts[0], ssh_common_args=Sourced("-o ConnectTimeout=60", Origin("test")))
    command = ssh_command(host)
    assert command.index("ConnectTimeout=60") < command.index("ConnectTimeout=10")
