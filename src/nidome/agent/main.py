"""The agent's loop: one JSON object a line in, one a line out, one operation at a time.

A request is ``{"id": N, "op": NAME, …}``; its answer ``{"id": N, "ok": …}`` or ``{"id": N, "error": …}`` (the
form of ``NidomeError.to_json``). ``put`` is followed by as many raw bytes as it says. When the connection
ends, the operation under way is finished first; waiting for a condition is given up.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Sequence

from nidome.agent.facts import gather
from nidome.agent.host import STATE, Host
from nidome.agent.resources.base import Observed, Resource, failed
from nidome.agent.resources.registry import decode, handlers
from nidome.agent.system import replaced, sweep, write_whole
from nidome.errors import NidomeError, ResourceError

__all__ = ["LOCK", "Agent", "main"]

LOCK = "/run/nidome.lock"
_DECLARED = f"{STATE}/declared.json"
_CHUNK = 1 << 20
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

    def __init__(self, code: str = "") -> None:
        self.host = Host()
        self.host.abandoned = self._abandoned
        self._code = code
        self._lock_file = -1

    def _abandoned(self) -> bool:
        poll = select.poll()
        poll.register(sys.stdin.fileno(), select.POLLHUP | select.POLLERR)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))

    # Reading.

    def facts(self, directories: List[str]) -> Dict[str, Any]:
        """Return what roles and preflight need to know: the host's facts, and what Nidome did here before.

        ``ledger`` has the ids of what somebody declared, oldest first; ``declared`` the last applied values.
        """
        made = [e["id"] for e in self.host.ledger.made() if not (e.get("data") or {}).get("implicit")]
        declared = json.loads(self.read(_DECLARED) or "{}")
        return {**gather(directories), "ledger": made, "declared": declared}

    def observe(self, resources: List[Dict[str, Any]], *, forgetful: bool = False) -> List[Observed]:
        """Return the observed attributes of each resource, in order."""
        if forgetful:
            self.host = Host(forgetful=True)
            self.host.abandoned = self._abandoned
        return self._observe([decode(r) for r in resources])

    def _observe(self, resources: List[Resource]) -> List[Observed]:
        self.host.units.clear()
        self.host.show_units(_units_of(resources))
        found: Dict[int, Observed] = {}
        for kind in dict.fromkeys(r.kind for r in resources):
            chosen = [(n, r) for n, r in enumerate(resources) if r.kind == kind]
            try:
                states = handlers(kind).observe([r for _, r in chosen], self.host)
            except NidomeError as error:
                states = [failed(error.to_json()) for _ in chosen]
            except OSError as error:
                states = [failed(_from_os(error, kind).to_json()) for _ in chosen]
            found.update({n: state for (n, _), state in zip(chosen, states)})
        return [found[n] for n in range(len(resources))]

    def ledger(self) -> List[Dict[str, Any]]:
        """Return what Nidome made on this host, oldest first."""
        return self.host.ledger.made()

    def missing(self, blobs: List[str]) -> List[str]:
        """Return those artifacts (sha256) that this host does not have."""
        return [b for b in blobs if self.host.blob(b) is None]

    # Changing.

    def lock(self, who: str, patience: float = 20) -> None:
        """Take the run lock of this host; it is free again when this process ends, however it ends."""
        handle = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.read(handle, 400).decode(errors="replace")
                    os.close(handle)
                    raise ResourceError(
                        "run-locked",
                        f"another run is under way: {holder}",
                        where=LOCK,
                        hint="wait for it to end",
                    ) from None
                time.sleep(0.05)
        os.ftruncate(handle, 0)
        os.pwrite(handle, who.encode(), 0)
        self._lock_file = handle
        # The ledger may have grown between this process's start and its turn.
        self.host = Host()
        self.host.abandoned = self._abandoned
        self._settle()

    def _settle(self) -> None:
        """Keep this agent's code for the next run, and sweep what a killed run left half-written."""
        os.makedirs(STATE, mode=0o700, exist_ok=True)
        entries = self.host.ledger.made()
        sweep(
            sorted(
                {
                    os.path.dirname(e["key"])
                    for e in entries
                    if e["key"].startswith("/") and e["kind"] != "KubeObject"
                }
            )
        )
        sweep([STATE, f"{STATE}/blobs", f"{STATE}/units"])
        kept = f"{STATE}/agent"
        if self._code and not os.path.isdir(f"{kept}/{os.path.basename(self._code)}"):
            shutil.rmtree(kept, ignore_errors=True)
            name = open(f"{self._code}/digest", encoding="utf-8").read()  # noqa: SIM115 - a few bytes of our own
            shutil.copytree(self._code, f"{kept}/.new")
            os.rename(f"{kept}/.new", f"{kept}/{name}")

    def put(self, sha256: str, size: int) -> None:
        """Receive an artifact; it exists only once its hash is right."""
        os.makedirs(f"{STATE}/blobs", mode=0o700, exist_ok=True)
        digest = hashlib.sha256()
        with replaced(f"{STATE}/blobs/{sha256}", 0o755) as out:
            left = size
            while left:
                block = sys.stdin.buffer.read(min(_CHUNK, left))
                if not block:
                    raise ResourceError(
                        "artifact-torn", "the connection ended within an artifact", where=sha256
                    )
                left -= len(block)
                digest.update(block)
                out.write(block)
            if digest.hexdigest() != sha256:
                raise ResourceError("artifact-corrupt", f"received {digest.hexdigest()[:12]}", where=sha256)

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
        except NidomeError as error:
            return error.to_json()
        except OSError as error:
            return _from_os(error, resource.id).to_json()
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
        except NidomeError as error:
            return error.to_json()
        except OSError as error:
            return _from_os(error, identity).to_json()
        self.host.ledger.drop(identity)
        return {}

    def purge(self) -> None:
        """Remove what Nidome keeps for itself: the ledger last of all."""
        with contextlib.suppress(OSError):
            os.unlink(LOCK)
        shutil.rmtree(STATE, ignore_errors=True)

    def declare(self, values: Dict[str, Any]) -> None:
        """Keep the values that were applied: the next plan says which of them moved."""
        text = json.dumps(values, sort_keys=True)
        if text != self.read(_DECLARED, 1 << 20):
            write_whole(_DECLARED, text.encode(), 0o600)

    def read(self, path: str, size: int = 65536) -> str:
        """Return the beginning of a file, "" where there is none."""
        try:
            with open(path, encoding="utf-8", errors="replace") as source:
                return source.read(size)
        except OSError:
            return ""


