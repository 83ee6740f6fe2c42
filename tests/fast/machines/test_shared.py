from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.machines import shared
from nidome.machines.shared import Shared, User

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "fs/inotify/max_user_instances": "128",
    "fs/inotify/max_user_watches": "999999",
    "net/ipv4/conf/eth0/forwarding": "0",
    "kernel/random/boot_id": "boot-1",
    "vm/overcommit_memory": "0",
}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with kernel settings as files, in place of the machine's own."""
    root = tmp_path / "sys"
    for name, value in SETTINGS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{value}\n", encoding="utf-8")
    monkeypatch.setattr(shared, "_SYSCTL", root)
    monkeypatch.setattr(shared, "_BOOT_ID", root / "kernel/random/boot_id")
    monkeypatch.setattr(shared, "_RUN", tmp_path)
    monkeypatch.setattr(shared, "_HOME", tmp_path / "nidome")
    monkeypatch.setattr(shared, "_RECORD", tmp_path / "nidome/machines.json")
    return root


def _value(kernel: Path, name: str) -> str:
    return (kernel / name).read_text(encoding="utf-8").strip()


def test_settings_return(kernel: Path) -> None:
    """Settings are raised, never lowered, and have their values from before when the last host goes."""
    with shared.opened() as record:
        record.users["/m"] = User(0, "10.61.0.0/24")
        shared.take_over(record, ["eth0", "gone0"])
    assert _value(kernel, "fs/inotify/max_user_instances") == "8192"
    assert _value(kernel, "fs/inotify/max_user_watches") == "999999"
    assert _value(kernel, "net/ipv4/conf/eth0/forwarding") == "1"
    (kernel / "vm/overcommit_memory").write_text("1", encoding="utf-8")  # a kubelet in a host
    with shared.opened() as record:
        assert record.users == {"/m": User(0, "10.61.0.0/24")}
        shared.take_over(record, ["eth0"])  # a second host does not take our values for those from before
        shared.restore(record)
        record.users.clear()
        record.save()
    assert {name: _value(kernel, name) for name in SETTINGS} == SETTINGS
    assert not (kernel.parent / "nidome").exists()


def test_others_change_stays(kernel: Path) -> None:
    """A setting that somebody else has raised further meanwhile is left as they set it."""
    record = Shared(users={"/m": User(0, "10.61.0.0/24")})
    shared.take_over(record, [])
    (kernel / "fs/inotify/max_user_instances").write_text("20000", encoding="utf-8")
    shared.restore(record)
    assert _value(kernel, "fs/inotify/max_user_instances") == "20000"


def test_vanished_setting(kernel: Path) -> None:
    """A setting of a link that is gone does not keep the others from returning."""
    record = Shared(users={"/m": User(0, "10.61.0.0/24")})
    shared.take_over(record, ["eth0"])
    (kernel / "net/ipv4/conf/eth0/forwarding").unlink()
    shared.restore(record)
    assert _value(kernel, "fs/inotify/max_user_instances") == "128"


def test_restart_of_the_machine(kernel: Path) -> None:
    """What was noted before a restart of the machine is void after it."""
    record = Shared(users={"/m": User(0, "10.61.0.0/24")})
    shared.take_over(record, [])
    (kernel / "kernel/random/boot_id").write_text("boot-2\n", encoding="utf-8")
    with shared.opened() as found:
        assert found == Shared()
