"""What Nidome made on this host, so that a reset is exact and an undeclared thing can be removed.

One JSON object a line, appended before the thing itself is made: a kill between the two leaves an
entry for something that does not exist, which removal passes over. A torn last line is ignored, and gone
with the next entry; any other line that is no entry is remembered in ``damaged``.
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
        self.damaged: List[int] = []
        """Numbers of the lines that are no entries: what they stood for is not known any more."""
        self._lines = 0
        self._whole = 0
        self._torn = False
        self._unsynced = False
        self._lock = threading.Lock()
        self._read()

    def _read(self) -> None:
        try:
            with open(self.path, "rb") as source:
                *lines, last = source.read().split(b"\n")
        except FileNotFoundError:
            return
        self._whole = sum(len(line) + 1 for line in lines)
        for number, line in enumerate(lines, 1):
            if not self._take(line) and line.strip():
                self.damaged.append(number)
        self._torn = bool(last)
        if self._take(last):
            # Only its end of line is missing: it stays.
            self._whole += len(last)

    def _take(self, line: bytes) -> bool:
        """Do what a line says; return whether it is one of a ledger."""
        try:
            entry = json.loads(line.decode())
        except (ValueError, RecursionError):
            return False
        if not _is_entry(entry):
            return False
        self._lines += 1
        if entry.get("dropped"):
            self.entries.pop(entry["id"], None)
        else:
            self.entries[entry["id"]] = entry
        return True

    def _append(self, entry: Dict[str, Any]) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(self.path, flags, 0o600)
        try:
            lead = ""
            if self._torn:
                # A torn line of an earlier run must not swallow this one.
                os.ftruncate(handle, self._whole)
                lead = "\n" if self._whole and not self._ends() else ""
            line = (lead + json.dumps(entry, sort_keys=True) + "\n").encode()
            self._torn = True
            if os.write(handle, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self._torn = False
            self._whole += len(line)
        finally:
            os.close(handle)
        self._lines += 1
        self._unsynced = True

    def _ends(self) -> bool:
        """Tell whether the file's last line has its end."""
        with open(self.path, "rb") as source:
            source.seek(-1, os.SEEK_END)
            return source.read(1) == b"\n"

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
        if not self.damaged and self._lines > _COMPACT_AFTER + 2 * len(self.entries):
            text = "".join(json.dumps(e, sort_keys=True) + "\n" for e in self.entries.values())
            write_whole(self.path, text.encode(), 0o600, durable=True)
            self._lines, self._torn, self._whole = len(self.entries), False, len(text.encode())


def _is_entry(entry: Any) -> bool:
    """Tell whether a line's value is an entry, or the end of one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return False
    kind, key = entry.get("kind"), entry.get("key")
    made = isinstance(kind, str) and isinstance(key, str) and entry["id"] == f"{kind}:{key}"
    return bool(entry.get("dropped")) or (
        made and "prior" in entry and isinstance(entry.get("data"), (dict, type(None)))
    )
