"""The options that name a declaration, as a person types them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Nidome = Callable[..., tuple[int, str, str]]

_PROGRAM = Path(sys.executable).parent / "nidome"


def _run(place: Path, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program; a command that waits for ever fails the test. It has no terminal to ask at."""
    return subprocess.run(
        [str(_PROGRAM), *words],
        cwd=place,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )


def _said(done: subprocess.CompletedProcess[str], code: str, where: str) -> None:
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"error[{code}]: "), done.stderr
    assert f"\n  where: {where}\n  next:  " in done.stderr


def _host_down(done: subprocess.CompletedProcess[str]) -> None:
    """Require that the declaration was read: the next thing is that its host does not answer."""
    assert "error[host-unreachable]" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["pipe", "pipe/x", "."])
def test_plan_does_not_wait_for_an_inventory(name: str, place: Path) -> None:
    """A pipe in place of the inventory, or in its directory, is told at once."""
    os.mkfifo(place / "pipe")
    done = _run(place, "plan", "-i", name)
    assert done.returncode == 1
    assert done.stderr.startswith("error[")


def test_apply_does_not_wait_for_a_plan(unreachable: Path, place: Path) -> None:
    """A pipe in place of a plan file is refused as what it is."""
    os.mkfifo(place / "plan.json")
    _said(_run(place, "apply", "-i", str(unreachable), "plan.json"), "plan-unreadable", "plan.json")


def test_plan_does_not_read_a_device(place: Path) -> None:
    """An endless device in place of the inventory is refused."""
    _said(_run(place, "plan", "-i", "/dev/zero"), "file-irregular", "/dev/zero")


def test_several_inventories(unreachable: Path, place: Path) -> None:
    """Several -i are one declaration: a later file's value is in force."""
    (place / "more/group_vars").mkdir(parents=True)
    (place / "more/hosts.ini").write_text("[kube_node]\nnode1\n")
    (place / "more/group_vars/k8s_cluster.yml").write_text("kube_proxy_mode: nonsense\n")
    done = _run(place, "plan", "-i", str(unreachable), "-i", "more")
    _said(done, "variable-choice", "more/group_vars/k8s_cluster.yml:1")
    _host_down(_run(place, "plan", "-i", "more", "-i", str(unreachable)))


@pytest.mark.parametrize("command", ["up", "down"])
def test_one_directory(command: str, place: Path) -> None:
    """A command that keeps its inventory in a directory refuses several, before anything is made."""
    done = _run(place, command, "-i", "a", "-i", "b")
    _said(done, "inventory-directory", "-i a -i b")
    assert not (place / "machines").exists()


def test_up_needs_a_directory(unreachable: Path, place: Path) -> None:
    """A file in place of up's directory is refused before a host is made."""
    file = unreachable / "hosts.yaml"
    _said(_run(place, "up", "-i", str(file)), "inventory-directory", f"-i {file}")


def test_extra_variables_from_a_process_substitution(unreachable: Path, place: Path) -> None:
    """What a shell's <(…) gives is read as -e @FILE and as the vault password."""
    sealed = subprocess.run(
        [str(_PROGRAM.parent / "ansible-vault"), "encrypt", "--vault-password-file", "pw", "--output", "-"],
        cwd=place, input="kube_proxy_mode: sealed\n", capture_output=True, text=True, check=True,
        env={**os.environ, "HOME": str(place)},
    ) if (place / "pw").write_text("swordfish") else None  # fmt: skip
    assert sealed
    (place / "sealed.yml").write_text(sealed.stdout)
    command = f"{_PROGRAM} plan -i {unreachable} -e @<(echo 'kube_proxy_mode: piped')"
    for text, where in (
        (command, "/dev/fd/63:1"),
        (f"{_PROGRAM} plan -i {unreachable} -e @sealed.yml --vault-password-file <(cat pw)", "sealed.yml:1"),
    ):
        done = subprocess.run(
            ["bash", "-c", text], cwd=place, capture_output=True, text=True, timeout=60, check=False
        )
        _said(done, "variable-choice", where)
        assert "sealed'" not in done.stderr


