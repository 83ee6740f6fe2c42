"""What the commands share: what a record tells of a command line, and whose a disposable host is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nidome.cli import up
from nidome.cli.background import _stream
from nidome.cli.common import recorded
from nidome.declare.extravars import without_values
from nidome.errors import UsageError
from nidome.prove.records import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("apply", "-e", "password=x y"), ("apply", "-e", "password=***")),
        (("apply", "-epassword=x"), ("apply", "-epassword=***")),
        (("apply", "--extra-vars", "password=x"), ("apply", "--extra-vars", "password=***")),
        (("apply", "--extra-vars=password=x"), ("apply", "--extra-vars=password=***")),
        (("apply", "-t", "etcd", "-l", "node1"), ("apply", "-t", "etcd", "-l", "node1")),
    ],
)
def test_a_record_has_no_values_of_extra_variables(given: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """A record names the variables of the command line and never holds their values."""
    assert without_values(given) == shown


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a disposable host named node1."""
    monkeypatch.setenv("NIDOME_MACHINES_DIR", str(tmp_path / "machines"))
    directory = tmp_path / "machines" / "node1"
    directory.mkdir(parents=True)
    return directory


def test_the_host_of_another_inventory_is_refused(machine: Path, tmp_path: Path) -> None:
    """A host that has the cluster of another inventory is not taken for this one, and the error names it."""
    other = tmp_path / "other"
    other.mkdir()
    (machine / "inventory").write_text(f"{other}\n")
    up._require_own(other, "node1")
    with pytest.raises(UsageError, match=str(other)) as raised:
        up._require_own(tmp_path / "mine", "node1")
    assert raised.value.code == "machine-taken"


def test_the_host_of_a_lost_inventory_is_anybodys(machine: Path, tmp_path: Path) -> None:
    """A host is free for an inventory when that of its cluster is gone, or where it has no cluster."""
    up._require_own(tmp_path / "mine", "node1")
    (machine / "inventory").write_text(f"{tmp_path / 'lost'}\n")
    up._require_own(tmp_path / "mine", "node1")


@pytest.mark.parametrize("error", [BrokenPipeError("gone"), OSError(28, "full"), RuntimeError("x")])
def test_whatever_ends_a_run_is_in_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: Callable[..., ClusterSpec], error: Exception
) -> None:
    """A run that ends with any error, a reader that went away included, is not recorded as killed."""
    monkeypatch.setenv("NIDOME_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(type(error)), recorded(declared(), lambda _: None, ("nidome", "apply")):
        raise error
    meta = find("last").meta
    assert meta["status"] == "aborted"
    assert meta["error"]["message"].startswith(type(error).__name__)


def test_a_full_disk_does_not_end_a_run_in_the_background() -> None:
    """What a run in the background cannot print any more is dropped, and the run goes on."""
    with Path("/dev/full").open("wb") as full:
        stream = _stream(full.fileno())
        for _ in range(3):
            print("x" * 100_000, file=stream)
            stream.flush()
        stream.close()
