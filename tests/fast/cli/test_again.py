"""Next steps that can be typed as they stand."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from nidome.cli.again import completed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Nidome = Callable[..., tuple[int, str, str]]


def _next(err: str) -> list[str]:
    found = re.search(r"next:  (nidome .*)", err)
    assert found, err
    return shlex.split(found[1])


@pytest.mark.parametrize("command", [("reset",), ("playbook", "reset.yml")])
def test_a_reset_names_its_own_inventory(command: tuple[str, ...], unreachable: Path, nidome: Nidome) -> None:
    """What a reset without a terminal says to type has every option that was given, and asks no more."""
    extra = unreachable.parent / "extra.yml"
    extra.write_text("ndots: 3\n", encoding="utf-8")
    given = ["-i", str(unreachable), "-i", "node9,", "-e", f"@{extra}", "--vault-password-file", "a b"]
    code, _, err = nidome(*command, *given)
    assert (code, "confirmation-missing" in err) == (1, True)
    words = _next(err)
    assert words[: len(command) + len(given) + 1] == ["nidome", *command, *given]
    _, _, err = nidome(*words[1:])
    assert "confirmation-missing" not in err


def test_a_reset_keeps_to_its_hosts(unreachable: Path, nidome: Nidome) -> None:
    """A reset of some hosts names those, and its next step is limited to them too."""
    _, _, err = nidome("playbook", "-i", f"{unreachable}", "-i", "spare,", "reset.yml", "--limit", "node1")
    assert "its data from node1, and" in err
    assert "--limit node1" in err


def test_a_reset_that_is_declined(unreachable: Path, nidome: Nidome) -> None:
    """-e reset_confirmation=no is told as what it is, with the command that confirms."""
    code, out, err = nidome("playbook", "-i", str(unreachable), "reset.yml", "-e", "reset_confirmation=no")
    assert (code, out) == (1, "")
    assert err.startswith("error[reset-declined]: the reset is not confirmed: reset_confirmation is 'no'")
    assert _next(err)[-1] == "reset_confirmation=yes"
    assert "=no" not in _next(err)


@pytest.mark.usefixtures("unreachable")
def test_a_masked_value_is_not_taken_for_one(nidome: Nidome) -> None:
    """``***``, which stands for a value in what Nidome prints, is refused as a value of -e."""
    code, _, err = nidome("plan", "-e", "cluster_name=***")
    assert code == 1
    assert err.startswith("error[extra-vars]: *** stands for a value of cluster_name that is not shown")


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("nidome apply", "nidome apply -i 'my lab'"),
        ("run `nidome apply --take-over` to own", "run `nidome apply -i 'my lab' --take-over` to own"),
        ("nidome logs kubelet says why", "nidome logs -i 'my lab' kubelet says why"),
        ("nidome playbook -i INVENTORY cluster.yml", "nidome playbook -i 'my lab' cluster.yml"),
        ("nidome kubectl get nodes", "nidome kubectl --inventory 'my lab' -- get nodes"),
        ("nidome down -i other; or", "nidome down -i other; or"),
        ("nidome runs list", "nidome runs list"),
    ],
)
def test_hints_have_the_inventory(hint: str, shown: str) -> None:
    """A command in a next step is given the inventory, unless it names one or needs none."""
    args = argparse.Namespace(inventory=["my lab"], extra_vars=[])
    assert completed(hint, args) == shown
    assert completed(hint, argparse.Namespace(inventory=None, extra_vars=[])) == hint


def test_hints_have_the_vault() -> None:
    """The vault's options are repeated also where no inventory was named."""
    args = argparse.Namespace(vault_id=["x@prompt"], vault_password_file=["pw"])
    assert completed("nidome apply", args) == "nidome apply --vault-id x@prompt --vault-password-file pw"


@pytest.mark.parametrize(("name", "said"), [("nodir", "counts from"), ("/nowhere/lab", "ls /nowhere")])
def test_a_named_inventory_that_is_missing(name: str, said: str, place: Path, nidome: Nidome) -> None:
    """Where -i names nothing, the next step is to look for it, not to name it with -i."""
    del place
    code, _, err = nidome("plan", "-i", name)
    assert code == 1
    assert said in err
    assert "with -i" not in err


def test_the_environment_that_names_it_is_named(
    place: Path, nidome: Nidome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing inventory that a variable names is told with the variable's name."""
    del place
    monkeypatch.setenv("ANSIBLE_INVENTORY", "/nowhere/lab")
    assert "ANSIBLE_INVENTORY names it" in nidome("plan")[2]
