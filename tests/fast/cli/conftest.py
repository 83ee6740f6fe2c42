"""The command line as a person calls it, in a directory of the test's own and without any host."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from nidome.cli.main import main
from nidome.cli.up import write_declaration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with records and machines in it and nobody at a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NIDOME_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NIDOME_MACHINES_DIR", str(tmp_path / "machines"))
    for name in ("NIDOME_INVENTORY", "ANSIBLE_INVENTORY", "ANSIBLE_HOST_KEY_CHECKING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return tmp_path


@pytest.fixture
def inventory(place: Path) -> Path:
    """Return the inventory that ``nidome up`` writes for one host."""
    directory = place / "inventory" / "nidome"
    write_declaration(directory, ["node1"])
    return directory


@pytest.fixture
def unreachable(inventory: Path) -> Path:
    """Return an inventory whose host refuses connections."""
    file = inventory / "host_vars" / "node1" / "mine.yml"
    file.parent.mkdir(parents=True)
    # Nothing listens at the port that TCP reserves for its multiplexer.
    file.write_text("ansible_host: 127.0.0.1\nansible_port: 1\nip: 10.0.0.9\n", encoding="utf-8")
    return inventory


@pytest.fixture
def nidome(place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command and gives its exit code, output and errors."""
    del place

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as leave:
            code = int(leave.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call