def _from_os(error: OSError, where: str) -> ResourceError:
    hints = {28: "free some disk space", 30: "remount the file system for writing"}
    place = f"{where} ({error.filename})" if error.filename else where
    return ResourceError(
        "host-refused", error.strerror or str(error), where=place, hint=hints.get(error.errno or 0, "")
    )


_OPERATIONS = (
    "apply",
    "declare",
    "facts",
    "ledger",
    "lock",
    "missing",
    "observe",
    "purge",
    "put",
    "read",
    "remove",
)


def _answer(agent: Agent, request: Dict[str, Any]) -> Dict[str, Any]:
    name = request.pop("op", "")
    number = request.pop("id", 0)
    if name not in _OPERATIONS:
        return {"id": number, "error": ResourceError("unknown-operation", f"no operation '{name}'").to_json()}
    operation: Callable[..., Any] = getattr(agent, name)
    try:
        return {"id": number, "ok": operation(**request)}
    except NidomeError as error:
        return {"id": number, "error": error.to_json()}
    except OSError as error:
        return {"id": number, "error": _from_os(error, name).to_json()}


def main(code: str = "") -> None:
    """Answer requests until the connection ends; ``code`` is a directory to remove then."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o022)
    agent = Agent(code)
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            answer = json.dumps(_answer(agent, json.loads(line)), separators=(",", ":"))
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        # The other side is gone; what was under way has been finished.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        agent.host.close()
        if code:
            shutil.rmtree(code, ignore_errors=True)
