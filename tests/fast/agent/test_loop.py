"""The agent as the engine meets it: a process that reads requests from a pipe."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import nidome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = str(Path(nidome.__file__).parent.parent)
PROGRAM = """
import sys
sys.path.insert(0, {source!r})
from nidome.agent.main import main
main("", {state!r}, {lock!r})
"""


class AgentProcess:
    """An agent with its state in a directory of the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        state, lock = str(directory / "state"), str(directory / "lock")
        program = PROGRAM.format(source=SOURCE, state=state, lock=lock)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, data: bytes) -> None:
        """Write to the agent."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Read one answer."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Ask for an operation and return the answer."""
        self.send(json.dumps({"id": 7, "op": operation, **arguments}).encode() + b"\n")
        return self.answer()

    def put(self, content: bytes, digest: str) -> dict[str, Any]:
        """Send an artifact and return the answer."""
        request = {"id": 1, "op": "put", "sha256": digest, "size": len(content)}
        self.send(json.dumps(request).encode() + b"\n" + content)
        return self.answer()

    def end(self) -> bytes:
        """Close the connection and return what the agent said on its standard error."""
        _, said = self.process.communicate(timeout=30)
        return said

    @property
    def blobs(self) -> list[str]:
        """What is in the agent's store of artifacts."""
        store = self.directory / "state" / "blobs"
        return sorted(os.listdir(store)) if store.is_dir() else []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], AgentProcess]]:
    """Return a function that starts an agent; all share one state directory and one lock."""
    started = []

    def one() -> AgentProcess:
        started.append(AgentProcess(tmp_path))
        return started[-1]

    yield one
    for agent in started:
        agent.process.kill()
        agent.process.wait()
        for stream in (agent.process.stdin, agent.process.stdout, agent.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _file(path: Path, me: tuple[str, str], content: str = "x") -> dict[str, Any]:
    return {"kind": "File", "path": str(path), "content": content, "owner": me[0], "group": me[1]}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json\n", "malformed-request"),
        (b"\xff\xfe\n", "malformed-request"),
        (b"\n", "malformed-request"),
        (b"[]\n", "malformed-request"),
        (b"7\n", "malformed-request"),
        (b'{"id": 1, "op": "no-such-operation"}\n', "unknown-operation"),
        (b'{"id": 1, "op": "host"}\n', "unknown-operation"),
        (b'{"id": 1, "op": "_settle"}\n', "unknown-operation"),
        (b'{"id": 1}\n', "unknown-operation"),
        (b'{"id": 1, "op": "observe", "wrong": 1}\n', "agent-fault"),
        (b'{"id": 1, "op": "observe", "resources": [{"kind": "Nonsense"}]}\n', "unknown-kind"),
        (b'{"id": 1, "op": "apply", "resources": 5}\n', "agent-fault"),
    ],
)
def test_a_bad_request_is_answered(start: Callable[[], AgentProcess], line: bytes, code: str) -> None:
    """A request that makes no sense is answered with an error, and the next one is served."""
    agent = start()
    agent.send(line)
    assert agent.answer()["error"]["code"] == code
    assert agent.call("ledger") == {"id": 7, "ok": []}


def test_an_agent_observes_and_applies(start: Callable[[], AgentProcess], tmp_path: Path, me: Any) -> None:
    """What the agent observes after an apply is what was asked for, and the next agent observes the same."""
    agent, wanted = start(), _file(tmp_path / "f", me)
    assert agent.call("observe", resources=[wanted])["ok"] == [None]
    assert "error" not in agent.call("lock", who="test")
    (result,) = agent.call("apply", resources=[wanted])["ok"]
    assert agent.end() == b""
    (found,) = start().call("observe", resources=[wanted])["ok"]
    assert found == result["observed"]
    assert found["sha256"] == hashlib.sha256(b"x").hexdigest()