def test_the_vault_password_is_asked_for(unreachable: Path, place: Path) -> None:
    """--ask-vault-pass takes the password from what is piped in where there is no terminal."""
    (place / "pw").write_text("swordfish")
    subprocess.run(
        [str(_PROGRAM.parent / "ansible-vault"), "encrypt", "--vault-password-file", "pw",
         str(unreachable / "host_vars/node1/mine.yml")],
        cwd=place, env={**os.environ, "HOME": str(place)}, capture_output=True, check=True,
    )  # fmt: skip
    words = ("plan", "-i", str(unreachable))
    file = unreachable / "host_vars/node1/mine.yml"
    _host_down(_run(place, *words, "--ask-vault-pass", stdin="swordfish\n"))
    _host_down(_run(place, *words, ANSIBLE_VAULT_PASSWORD_FILE="pw"))  # noqa: S106 - a file of the test
    _host_down(_run(place, *words, "--vault-id", "any@pw"))
    _said(_run(place, *words), "vault-password-missing", str(file))
    _said(_run(place, *words, "-J", stdin="wrong\n"), "vault-password-wrong", str(file))
    _said(_run(place, *words, "--ask-vault-pass"), "vault-password-empty", "--ask-vault-pass")
    missing = _run(place, *words, "--vault-password-file", "none")
    _said(missing, "file-unreadable", "none")
    assert "next:  name the file that has it: --vault-password-file FILE" in missing.stderr
    wrong = _run(place, *words, "--vault-password-file", str(file.parent.parent.parent / "hosts.yaml"))
    _said(wrong, "vault-password-wrong", str(file))
    assert "next:  look at the password that was given; another one: --vault-id" in wrong.stderr


def test_records_of_runs_hold_no_secret(unreachable: Path, place: Path) -> None:
    """A run's record has the names of -e and of its files, and neither their values nor encrypted ones."""
    (place / "pw").write_text("swordfish")
    (place / "more.yml").write_text("kube_log_level: 4\n")
    subprocess.run(
        [str(_PROGRAM.parent / "ansible-vault"), "encrypt", "--vault-password-file", "pw",
         str(unreachable / "host_vars/node1/mine.yml")],
        cwd=place, env={**os.environ, "HOME": str(place)}, capture_output=True, check=True,
    )  # fmt: skip
    words = ("-e", "x=hunter2", "-e", '{"y": "hunter3"}', "-e@more.yml", "--vault-password-file=pw")
    done = _run(place, "apply", "-i", str(unreachable), *words)
    assert "host-unreachable" in done.stderr + done.stdout
    texts = [path.read_text() for path in (place / "state").rglob("*") if path.is_file()]
    assert any("more.yml" in text and "x=***" in text for text in texts)
    assert not any("hunter" in text or "10.0.0.9" in text or "127.0.0.1" in text for text in texts)


@pytest.mark.parametrize("words", [("-l", "node9"), ("--limit", "node1,nodes")])
def test_an_unknown_host_in_the_limit(words: tuple[str, ...], unreachable: Path, nidome: Nidome) -> None:
    """A limit that names no host of the inventory is refused, and the hosts that there are are named."""
    code, _, err = nidome("plan", "-i", str(unreachable), *words)
    assert code == 1
    assert err.startswith("error[host-unknown]: no host or group 'node")
    assert "\n  where: --limit\n  next:  " in err
    assert "hosts: node1" in err


_ODD = "kube_owner: somebody\nmetallb_enabled: true\nhelm_enabeld: true\n"


def test_warnings_are_one_line_where_they_are_not_the_subject(unreachable: Path, nidome: Nidome) -> None:
    """A command about something else only says how many warnings there are, and which command shows them."""
    (unreachable / "group_vars" / "all" / "mine.yml").write_text(_ODD, encoding="utf-8")
    said = "warning[declaration-warnings]: there are 3 warnings about the declaration"
    for words in (["why", "bin_dir"], ["status"], ["logs", "etcd"], ["kubeconfig"]):
        _, _, err = nidome(*words, "-i", str(unreachable))
        told = [line for line in err.splitlines() if line.startswith("warning")]
        assert told == [f"{said}: nidome plan -i {unreachable} shows what"]


def test_warnings_are_told_where_a_plan_is_made(unreachable: Path, nidome: Nidome) -> None:
    """Plan tells what is not supported as one block, and what nobody knows with the name that was meant."""
    file = unreachable / "group_vars" / "all" / "mine.yml"
    file.write_text(_ODD, encoding="utf-8")
    place = "inventory/nidome/group_vars/all/mine.yml"
    expected = [
        "2 settings are known, not supported (with --strict, an error):",
        f"  kube_owner ({place}:1): files belong to root",
        f"  metallb_enabled ({place}:2): the addon is not installed",
    ]
    _, _, err = nidome("plan")
    block, lines = "\n".join(expected), err.splitlines()
    assert f"warning[variable-unsupported]: {block}\n" in err
    assert lines[lines.index(expected[-1]) + 1 :][:3] == [
        "warning[variable-unknown]: helm_enabeld is not a variable that anything reads",
        f"  where: {place}:3",
        "  next:  did you mean helm_enabled?",
    ]
    _, _, err = nidome("playbook", "cluster.yml", "--list-tasks")
    assert err.count("\n") == len(expected) + 1
