from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nidome.cli.common import write_file
from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_WITH_INVENTORY = (
    ("plan",),
    ("apply",),
    ("status",),
    ("logs", "kubelet"),
    ("kubectl", "get", "nodes"),
    ("kubeconfig",),
    ("reset", "--yes"),
    ("down",),
)
_WITH_HOST = (("status",), ("logs", "kubelet"), ("kubeconfig",), ("reset", "--yes"))


@pytest.mark.parametrize("words", _WITH_INVENTORY, ids=lambda words: words[0])
def test_no_inventory(words: tuple[str, ...], nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A command that needs an inventory says where there is none, and how to get one."""
    code, out, err = nidome(*words)
    assert (code, out) == (1, "")
    assert err.startswith("error[inventory-missing]: there is no inventory at inventory/nidome\n")
    assert "  next:  nidome " in err


@pytest.mark.parametrize("name", ["", " "])
def test_an_inventory_without_a_name(name: str, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """An empty name of an inventory, such as an empty shell variable, is not the working directory."""
    code, _, err = nidome("plan", "-i", name)
    assert (code, err.splitlines()[0]) == (1, f"error[inventory-missing]: there is no inventory at '{name}'")


@pytest.mark.parametrize("words", _WITH_HOST, ids=lambda words: words[0])
def test_host_down(
    words: tuple[str, ...], unreachable: Path, nidome: Callable[..., tuple[int, str, str]]
) -> None:
    """A command that needs a host which does not answer names the host, the reason and what to try."""
    del unreachable
    code, _, err = nidome(*words)
    assert code == 1
    assert err.startswith("error[host-unreachable]: ssh: connect to host 127.0.0.1 port 1")
    assert "\n  where: node1\n" in err
    assert "\n  next:  try: ssh " in err


def test_kubectl_host_down(
    unreachable: Path, nidome: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubectl is not started for a cluster whose host does not answer."""
    del unreachable
    monkeypatch.setattr("nidome.cli.kubectl.program", lambda _: "/bin/false")
    code, _, err = nidome("kubectl", "get", "nodes")
    assert code == 1
    assert err.startswith("error[host-unreachable]")


def test_unknown_host_of_logs(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Logs of a host that the inventory does not have are refused, and those that it has are named."""
    del unreachable
    code, _, err = nidome("logs", "kubelet", "--host", "node9")
    assert code == 1
    assert err.startswith("error[host-unknown]: no host 'node9' in the inventory")
    assert "hosts: node1" in err


@pytest.mark.parametrize("count", ["-3", "x", "1.5", ""])
def test_wrong_line_count(count: str, unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A number of lines that is none is bad usage."""
    del unreachable
    code, _, err = nidome("logs", "kubelet", f"--lines={count}")
    assert code == 1
    assert f"'{count}' is not a number of lines" in err


def test_reset_asks(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A reset without a terminal and without --yes changes nothing and records nothing."""
    code, _, err = nidome("reset")
    assert code == 1
    assert err.startswith("error[confirmation-missing]")
    assert "nidome reset --yes" in err
    assert not (unreachable.parent.parent / "state").exists()


def test_no_such_run(nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A run that is not recorded is said not to be, also where nothing is recorded at all."""
    for name in ("last", "2026"):
        code, _, err = nidome("runs", "show", name)
        assert code == 1
        assert err.startswith(f"error[run-unknown]: no record of a run '{name}'")


@pytest.mark.parametrize("value", ["[", "{{a}}", "&a *a", "!!python/object:os.system x", "\x01", "9" * 5000])
def test_spoilt_extra_variable(
    value: str, unreachable: Path, nidome: Callable[..., tuple[int, str, str]]
) -> None:
    """A value of -e that is not one of its variable is refused, with the command line as its place."""
    del unreachable
    code, out, err = nidome("plan", "-e", f"kube_version={value}")
    assert (code, out) == (1, "")
    assert err.startswith("error[")
    assert "\n  where: -e\n" in err or "\n  where: command line\n" in err


@pytest.mark.parametrize("text", ["", "[]", "NaN", "{}", '{"hosts": []}', "[" * 100_000, "\0"])
def test_spoilt_plan(
    text: str, unreachable: Path, place: Path, nidome: Callable[..., tuple[int, str, str]]
) -> None:
    """A file that is not a plan is refused before any host is asked."""
    del unreachable
    (place / "plan.json").write_text(text, encoding="utf-8")
    code, out, err = nidome("apply", "plan.json")
    assert (code, out) == (1, "")
    assert err.startswith("error[plan-unreadable]: cannot read the plan: ")


def test_file_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is a directory is refused, the one of no name too; nothing is left beside it."""
    directory = tmp_path / "directory"
    directory.mkdir()
    monkeypatch.chdir(directory)
    for path in (directory, Path()):
        with pytest.raises(UsageError, match="cannot write"):
            write_file(path, "")
    assert list(tmp_path.rglob("*")) == [directory]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, place: Path) -> None:
    """A command whose input, output or error stream the caller closed ends with its own exit code."""
    for words, code in (("--version", 0), ("plan", 1), ("no-such-command", 1)):
        script = f"exec {sys.executable} -m nidome.cli.main {words} {closed}"
        done = subprocess.run(["sh", "-c", script], cwd=place, check=False, capture_output=True, text=True)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