def test_one_failure_is_only_its_own(start: Callable[[], AgentProcess], tmp_path: Path, me: Any) -> None:
    """A resource that cannot be observed or applied does not keep the others of its kind from it."""
    agent = start()
    (tmp_path / "directory").mkdir()
    wanted = [_file(tmp_path / n, me) for n in ("a", "directory", "missing/parent", "b")]
    wanted[0]["owner"] = "no-such-user"
    first, second, third, fourth = agent.call("observe", resources=wanted)["ok"]
    assert (first, third, fourth) == (None, None, None)
    assert second["$error"]["code"] == "host-refused"
    assert second["$error"]["where"].startswith(f"File:{tmp_path}/directory")
    results = agent.call("apply", resources=wanted)["ok"]
    codes = [r.get("error", {}).get("code") for r in results]
    assert codes == ["owner-unknown", "host-refused", "host-refused", None]
    assert (tmp_path / "b").read_text() == "x"


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_an_artifact_is_received_whole(start: Callable[[], AgentProcess], size: int) -> None:
    """An artifact of any size is there once its hash was right, and is not asked for again."""
    agent, content = start(), b"n" * size
    digest = hashlib.sha256(content).hexdigest()
    assert agent.call("missing", blobs=[digest])["ok"] == [digest]
    assert agent.put(content, digest)["ok"] is None
    assert agent.call("missing", blobs=[digest])["ok"] == []
    assert agent.blobs == [digest]


def test_an_artifact_with_another_hash_is_refused(start: Callable[[], AgentProcess]) -> None:
    """An artifact that arrives with another hash is not kept, and the connection goes on."""
    agent = start()
    assert agent.put(b"content", "0" * 64)["error"]["code"] == "artifact-corrupt"
    assert agent.blobs == []
    assert agent.call("ledger")["ok"] == []


def test_an_artifact_that_cannot_be_written_is_read_to_its_end(
    start: Callable[[], AgentProcess], tmp_path: Path
) -> None:
    """Where an artifact cannot be written, its bytes are not taken for requests, and all goes on."""
    agent = start()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "blobs").mkdir()
    digest = "0" * 64
    (tmp_path / "state" / "blobs" / f".{digest}.nidome-tmp").mkdir()
    answer = agent.put(b'{"id": 9, "op": "ledger"}\n' * 100_000, digest)
    assert answer["error"]["code"] == "host-refused"
    assert agent.call("ledger") == {"id": 7, "ok": []}


def test_a_dropped_connection_leaves_nothing(start: Callable[[], AgentProcess]) -> None:
    """A connection that ends within an artifact leaves no part of it, and the agent ends without a trace."""
    agent = start()
    agent.send(b'{"id": 1, "op": "put", "sha256": "' + b"0" * 64 + b'", "size": 1000}\nhalf')
    said = agent.end()
    assert agent.process.returncode == 0
    assert b"Traceback" not in said
    assert agent.blobs == []


def test_a_killed_transfer_is_swept(start: Callable[[], AgentProcess], tmp_path: Path) -> None:
    """What an agent killed within an artifact left is removed by the next run."""
    agent = start()
    agent.send(b'{"id": 1, "op": "put", "sha256": "' + b"0" * 64 + b'", "size": 1000}\nhalf')
    while not (tmp_path / "state" / "blobs").is_dir() or not agent.blobs:
        time.sleep(0.01)
    agent.process.kill()
    agent.process.wait()
    following = start()
    assert "error" not in following.call("lock", who="next")
    assert following.blobs == []


def test_two_runs_cannot_collide(start: Callable[[], AgentProcess]) -> None:
    """A second run is told who holds the lock of the host; it gets the lock once the first has ended."""
    first, second = start(), start()
    assert "error" not in first.call("lock", who="pid 1 on first")
    assert "error" not in first.call("lock", who="pid 1 on first")
    error = second.call("lock", who="second", patience=0.1)["error"]
    assert error["code"] == "run-locked"
    assert "pid 1 on first" in error["message"]
    first.end()
    assert "error" not in second.call("lock", who="second", patience=20)


def test_a_killed_run_frees_the_lock(start: Callable[[], AgentProcess]) -> None:
    """A kill -9 of an agent frees its lock at once."""
    first, second = start(), start()
    first.call("lock", who="first")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert "error" not in second.call("lock", who="second", patience=0.1)


