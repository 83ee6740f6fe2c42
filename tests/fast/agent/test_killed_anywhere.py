"""Kill -9 before each single change that an apply makes to the files of a host, the next run, and a reset."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent import system
from nidome.agent.main import Agent
from nidome.agent.resources.base import Resource, encode
from nidome.agent.resources.binary import Binary
from nidome.agent.resources.certificate import Certificate, KeyPair, Token
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.engine.diff import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PROGRAM = b"\x7fELF a program"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()
OWNER: dict[str, Any] = {
    "owner": pwd.getpwuid(os.geteuid()).pw_name,
    "group": grp.getgrgid(os.getegid()).gr_name,
}
Batches = list[list[Resource]]


def _files(host: Path) -> Batches:
    return [
        [
            Directory(f"{host}/etc/a/b", "0750", owned=True, **OWNER),
            Directory(f"{host}/theirs", "0700", **OWNER),
        ],
        [
            File(f"{host}/etc/a/new", "new", **OWNER),
            File(f"{host}/theirs/config", "ours", "0600", **OWNER),
            File(f"{host}/etc/a/b/once", "once", ownership="create-only", **OWNER),
            File(f"{host}/etc/a/b/secret", "secret", "0600", secrets=("secret",), **OWNER),
        ],
        [Binary(f"{host}/bin/{name}", DIGEST) for name in ("one", "two", "theirs")],
    ]


def _certificates(host: Path) -> Batches:
    pki = f"{host}/etc"
    ca = Certificate(f"{pki}/ca.crt", f"{pki}/ca.key", "ca")
    leaf = Certificate(
        f"{pki}/l.crt", f"{pki}/l.key", "leaf", ("o",), ("DNS:a",), ("server",), ca.path, ca.key_path
    )
    return [[ca], [KeyPair(f"{pki}/sa.key", f"{pki}/sa.pub"), Token(f"{pki}/token", "nidome")], [leaf]]


def _prepare(root: Path) -> Path:
    """Make a host with things of somebody else's on it, and the artifact that is to be installed."""
    shutil.rmtree(root, ignore_errors=True)
    host, blobs = root / "host", root / "state" / "blobs"
    for directory in (host / "etc", host / "bin", host / "theirs", blobs, root / "run"):
        directory.mkdir(parents=True)
    (host / "theirs" / "config").write_text("theirs")
    (host / "bin" / "theirs").write_bytes(b"their program")
    (blobs / DIGEST).write_bytes(PROGRAM)
    return host


def _snapshot(host: Path) -> dict[str, Any]:
    """Return every path with its mode and content; generated secrets stand for themselves."""
    found: dict[str, Any] = {}
    for path in sorted(host.rglob("*")):
        made = path.suffix in (".crt", ".key", ".pub") or path.name == "token"
        content = path.read_bytes() if path.is_file() and not made else None
        found[str(path.relative_to(host))] = (oct(path.stat().st_mode), content)
    return found


def _hashes(host: Path) -> dict[str, str]:
    return {
        str(p): hashlib.sha256(p.read_bytes()).hexdigest() + oct(p.stat().st_mode)
        for p in host.rglob("*")
        if p.is_file()
    }


def _converge(root: Path, batches: Sequence[Sequence[Resource]]) -> list[Resource]:
    """Do what a run does: lock, observe, apply what differs, observe again; return what was changed."""
    agent, changed = Agent("", str(root / "state"), str(root / "lock")), list[Resource]()
    agent.lock("test")
    for batch in batches:
        states = agent.observe([_wire(r) for r in batch])
        pending = [r for r, state in zip(batch, states, strict=True) if compare(r, state).change]
        for resource, result in zip(pending, agent.apply([_wire(r) for r in pending]), strict=True):
            assert "error" not in result, result
            assert compare(resource, result["observed"]).settled, resource.id
        changed += pending
    agent.host.close()
    os.close(agent._lock_file)
    return changed


def _wire(resource: Resource) -> dict[str, Any]:
    wired: dict[str, Any] = json.loads(json.dumps(encode(resource)))
    return wired


def _reset(root: Path) -> None:
    agent = Agent("", str(root / "state"), str(root / "lock"))
    assert not any(agent.remove([e["id"] for e in reversed(agent.ledger())]))


def _killed(root: Path, batches: Batches, moment: int) -> bool:
    """Converge in a process that kills itself before its N-th change; return whether there was one."""
    child = os.fork()
    if child == 0:
        left = [moment]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            mine = event == "subprocess.Popen" or (
                event.startswith(("os.", "open", "shutil.")) and str(arguments[:1]).find(str(root)) >= 0
            )
            if mine:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        _converge(root, batches)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(("scenario", "step"), [(_files, 1), (_certificates, 3)])
def test_a_run_resumes_from_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Path], Batches], step: int
) -> None:
    """A run killed before any change that it makes is resumed to the same end, and reset without a trace."""
    root = tmp_path / "root"
    monkeypatch.setattr(system, "RUN", str(root / "run"))
    host = _prepare(root)
    before, batches = _snapshot(host), scenario(host)
    _converge(root, batches)
    wanted, moment = _snapshot(host), 0
    while True:
        _prepare(root)
        if not _killed(root, batches, moment):
            break
        found = _hashes(host)
        changed = _converge(root, batches)
        touched = {p for p, h in _hashes(host).items() if found.get(p) != h}
        assert touched <= {p for r in changed for p in r.paths}, f"changed without a word at moment {moment}"
        assert _converge(root, batches) == [], f"not settled at moment {moment}"
        assert _snapshot(host) == wanted, f"another end at moment {moment}"
        assert os.listdir(root / "run") == [], f"keys were left at moment {moment}"
        _reset(root)
        assert _snapshot(host) == before, f"a trace was left at moment {moment}"
        moment += step
    assert moment > 20
