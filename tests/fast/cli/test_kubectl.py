from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.cli import common
from nidome.cli.kubectl import FLAGS, VALUED, own_options, split
from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _inventories(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    args, rest = split(words)
    return common.inventories(args), rest


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["-n", "kube-system", "get", "pods"],
        ["exec", "-i", "-t", "web", "--", "sh", "-c", "a b"],
        ["-it", "exec", "web"],
        ["apply", "-f", "-"],
        ["get", "--inventory", "x"],
        ["get", "--", "--inventory"],
        ["-i", "exec", "web", "--", "sh"],
        ["get", "-e", "--", "x"],
    ],
)
def test_untouched(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word after ``kubectl`` is kubectl's, options that nidome has elsewhere too."""
    monkeypatch.delenv("NIDOME_INVENTORY", raising=False)
    assert _inventories(words) == (("inventory/nidome",), words)


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["--inventory", "lab", "--", "-n", "x", "get", "pods"], ["-n", "x", "get", "pods"]),
        (["--inventory=lab", "get", "pods", "--", "x"], ["get", "pods", "--", "x"]),
        (["--inventory", "lab"], []),
    ],
)
def test_inventory_first(words: list[str], rest: list[str]) -> None:
    """``--inventory`` as the first word, and a ``--`` after it, are nidome's."""
    assert _inventories(words) == (("lab",), rest)


@pytest.mark.parametrize(
    "words",
    [
        ["--inventory", "lab", "--inventory=site", "--vault-password-file", "p", "--extra-vars", "@v", "get"],
        ["-i", "lab", "-i", "site", "--vault-pass-file", "p", "-e", "@v", "--", "get"],
    ],
)
def test_several_sources(words: list[str]) -> None:
    """Several inventories, variables and vault passwords are named first; by short names before ``--``."""
    args, rest = split(words)
    assert (args.inventory, args.extra_vars, args.vault_password_file) == (["lab", "site"], ["@v"], ["p"])
    assert rest == ["get"]


def test_every_option_of_a_declaration_can_be_given() -> None:
    """Each long option that names a declaration elsewhere does so before kubectl's words too."""
    parser = own_options()
    known = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    assert known == {*VALUED, *FLAGS}


def test_what_is_said_next_can_be_typed(
    unreachable: Path, nidome: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of kubectl's command has the options that were given in its next step."""
    monkeypatch.setattr("nidome.cli.kubectl.program", lambda _: "/bin/false")

    def missing(_: object) -> str:
        raise UsageError("cluster-missing", "no cluster", hint="nidome apply")

    monkeypatch.setattr("nidome.cli.common.administrator", missing)
    _, _, err = nidome("kubectl", "--inventory", str(unreachable), "--extra-vars", "ndots=3", "get", "nodes")
    assert f"next:  nidome apply -i {unreachable} -e 'ndots=***'\n" in err


@pytest.mark.parametrize(
    ("value", "sources"),
    [
        ("lab/a.ini, site", ("lab/a.ini", "site")),
        ("node1,node2:2222,", ("node1,node2:2222,",)),
        ("mine", ("mine",)),
    ],
)
@pytest.mark.parametrize("variable", ["NIDOME_INVENTORY", "ANSIBLE_INVENTORY"])
def test_several_by_environment(
    variable: str, value: str, sources: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commas part several inventories in the environment; a list of hosts stays one."""
    monkeypatch.delenv("NIDOME_INVENTORY", raising=False)
    monkeypatch.setenv(variable, value)
    assert _inventories([]) == (sources, [])


def test_inventory_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """NIDOME_INVENTORY chooses the inventory of every command, and ``--inventory`` wins over it."""
    monkeypatch.setenv("NIDOME_INVENTORY", "mine")
    monkeypatch.setenv("ANSIBLE_INVENTORY", "theirs")
    assert _inventories(["get", "pods"]) == (("mine",), ["get", "pods"])
    assert _inventories(["--inventory", "lab", "version"]) == (("lab",), ["version"])


def test_inventory_without_name() -> None:
    """``--inventory`` as the last word is refused with an example."""
    with pytest.raises(UsageError) as caught:
        split(["--inventory"])
    assert caught.value.code == "inventory-unnamed"