def test_a_removed_lock_keeps_nobody_in(start: Callable[[], AgentProcess], tmp_path: Path) -> None:
    """After a reset removed the lock, whoever waited for it and whoever comes later exclude each other."""
    first, waiting = start(), start()
    first.call("lock", who="first")
    waiting.send(b'{"id": 1, "op": "lock", "who": "waiting", "patience": 20}\n')
    time.sleep(0.1)
    (tmp_path / "lock").unlink()
    first.end()
    assert "error" not in waiting.answer()
    assert start().call("lock", who="later", patience=0.1)["error"]["code"] == "run-locked"


def test_the_operation_under_way_is_finished(
    start: Callable[[], AgentProcess], tmp_path: Path, me: Any
) -> None:
    """When the connection ends, what was asked for is still done whole before the agent ends."""
    agent = start()
    agent.call("lock", who="test")
    wanted = [_file(tmp_path / f"f{n}", me, "y" * 100_000) for n in range(50)]
    agent.send(json.dumps({"id": 1, "op": "apply", "resources": wanted}).encode() + b"\n")
    assert agent.process.stdin is not None
    assert agent.process.stdout is not None
    agent.process.stdout.close()
    agent.process.stdin.close()
    agent.process.wait(timeout=30)
    assert all((tmp_path / f"f{n}").stat().st_size == 100_000 for n in range(50))
    assert not [n for n in os.listdir(tmp_path) if n.endswith(".nidome-tmp")]


def test_waiting_is_given_up_when_nobody_listens(start: Callable[[], AgentProcess], tmp_path: Path) -> None:
    """An agent that only waits for a condition ends soon after its engine is gone."""
    agent = start()
    condition = {"kind": "Condition", "probe": "socket", "parameters": {"path": str(tmp_path / "never")}}
    agent.send(json.dumps({"id": 1, "op": "apply", "resources": [condition]}).encode() + b"\n")
    time.sleep(0.2)
    agent.end()
    assert agent.process.returncode == 0


@pytest.mark.parametrize("kept", ["", "{", "[1", "5", "[]", '"x"', "[" * 100_000, '{"a": 1}'])
def test_damaged_notes_cost_only_their_meaning(
    start: Callable[[], AgentProcess], tmp_path: Path, kept: str
) -> None:
    """Facts are told even where the note of the last applied values is damaged."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "declared.json").write_text(kept)
    facts = start().call("facts", directories=[str(tmp_path)])["ok"]
    assert facts["declared"] == ({"a": 1} if kept.endswith("}") else {})
    assert facts["writable"] == {str(tmp_path): True}


def test_declared_values_are_kept_however_long(start: Callable[[], AgentProcess]) -> None:
    """The applied values come back whole to the next plan, however long they are."""
    values = {"long": "x" * 200_000, "tuple": [1, 2], "none": None}
    agent = start()
    agent.call("lock", who="test")
    agent.call("declare", values=values)
    assert start().call("facts", directories=[])["ok"]["declared"] == values


def test_removal_is_by_the_ledger(start: Callable[[], AgentProcess], tmp_path: Path, me: Any) -> None:
    """Removing takes away what the ledger says Nidome made, and passes over what it never made."""
    agent = start()
    agent.call("lock", who="test")
    (tmp_path / "theirs").write_text("")
    agent.call("apply", resources=[_file(tmp_path / "ours", me)])
    ids = [f"File:{tmp_path}/ours", f"File:{tmp_path}/theirs"]
    assert agent.call("remove", ids=ids)["ok"] == [{}, {}]
    assert not (tmp_path / "ours").exists()
    assert (tmp_path / "theirs").exists()
    assert agent.call("ledger")["ok"] == []


def test_what_the_ledger_cannot_answer_for_is_told(start: Callable[[], AgentProcess], tmp_path: Path) -> None:
    """Facts and the reset are told the damaged lines of a ledger, and the installed units it lost."""
    (tmp_path / "state" / "units").mkdir(parents=True)
    installed = next(Path("/etc/systemd/system").iterdir()).name
    for name in (installed, "nidome-test-gone.service"):
        (tmp_path / "state" / "units" / f"{name}.json").write_text("{}")
    (tmp_path / "state" / "ledger.jsonl").write_text("garbage\n")
    agent, expected = start(), {"lines": [1], "units": [installed]}
    assert agent.call("unaccounted")["ok"] == expected
    assert agent.call("facts", directories=[])["ok"]["unaccounted"] == expected
