from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.cli.down import edited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _machine(inventory: Path) -> Path:
    file = inventory / "host_vars" / "node1" / "machine.yml"
    file.parent.mkdir(parents=True)
    file.write_text('ansible_host: "10.61.0.2"\n', encoding="utf-8")
    return file


def test_host_gone_already(inventory: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Where the hosts are gone already, what is left is how to reach them: it goes, the inventory stays."""
    file = _machine(inventory)
    code, out, err = nidome("down")
    assert (code, err) == (0, "")
    assert "kept the inventory inventory/nidome; nidome up makes its cluster anew" in out
    assert not file.exists()
    assert (inventory / "hosts.yaml").exists()
    assert nidome("down")[:2] == (0, "inventory/nidome has no disposable hosts\n" + out)


def test_purge(inventory: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """An inventory that is still as ``up`` wrote it goes with --purge, also after a ``down`` without it."""
    _machine(inventory)
    nidome("down")
    assert nidome("down", "--purge")[0] == 0
    assert not inventory.exists()


def test_purge_keeps_your_work(inventory: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """An inventory that was edited, or has a file of one's own, survives --purge, and the files are named."""
    settings = inventory / "group_vars" / "all" / "etcd.yml"
    settings.write_text(settings.read_text(encoding="utf-8") + "etcd_data_dir: /x\n", encoding="utf-8")
    (inventory / "notes.txt").write_text("mine", encoding="utf-8")
    assert edited(inventory) == ["group_vars/all/etcd.yml", "notes.txt"]
    code, out, _ = nidome("down", "--purge")
    assert code == 0
    assert "with your changes (group_vars/all/etcd.yml, notes.txt)" in out
    assert settings.exists()


def test_purge_of_what_nidome_did_not_write(place: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """An inventory file, a directory of another tool's and one that cannot be read are never removed."""
    file = place / "inventory.ini"
    file.write_text("[kube_node]\nnode1\n", encoding="utf-8")
    directory = place / "other"
    directory.mkdir()
    (directory / "hosts.yaml").write_text("[1, {", encoding="utf-8")
    for inventory in (file, directory):
        code, out, _ = nidome("down", "--purge", "-i", str(inventory))
        assert code == 0
        assert "nidome up" not in out
        assert inventory.exists()
    assert file.read_text(encoding="utf-8") == "[kube_node]\nnode1\n"


def test_the_way_back_names_the_inventory(
    inventory: Path, nidome: Callable[..., tuple[int, str, str]]
) -> None:
    """What makes the cluster anew is said with the inventory that was given."""
    _, out, _ = nidome("down", "-i", str(inventory))
    assert f"; nidome up -i {inventory} makes its cluster anew" in out
