"""What Nidome made on this host, so that a reset is exact and an undeclared thing can be removed.

One JSON object a line, appended before the thing itself is made: a kill between the two leaves an
entry for something that does not exist, which removal passes over. A torn last line is ignored.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from typing import Any, Dict, List, Optional

from nidome.agent.system import write_whole

__all__ = ["Ledger"]

_COMPACT_AFTER = 2000


class Ledger:
    """The entries of this host by resource id, in the order in which they were first made.

    An entry holds ``id``, ``kind``, ``key``, ``prior`` (what stood there before, None where nothing
    did) and ``data`` (what removal needs to know beyond the key).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: Dict[str, Dict[str, Any]] = {}
        self._lines = 0
        self._torn = False
        self._unsynced = False
        self._lock = threading.Lock()
        self._read()

    def _read(self) -> None:
        try:
            with open(self.path, encoding="utf-8", errors="replace") as source:
                text = source.read()
        except FileNotFoundError:
            return
        self._torn = bool(text) and not text.endswith("\n")
        for line in text.split("\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if not isinstance(entry, dict) or "id" not in entry:
                continue
            self._lines += 1
            if entry.get("dropped"):
                self.entries.pop(entry["id"], None)
            else:
                self.entries[entry["id"]] = entry

    def _append(self, entry: Dict[str, Any]) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(self.path, flags, 0o600)
        try:
            # A torn line of an earlier run must not swallow this one.
            lead = "\n" if self._torn else ""
            line = (lead + json.dumps(entry, sort_keys=True) + "\n").encode()
            self._torn = True
            if os.write(handle, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self._torn = False
        finally:
            os.close(handle)
        self._lines += 1
        self._unsynced = True

    def add(self, kind: str, key: str, *, prior: Any = None, data: Optional[Dict[str, Any]] = None) -> None:
        """Say that a thing is about to be made; what an earlier run said of its past stays."""
        identity = f"{kind}:{key}"
        with self._lock:
            known = self.entries.get(identity)
            # A directory that somebody declared stays declared, although it is a parent of others too.
            if known is not None and (known.get("data") == data or (data or {}).get("implicit")):
                return
            entry = {"id": identity, "kind": kind, "key": key, "prior": prior, "data": data}
            if known is not None:
                entry["prior"] = known["prior"]
            self._append(entry)
            self.entries[identity] = entry

    def drop(self, identity: str) -> None:
        """Say that a thing is gone."""
        with self._lock:
            if identity in self.entries:
                self._append({"id": identity, "dropped": True})
                del self.entries[identity]

    def has(self, identity: str) -> bool:
        """Tell whether Nidome made this."""
        return identity in self.entries

    def made(self) -> List[Dict[str, Any]]:
        """Return all entries, oldest first."""
        return list(self.entries.values())

    def close(self) -> None:
        """Have what was added survive a power cut; rewrite the file without its history once that is long."""
        if self._unsynced and os.path.exists(self.path):
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(handle)
            os.close(handle)
        self._unsynced = False
        if self._lines > _COMPACT_AFTER + 2 * len(self.entries):
            text = "".join(json.dumps(e, sort_keys=True) + "\n" for e in self.entries.values())
            write_whole(self.path, text.encode(), 0o600, durable=True)
            self._lines, self._torn = len(self.entries), False
