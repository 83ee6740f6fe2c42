"""The agent's loop: one JSON object a line in, one a line out, one operation at a time.

A request is ``{"id": N, "op": NAME, …}``; its answer ``{"id": N, "ok": …}`` or ``{"id": N, "error": …}`` (the
form of ``NidomeError.to_json``). ``put`` is followed by as many raw bytes as it says. When the connection
ends, the operation under way is finished first; waiting for a condition is given up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set

from nidome.agent.evidence import evidence
from nidome.agent.facts import gather
from nidome.agent.host import STATE, Host
from nidome.agent.resources.base import Observed, Resource, failed
from nidome.agent.resources.registry import decode, handlers
from nidome.agent.resources.unit import note_starts
from nidome.agent.status import components
from nidome.agent.system import DIRECTORY, open_file, replaced, sweep, sweep_work, write_whole
from nidome.errors import NidomeError, ResourceError

__all__ = ["LOCK", "Agent", "main"]

LOCK = "/run/nidome.lock"
_DECLARED_SIZE = 1 << 24
_BACKOFF = "/run/nidome/backoff"
# What is kept in the state directory, the ledger last: a purge that is cut short is made again.
_KEPT = ("agent", "blobs", "kept", "units", "known.json", "declared.json", "ledger.jsonl")
_CHUNK = 1 << 20
_SAME_VERSION = "the agent and nidome must be of one version"
_OS_HINTS = {
    errno.ENOSPC: "free some disk space on the host, then run this again",
    errno.EROFS: "remount the file system for writing, then run this again",
}
_WORKERS = 4


def _units_of(resources: Sequence[Resource]) -> List[str]:
    names = set()
    for resource in resources:
        if resource.kind in ("Unit", "Restart"):
            names.add(resource.key)
        names.update(getattr(resource, "units", ()))
        names.update(u for u in (getattr(resource, "unit", ""),) if u)
    return sorted(names)


class Agent:
    """The operations that an engine can ask of a host; each public method is one."""

    def __init__(self, code: str = "", state: str = STATE, lock: str = LOCK) -> None:
        self._state = state
        self._declared = f"{state}/declared.json"
        self._lock_path = lock
        self.host = self._look()
        self._code = code
        self._lock_file = -1

    def _look(self, *, forgetful: bool = False) -> Host:
        host = Host(self._state, forgetful=forgetful)
        host.abandoned = self._abandoned
        return host

    def _abandoned(self) -> bool:
        poll = select.poll()
        poll.register(sys.stdin.fileno(), select.POLLHUP | select.POLLERR)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))

    # Reading.

    def facts(self, directories: List[str]) -> Dict[str, Any]:
        """Return what roles and preflight need to know: the host's facts, and what Nidome did here before.

        ``ledger`` has the ids of what somebody declared, oldest first; ``declared`` the last applied values.
        """
        # Parents of what was declared, and images of somebody's own, are not anybody's to declare away.
        made = [e["id"] for e in self.host.ledger.made() if not _beyond_declaring(e.get("data") or {})]
        try:
            declared = json.loads(self.read(self._declared, _DECLARED_SIZE))
        except (ValueError, RecursionError):
            declared = {}
        if not isinstance(declared, dict):
            declared = {}
        known = {"ledger": made, "declared": declared, "unaccounted": self.unaccounted()}
        return {**gather(directories), **known}

    def observe(self, resources: List[Dict[str, Any]], *, forgetful: bool = False) -> List[Observed]:
        """Return the observed attributes of each resource, in order."""
        if forgetful:
            self.host = self._look(forgetful=True)
        return self._observe([decode(r) for r in resources])

    def _observe(self, resources: List[Resource]) -> List[Observed]:
        self.host.units.clear()
        self.host.show_units(_units_of(resources))
        found: Dict[int, Observed] = {}
        for kind in dict.fromkeys(r.kind for r in resources):
            chosen = [(n, r) for n, r in enumerate(resources) if r.kind == kind]
            states = self._observe_kind([r for _, r in chosen])
            found.update({n: state for (n, _), state in zip(chosen, states)})
        return [found[n] for n in range(len(resources))]

    def _observe_kind(self, resources: List[Resource]) -> List[Observed]:
        """Observe resources of one kind; an error is told only of the one that has it."""
        try:
            return handlers(resources[0].kind).observe(resources, self.host)
        except Exception as error:  # noqa: BLE001 - whatever one resource does to us, the others are still seen
            if len(resources) == 1:
                return [failed(_as_error(error, resources[0].id).to_json())]
        return [state for r in resources for state in self._observe_kind([r])]

    def ledger(self) -> List[Dict[str, Any]]:
        """Return what Nidome made on this host, oldest first."""
        return self.host.ledger.made()

    def unaccounted(self) -> Dict[str, List[Any]]:
        """Return what the ledger cannot answer for.

        ``lines`` are the numbers of its damaged lines; ``units`` those that Nidome started here, that are
        still installed, and that it has no entry of.
        """
        directory = f"{self._state}/units"
        started = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        units = [name[: -len(".json")] for name in started if name.endswith(".json")]
        lost = [
            u for u in units if not self.host.ledger.has(f"Unit:{u}") and os.path.exists(f"{DIRECTORY}/{u}")
        ]
        return {"lines": self.host.ledger.damaged, "units": lost}

    def status(self, conditions: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Return every component that Nidome made here, in the order of their start, and what holds."""
        names = [e["key"] for e in self.host.ledger.made() if e["kind"] == "Unit"]
        found = components(names, self.host)
        return {"components": found, "conditions": self._observe([decode(c) for c in conditions])}

    def evidence(self, questions: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Return what is really there: files, arguments of processes, objects."""
        return evidence(questions, self.host)

    def missing(self, blobs: List[str]) -> List[str]:
        """Return those artifacts (sha256) that this host does not have."""
        return [b for b in blobs if self.host.blob(b) is None]

    # Changing.

    def lock(self, who: str, patience: float = 20) -> None:
        """Take the run lock of this host; it is free again when this process ends, however it ends."""
        if self._lock_file >= 0:
            return
        deadline = time.monotonic() + patience
        handle = self._try_lock()
        while handle < 0:
            if time.monotonic() > deadline:
                raise ResourceError(
                    "run-locked",
                    f"another run is under way: {self.read(self._lock_path, 400)}",
                    where=self._lock_path,
                    hint="wait for it to end",
                )
            time.sleep(0.05)
            handle = self._try_lock()
        os.ftruncate(handle, 0)
        os.pwrite(handle, who.encode(), 0)
        self._lock_file = handle
        # The ledger may have grown between this process's start and its turn.
        self.host = self._look()
        self._settle()

    def _try_lock(self) -> int:
        """Return the locked file, or -1 where another run has it."""
        handle = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A reset removes the file: the lock of one that has no name any more keeps nobody out.
            if os.path.samestat(os.fstat(handle), os.stat(self._lock_path)):
                return handle
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(handle)
        return -1

    def _settle(self) -> None:
        """Keep this agent's code for the next run, and sweep what a killed run left half-written."""
        os.makedirs(self._state, mode=0o700, exist_ok=True)
        sweep(sorted(_places(self.host.ledger.made())))
        sweep([self._state, f"{self._state}/blobs", f"{self._state}/kept", f"{self._state}/units"])
        sweep_work()
        kept = f"{self._state}/agent"
        if self._code and not os.path.isdir(f"{kept}/{os.path.basename(self._code)}"):
            shutil.rmtree(kept, ignore_errors=True)
            name = open(f"{self._code}/digest", encoding="utf-8").read()  # noqa: SIM115 - a few bytes of our own
            shutil.copytree(self._code, f"{kept}/.new")
            os.rename(f"{kept}/.new", f"{kept}/{name}")

    def put(self, sha256: str, size: int) -> None:
        """Receive an artifact; it exists only once its hash is right."""
        os.makedirs(f"{self._state}/blobs", mode=0o700, exist_ok=True)
        digest = hashlib.sha256()
        blocks = _received(size)
        try:
            with replaced(f"{self._state}/blobs/{sha256}", 0o755) as out:
                for block in blocks:
                    digest.update(block)
                    out.write(block)
                if digest.hexdigest() != sha256:
                    raise ResourceError(
                        "artifact-corrupt",
                        f"received {digest.hexdigest()[:12]}",
                        where=sha256,
                        hint="run `nidome artifacts verify`, then this again",
                    )
        finally:
            # On a full disk the rest is still on its way: it must not be taken for requests.
            with contextlib.suppress(ResourceError):
                for _ in blocks:
                    pass
        self.host.remember_sha256(f"{self._state}/blobs/{sha256}", sha256)

    def apply(self, resources: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Bring each resource about and observe it again; ``observed`` or ``error`` for each, in order.

        Resources of one call are independent of each other and may be worked on side by side.
        """
        decoded = [decode(r) for r in resources]
        if len(decoded) == 1:
            errors = [self._apply_one(decoded[0])]
        else:
            with ThreadPoolExecutor(_WORKERS) as pool:
                errors = list(pool.map(self._apply_one, decoded))
        states = self._observe(decoded)
        return [{"error": e} if e else {"observed": s} for e, s in zip(errors, states)]

    def _apply_one(self, resource: Resource) -> Dict[str, str]:
        try:
            handlers(resource.kind).apply(resource, self.host)
        except Exception as error:  # noqa: BLE001 - what fails for one resource is that resource's error
            return _as_error(error, resource.id).to_json()
        return {}

    def remove(self, ids: List[str]) -> List[Dict[str, str]]:
        """Remove what the ledger has under these ids, in the order given; an error or {} for each."""
        return [self._remove_one(identity) for identity in ids]

    def _remove_one(self, identity: str) -> Dict[str, str]:
        entry = self.host.ledger.entries.get(identity)
        remove = handlers(entry["kind"]).remove if entry else None
        if entry is None or remove is None:
            return {}
        try:
            remove(entry, self.host)
        except Exception as error:  # noqa: BLE001 - as in _apply_one
            return _as_error(error, identity).to_json()
        self.host.ledger.drop(identity)
        return {}

    def purge(self) -> None:
        """Remove what Nidome keeps for itself on a host; disposable hosts of this machine are not its own."""
        for name in _KEPT:
            path = f"{self._state}/{name}"
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(path)
        shutil.rmtree(_BACKOFF, ignore_errors=True)
        for directory in (self._state, os.path.dirname(_BACKOFF)):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        # The lock goes last: whoever gets the next one finds nothing of what is removed here.
        with contextlib.suppress(OSError):
            os.unlink(self._lock_path)
        self.host = self._look()

    def declare(self, values: Dict[str, Any], resources: Sequence[Dict[str, Any]] = ()) -> None:
        """Keep the values that were applied, at the end of a run that reached everything.

        The next plan says which of them moved. What was sent is installed by now and is not kept twice.
        ``resources`` are those that hold secrets: one that was in place already holds them from now on.
        """
        note_starts(self.host)
        for resource in map(decode, resources):
            if self.host.ledger.has(resource.id):
                handlers(resource.kind).note(resource, self.host)
        shutil.rmtree(f"{self._state}/blobs", ignore_errors=True)
        text = json.dumps(values, sort_keys=True)
        if text != self.read(self._declared, _DECLARED_SIZE):
            write_whole(self._declared, text.encode(), 0o600)

    def read(self, path: str, size: int = 65536) -> str:
        """Return the beginning of a file, "" where there is none."""
        try:
            with open_file(path) as source:
                return source.read(size).decode(errors="replace")
        except OSError:
            return ""


def _beyond_declaring(data: Dict[str, Any]) -> bool:
    return bool(data.get("implicit") or data.get("kept"))


def _from_os(error: OSError, where: str) -> ResourceError:
    place = f"{where} ({error.filename})" if error.filename else where
    hint = _OS_HINTS.get(error.errno or 0, "see what is there on the host, then run this again")
    return ResourceError("host-refused", error.strerror or str(error), where=place, hint=hint)


def _as_error(error: Exception, where: str) -> NidomeError:
    """Return what a person is told of an exception; one that nobody foresaw leaves its trace too."""
    if isinstance(error, NidomeError):
        return error
    if isinstance(error, OSError):
        return _from_os(error, where)
    traceback.print_exception(type(error), error, error.__traceback__)
    return ResourceError(
        "agent-fault",
        f"the agent failed: {type(error).__name__}: {error}",
        where=where,
        hint="run again; if it stays, report it with the run's record",
    )


def _received(size: int) -> Iterator[bytes]:
    """Give the raw bytes that follow a request; raise ResourceError where the connection ends within them."""
    while size:
        block = sys.stdin.buffer.read(min(_CHUNK, size))
        if not block:
            raise ResourceError(
                "artifact-torn", "the connection ended within an artifact", hint="run this again"
            )
        size -= len(block)
        yield block


def _places(entries: Sequence[Dict[str, Any]]) -> Set[str]:
    """Return the directories in which files under construction of these entries can be."""
    places: Set[str] = set()
    for entry in entries:
        key, kind = entry["key"], entry["kind"]
        files = (entry.get("data") or {}).get("files") or ([key] if key.startswith("/") else [])
        if kind == "Unit":
            files = [f"{DIRECTORY}/{key}"]
        if kind != "KubeObject":
            places.update(os.path.dirname(f) for f in files)
    return places


_OPERATIONS = (
    "apply",
    "declare",
    "evidence",
    "facts",
    "ledger",
    "lock",
    "missing",
    "observe",
    "purge",
    "put",
    "read",
    "remove",
    "status",
    "unaccounted",
)


def _answer(agent: Agent, line: bytes) -> Dict[str, Any]:
    try:
        request = json.loads(line)
        name, number = request.pop("op", ""), request.pop("id", 0)
    except (ValueError, AttributeError, TypeError):
        error = ResourceError("malformed-request", "a line is not a request", hint=_SAME_VERSION)
        return {"id": 0, "error": error.to_json()}
    if name not in _OPERATIONS:
        error = ResourceError("unknown-operation", f"no operation '{name}'", hint=_SAME_VERSION)
        return {"id": number, "error": error.to_json()}
    operation: Callable[..., Any] = getattr(agent, name)
    try:
        return {"id": number, "ok": operation(**request)}
    except Exception as failure:  # noqa: BLE001 - the loop goes on: the engine decides what an error means
        return {"id": number, "error": _as_error(failure, name).to_json()}


def main(code: str = "", state: str = STATE, lock: str = LOCK) -> None:
    """Answer requests until the connection ends; ``code`` is a directory to remove then."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o022)
    agent = Agent(code, state, lock)
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            answer = json.dumps(_answer(agent, line), separators=(",", ":"))
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        # The other side is gone; what was under way has been finished.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        agent.host.close()
        if code:
            shutil.rmtree(code, ignore_errors=True)
