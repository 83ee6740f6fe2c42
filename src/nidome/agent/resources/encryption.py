"""The keys by which an API server encrypts what it stores.

Keys are made on the host, never leave it, and are never thrown away: what an earlier one has encrypted stays
readable, also when encryption is switched off.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, FrozenSet, List, Sequence, Tuple

from nidome.agent.resources.base import Observed, PathResource, failed
from nidome.agent.resources.certificate import remove_files
from nidome.agent.system import mode_of, open_file, write_whole
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["PLAIN", "EncryptionKeys", "apply", "observe", "remove_files"]

PLAIN = "identity"
"""The provider that encrypts nothing."""
_KEY_BYTES = 32


@dataclass(frozen=True)
class EncryptionKeys(PathResource):
    """``path`` is an EncryptionConfiguration that has ``resources`` written with ``algorithm``.

    :data:`PLAIN` writes nothing encrypted any more, and reads what was.
    """

    kind: ClassVar[str] = "EncryptionKeys"
    content_attributes: ClassVar[FrozenSet[str]] = frozenset({"algorithm", "resources"})
    algorithm: str
    resources: Tuple[str, ...]
    mode: str = "0600"

    def desired(self) -> Dict[str, Any]:
        """Return what is written how, and that only root reads the keys."""
        state: Dict[str, Any] = {"algorithm": self.algorithm, "mode": self.mode}
        if self.algorithm != PLAIN:
            state["resources"] = sorted(self.resources)
        return state


def observe(resources: Sequence[EncryptionKeys], host: Host) -> List[Observed]:
    """Say how each file has things written; a file that holds something else, or is lost, is an error."""
    found: List[Observed] = []
    for resource in resources:
        try:
            first = _read(resource.path)[0]
            written = {
                "algorithm": next(iter(first["providers"][0])),
                "resources": sorted(first["resources"]),
            }
            found.append({**written, "mode": mode_of(os.stat(resource.path))})
        except FileNotFoundError:
            found.append(failed(_lost(resource.path).to_json()) if _was_there(resource, host) else None)
        except ResourceError as error:
            found.append(failed(error.to_json()))
    return found


def _was_there(resource: EncryptionKeys, host: Host) -> bool:
    """Tell whether keys were made here once: what they have encrypted may still be in the store."""
    entry = host.ledger.entries.get(resource.id) or {}
    return bool((entry.get("data") or {}).get("written"))


def _lost(path: str) -> ResourceError:
    # Making new keys would leave everything that these have encrypted unreadable for ever.
    return ResourceError(
        "encryption-keys",
        "the file with the encryption keys is gone",
        where=path,
        hint="put it back from a backup of this host; without one, what it encrypted is lost: nidome reset",
    )


def _read(path: str) -> List[Dict[str, Any]]:
    """Return the entries of a file that was written here."""
    with open_file(path) as source:
        text = source.read().decode(errors="replace")
    try:
        entries: List[Dict[str, Any]] = json.loads(text)["resources"]
        if all(entry["resources"] and next(iter(entry["providers"][0])) for entry in entries) and entries:
            return entries
    except (ValueError, KeyError, TypeError, IndexError, StopIteration):
        pass
    # Making new keys would leave everything that these have encrypted unreadable for ever.
    raise ResourceError(
        "encryption-keys",
        "the file with the encryption keys cannot be read",
        where=path,
        hint="put it back from a backup of this host; it is only made where there never was one",
    )


def apply(resource: EncryptionKeys, host: Host) -> None:
    """Write the file with all keys that it had, and a new one where the algorithm has none yet."""
    there = _was_there(resource, host)
    if there and not os.path.exists(resource.path):
        raise _lost(resource.path)
    if not there:
        host.ledger.add(resource.kind, resource.key, data={"files": [resource.path]})
    entries = _read(resource.path) if os.path.exists(resource.path) else []
    written = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    text = json.dumps({**written, "resources": _entries(resource, entries)}, indent=1) + "\n"
    write_whole(resource.path, text.encode(), int(resource.mode, 8), durable=True)
    host.ledger.add(resource.kind, resource.key, data={"files": [resource.path], "written": True})


def _entries(resource: EncryptionKeys, before: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    keys = _known_keys(before)
    earlier = sorted({name for entry in before for name in entry["resources"]})
    if resource.algorithm == PLAIN:
        names = earlier or sorted(resource.resources)
        return [{"resources": names, "providers": [{PLAIN: {}}, *keys]}]
    mine = [key for key in keys if resource.algorithm in key] or [_new_key(resource.algorithm, len(keys))]
    others = [key for key in keys if resource.algorithm not in key]
    providers = [*mine, *others, {PLAIN: {}}]
    entries = [{"resources": sorted(resource.resources), "providers": providers}]
    left = [name for name in earlier if name not in resource.resources]
    if left:
        entries.append({"resources": left, "providers": [{PLAIN: {}}, *mine, *others]})
    return entries


def _known_keys(before: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    known: List[Dict[str, Any]] = []
    for entry in before:
        known += [p for p in entry["providers"] if PLAIN not in p and p not in known]
    return known


def _new_key(algorithm: str, number: int) -> Dict[str, Any]:
    secret = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    return {algorithm: {"keys": [{"name": f"key{number + 1}", "secret": secret}]}}
