"""The host as the resource kinds see it: ledger, hash cache, artifact stores, API client, units."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from nidome.agent.ledger import Ledger
from nidome.agent.system import read_text, run, sha256_file, write_whole

if TYPE_CHECKING:
    from nidome.agent.kube import Api

__all__ = ["LENT_BLOBS", "STATE", "Host"]

STATE = "/var/lib/nidome"
"""Everything Nidome itself keeps on a host; root only, and gone after a reset."""

LENT_BLOBS = "/run/host/nidome/blobs"
"""Artifacts by sha256 that a disposable host is lent; else there is only what was sent."""

_TICK_NS = 10_000_000
"""The kernel may stamp two writes within a clock tick alike: what was learned so early is not kept."""

_UNIT_PROPERTIES = (
    "Id,Job,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,NRestarts,Result,ExecMainPID,"
    "ExecMainStartTimestampMonotonic,ActiveEnterTimestamp,DropInPaths"
)


class Host:
    """One agent process's view of its host.

    A ``forgetful`` one trusts nothing that an earlier run learned: every file is hashed again.
    """

    def __init__(self, state: str = STATE, *, forgetful: bool = False) -> None:
        self.state = state
        self.ledger = Ledger(os.path.join(state, "ledger.jsonl"))
        self.units: Dict[str, Dict[str, str]] = {}
        self.installed: Dict[str, str] = {}
        """sha256 to a path of this host that holds it: further names are hard links."""
        self.forgetful = forgetful
        self.abandoned: Callable[[], bool] = lambda: False
        """Whether the engine is gone: whoever only waits then stops."""
        self._known: Optional[Dict[str, List[Any]]] = None
        self._learned = False
        self._lock = threading.Lock()
        self._exclusive: Dict[str, threading.Lock] = {}
        self._apis: Dict[Tuple[str, ...], Api] = {}

    # What was learned of files, kept until their inode says that they were touched.

    def learned(self, what: str, path: str, learn: Callable[[str], Any], *, also: Sequence[str] = ()) -> Any:
        """Return ``learn(path)``, or what it gave before while ``path`` and ``also`` are untouched.

        None where ``path`` does not exist.
        """
        try:
            mark = [_mark(p) for p in (path, *also)]
        except (FileNotFoundError, NotADirectoryError):
            return None
        known = self._knowledge().get(f"{what}:{path}")
        if known is not None and known[0] == mark:
            return known[1]
        began = time.time_ns()
        value = learn(path)
        if began - max(m[-1] for m in mark) > _TICK_NS:
            self._keep(f"{what}:{path}", mark, value)
        return value

    def knows(self, what: str, path: str) -> bool:
        """Tell whether something was learned of a path, if perhaps of an earlier content."""
        return f"{what}:{path}" in self._knowledge()

    def sha256(self, path: str) -> Optional[str]:
        """Return a file's sha256, or None where there is no such file."""
        digest = self.learned("sha256", path, sha256_file)
        return None if digest is None else str(digest)

    def remember_sha256(self, path: str, digest: str) -> None:
        """Keep a hash that was computed while the file was written."""
        mark, knowledge = _mark(path), self._knowledge()
        # A new hard link changes the inode's ctime, and with it the mark of every other name of it.
        with self._lock:
            names = [
                n for n, (marks, value) in knowledge.items() if marks[0][:2] == mark[:2] and value == digest
            ]
        for name in [*names, f"sha256:{path}"]:
            self._keep(name, [mark], digest)

    def _keep(self, name: str, mark: List[Any], value: Any) -> None:
        with self._lock:
            if self._known is not None:
                self._known[name] = [mark, value]
                self._learned = True

    def _knowledge(self) -> Dict[str, List[Any]]:
        with self._lock:
            if self._known is None:
                self._known = {}
                if not self.forgetful:
                    with (
                        contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError),
                        open(self._cache_path, "rb") as source,
                    ):
                        stored = json.load(source)
                        # Another version may have learned the same thing in another form.
                        self._known = dict(stored["known"]) if stored.get("code") == _code() else {}
            return self._known

    @property
    def _cache_path(self) -> str:
        return os.path.join(self.state, "known.json")

    def exclusive(self, what: str) -> threading.Lock:
        """Return the lock for one thing, such as an artifact that several resources install."""
        with self._lock:
            return self._exclusive.setdefault(what, threading.Lock())

    # Units, one systemctl for all that a pass asks about.

    def show_units(self, names: Sequence[str]) -> None:
        """Read the state of these units into ``units``."""
        if not names:
            return
        text = run(["systemctl", "show", "--no-pager", "-p", _UNIT_PROPERTIES, "--", *names])
        for name, block in zip(names, text.split("\n\n")):
            self.units[name] = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)

    def unit(self, name: str, *, fresh: bool = False) -> Dict[str, str]:
        """Return a unit's properties as systemd names them."""
        if fresh or name not in self.units:
            self.show_units([name])
        return self.units[name]

    def comes_up(self, name: str) -> bool:
        """Tell whether a unit's process runs or is about to: a start queued behind another counts."""
        shown = self.unit(name)
        queued = shown.get("Job", "0") not in ("", "0")
        return shown.get("ActiveState") in ("active", "activating", "reloading") or queued

    # Artifacts by sha256.

    def blob(self, digest: str) -> Optional[str]:
        """Return the path of an artifact that this host has, or None."""
        for store in (os.path.join(self.state, "blobs"), LENT_BLOBS):
            path = os.path.join(store, digest)
            if os.path.exists(path):
                return path
        return None

    # The Kubernetes API.

    def api(self, access: Sequence[str]) -> Api:
        """Return the client for an API server: its URL, CA file, certificate file and key file."""
        from nidome.agent.kube import Api  # noqa: PLC0415 - ssl is not paid for by hosts without objects

        with self._lock:
            identity = tuple(access)
            if identity not in self._apis:
                self._apis[identity] = Api(*identity)
            return self._apis[identity]

    def close(self) -> None:
        """Write back what was learned."""
        self.ledger.close()
        if self._learned and os.path.isdir(self.state):
            stored = {"code": _code(), "known": self._known}
            write_whole(self._cache_path, json.dumps(stored).encode(), 0o600)
            self._learned = False


def _code() -> str:
    """Return the digest of the agent's code; the transport puts it beside the package."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return (read_text(os.path.join(root, "digest")) or "source").strip()


def _mark(path: str) -> List[int]:
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
