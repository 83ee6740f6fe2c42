from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.agent.host import Host
from nidome.agent.resources import kernel
from nidome.agent.resources.kernel import KernelModule, Sysctl
from nidome.engine.diff import compare
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that stands for the kernel's settings."""
    monkeypatch.setattr(kernel, "SETTINGS", str(tmp_path / "sys"))
    (tmp_path / "sys" / "net").mkdir(parents=True)
    return tmp_path / "sys"


@pytest.mark.parametrize(
    ("found", "value", "at_least", "differs"),
    [
        ("1\n", "1", False, False),
        ("0\n", "1", False, True),
        ("2\n", "1", False, True),
        ("128\n", "1024", True, True),
        ("1024\n", "1024", True, False),
        ("4096\n", "1024", True, False),
        ("unlimited\n", "1024", True, True),
        ("4096\t87380\t6291456\n", "4096 87380 6291456", False, False),
    ],
)
def test_settings_are_compared(
    settings: Path, host: Host, found: str, value: str, *, at_least: bool, differs: bool
) -> None:
    """A kernel setting differs by its value; one that must only be large enough is left alone when it is."""
    (settings / "net" / "x").write_text(found)
    wanted = Sysctl("net.x", value, at_least)
    assert compare(wanted, kernel.observe_sysctls([wanted], host)[0]).settled is not differs
    kernel.apply_sysctl(wanted, host)
    assert compare(wanted, kernel.observe_sysctls([wanted], host)[0]).settled


def test_a_reset_puts_the_first_value_back(settings: Path, host: Host) -> None:
    """A reset restores the value from before Nidome, however often it was changed back in between."""
    path = settings / "net" / "x"
    path.write_text("7\n")
    wanted = Sysctl("net.x", "1")
    for drift in ("7\n", "5\n", "3\n"):
        path.write_text(drift)
        kernel.apply_sysctl(wanted, Host(host.state))
    kernel.remove_sysctl(Host(host.state).ledger.entries[wanted.id], host)
    assert path.read_text() == "7"


def test_a_setting_of_a_module_that_is_not_loaded(settings: Path, host: Host) -> None:
    """A setting that the kernel does not have yet is unknown to the plan; setting it then is an error."""
    wanted = Sysctl("net.missing.x", "1")
    difference = compare(wanted, kernel.observe_sysctls([wanted], host)[0])
    assert "net.missing.x" in difference.unknown
    with pytest.raises(ResourceError) as raised:
        kernel.apply_sysctl(wanted, host)
    assert raised.value.code == "sysctl-read-only"
    assert not list(settings.rglob("missing"))


@pytest.mark.parametrize(
    ("module", "available"),
    [
        (KernelModule("always", "/proc/self/status"), True),
        (KernelModule("proc", "proc"), True),
        (KernelModule("none", "/proc/no-such-thing"), False),
        (KernelModule("none", "no-such-file-system"), False),
    ],
)
def test_modules_are_known_by_what_they_bring(host: Host, module: KernelModule, *, available: bool) -> None:
    """A kernel feature counts as there when its path or file system is, built in or loaded."""
    assert compare(module, kernel.observe_modules([module], host)[0]).settled is available
