from __future__ import annotations

from pathlib import Path

import pytest

from nidome.cli.kubectl import split
from nidome.errors import UsageError

_DEFAULT = Path("inventory/nidome")


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
    ],
)
def test_untouched(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word after ``kubectl`` is kubectl's, options that nidome has elsewhere too."""
    monkeypatch.delenv("NIDOME_INVENTORY", raising=False)
    assert split(words) == (_DEFAULT, words)


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
    assert split(words) == (Path("lab"), rest)


def test_inventory_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """NIDOME_INVENTORY chooses the inventory of every command, and ``--inventory`` wins over it."""
    monkeypatch.setenv("NIDOME_INVENTORY", "mine")
    assert split(["get", "pods"]) == (Path("mine"), ["get", "pods"])
    assert split(["--inventory", "lab", "version"]) == (Path("lab"), ["version"])


def test_inventory_without_name() -> None:
    """``--inventory`` as the last word is refused with an example."""
    with pytest.raises(UsageError) as caught:
        split(["--inventory"])
    assert caught.value.code == "inventory-unnamed"
