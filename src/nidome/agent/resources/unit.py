"""A systemd service, and the restart that a change of what it reads calls for."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Collection, Dict, List, Optional, Sequence, Tuple

from nidome.agent import hiding
from nidome.agent.residue import nft_tables, remove_residue
from nidome.agent.resources.base import Observed, Resource
from nidome.agent.resources.restarts import keeps_ending, restarts
from nidome.agent.system import DIRECTORY, read_text, run, state_of, write_whole
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = [
    "Restart",
    "Unit",
    "apply",
    "apply_restart",
    "note",
    "observe",
    "observe_restarts",
    "remove",
    "unit_failure",
]

_WANTS = "multi-user.target.wants"
_STEADY_SECONDS = 3.0
_DROP_INS = (DIRECTORY, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
_FILE_STATE = "0644 root:root"
_BACKOFF = "/run/nidome/backoff"

# A unit that waits for its own start-up to end, or for a unit ordered before it, is on its way.
_RUNNING = {
    ("active", "running"),
    ("activating", "start"),
    ("activating", "start-pre"),
    ("activating", "start-post"),
}


@dataclass(frozen=True)
class Unit(Resource):
    """``name`` (with its suffix) is a unit with this ``text``, enabled and running as told.

    ``inputs`` are the files its process reads at start only: when one of them is no longer what the
    process read, the unit is stale, and its :class:`Restart` is due. ``residue`` is what the process leaves
    behind when it ends (see :mod:`nidome.agent.residue`), removed with the unit. ``secrets`` are texts in
    it that are never shown (see :mod:`nidome.agent.hiding`).
    """

    kind: ClassVar[str] = "Unit"
    name: str
    text: str
    inputs: Tuple[str, ...] = ()
    residue: Tuple[str, ...] = ()
    enabled: bool = True
    running: bool = True
    secrets: Tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The unit's name."""
        return self.name

    @property
    def path(self) -> str:
        """The unit file."""
        return f"{DIRECTORY}/{self.name}"

    @property
    def paths(self) -> Tuple[str, ...]:
        """The unit file."""
        return (self.path,)

    def rewrites(self, attributes: Collection[str]) -> Tuple[str, ...]:
        """Return the unit file where its text is to change."""
        return self.paths if "text" in attributes else ()

    def desired(self) -> Dict[str, Any]:
        """Return the unit file's hash, that systemd has read it, whether it is enabled and runs."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return {
            "file": _FILE_STATE,
            "sha256": digest,
            "loaded": True,
            "enabled": self.enabled,
            "running": self.running,
        }


@dataclass(frozen=True)
class Restart(Resource):
    """The unit's process has read its ``inputs`` and its unit file as they are now."""

    kind: ClassVar[str] = "Restart"
    name: str
    inputs: Tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The unit's name."""
        return self.name

    def desired(self) -> Dict[str, Any]:
        """Return that no input is newer than the process."""
        return {"stale": []}


def observe(resources: Sequence[Unit], host: Host) -> List[Observed]:
    """Ask systemd once about all units; ``$overrides`` are files of others that change what a unit says."""
    host.show_units([r.name for r in resources if r.name not in host.units])
    return [_observe_one(resource, host) for resource in resources]


def _observe_one(resource: Unit, host: Host) -> Observed:
    text = read_text(resource.path)
    if text is None:
        return None
    shown = host.unit(resource.name)
    state: Dict[str, Any] = {
        "file": state_of(resource.path),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "loaded": shown.get("NeedDaemonReload") != "yes",
        # systemd remembers the state of links that it has once looked at; the next boot goes by the link.
        "enabled": _enabled_by(_link(resource)) == resource.path,
        "running": _runs(shown),
    }
    overrides = _overrides(resource.name, shown)
    if overrides:
        state["$overrides"] = overrides
    if text != resource.text:
        data = (host.ledger.entries.get(resource.id) or {}).get("data")
        found = hiding.shown(text, data, resource.secrets, private=False)
        state.update({"$hidden": True} if found is None else {"$text": found})
    if not state["running"]:
        state["$state"] = f"{shown.get('ActiveState')} ({shown.get('SubState')}, {shown.get('Result')})"
    return state


def _overrides(name: str, shown: Dict[str, str]) -> List[str]:
    """Return the drop-ins of this unit alone: those in force, and those that the next reload will find."""
    found = {path for path in shown.get("DropInPaths", "").split() if f"/{name}.d/" in path}
    for directory in _DROP_INS:
        found.update(glob.glob(f"{directory}/{glob.escape(name)}.d/*.conf"))
    return sorted(found)


def _runs(shown: Dict[str, str]) -> bool:
    if shown.get("ActiveState") == "inactive" and shown.get("Job", "0") not in ("", "0"):
        # Its start is queued behind a unit that it is ordered after.
        return True
    if shown.get("ActiveState") == "activating" and keeps_ending(shown):
        # It keeps ending and is started again: whoever looks between two ends sees it on its way for ever.
        return False
    return (shown.get("ActiveState", ""), shown.get("SubState", "")) in _RUNNING


def apply(resource: Unit, host: Host) -> None:
    """Write, enable and start the unit; the start is only asked for, a condition waits for readiness."""
    found = state_of(resource.path)
    if read_text(resource.path) != resource.text or found != _FILE_STATE:
        note(resource, host)
        write_whole(resource.path, resource.text.encode(), 0o644)
    _enable(resource)
    shown = _load(resource.name, host)
    if resource.running and not _runs(shown):
        failing = keeps_ending(shown)
        if failing:
            _forget_failures(resource.name)
        _start(resource.name, _with_unit_file(resource.name, resource.inputs), host, "start")
        if failing:
            _require_steady(resource, host)
    elif not resource.running and _runs(shown):
        run(["systemctl", "stop", "--", resource.name])
    host.units.pop(resource.name, None)


def _forget_failures(name: str) -> None:
    """End a unit that waits for its next try, and the length of that wait: it is to be tried now."""
    run(["systemctl", "stop", "--", name])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{_BACKOFF}/{name}")


def _require_steady(resource: Unit, host: Host) -> None:
    """Raise when a unit that kept ending ends once more; one that is still starting is waited for later."""
    deadline = time.monotonic() + _STEADY_SECONDS
    before = restarts(host.unit(resource.name, fresh=True))
    while time.monotonic() < deadline:
        shown = host.unit(resource.name, fresh=True)
        if restarts(shown) > before or shown.get("ActiveState") == "failed":
            raise unit_failure(resource.name, f"{resource.name} keeps ending", resource.id)
        time.sleep(0.1)


def _load(name: str, host: Host) -> Dict[str, str]:
    """Have systemd read the unit file where that is newer than what it knows; return the unit's state."""
    shown = host.unit(name, fresh=True)
    if shown.get("NeedDaemonReload") == "yes":
        run(["systemctl", "daemon-reload"])
        shown = host.unit(name, fresh=True)
    return shown


def _link(resource: Unit) -> str:
    return f"{DIRECTORY}/{_WANTS}/{resource.name}"


def _enabled_by(link: str) -> str:
    """Return where the link leads that starts a unit at boot, "" where there is none."""
    return os.readlink(link) if os.path.islink(link) else ""


def _enable(resource: Unit) -> None:
    """Make or remove the link that starts the unit at boot; `systemctl enable` would reload all units too."""
    link = _link(resource)
    there = _enabled_by(link)
    if os.path.lexists(link) and (not resource.enabled or there != resource.path):
        os.unlink(link)
    if resource.enabled and there != resource.path:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(resource.path, link)


def note(resource: Unit, host: Host) -> None:
    """Enter the unit in the ledger: its residue, and what must not be shown of its text later."""
    known = (host.ledger.entries.get(resource.id) or {}).get("data") or {}
    tables = known.get("nft_tables")
    if tables is None:
        tables = nft_tables()
    data = {"residue": list(resource.residue), "nft_tables": tables}
    data.update(hiding.noted(known, read_text(resource.path), resource.text, resource.secrets))
    data["flags"] = sorted({*known.get("flags", ()), *hiding.flags(resource.text, resource.secrets)})
    host.ledger.add(resource.kind, resource.key, data=data)


def _with_unit_file(name: str, inputs: Sequence[str]) -> List[str]:
    return [f"{DIRECTORY}/{name}", *inputs]


def _start(name: str, inputs: Sequence[str], host: Host, verb: str, *, wait: bool = False) -> None:
    before = _record(name, host)
    record = {
        "boot": _boot(),
        "start": None,
        "asked": time.monotonic(),
        "inputs": {p: host.sha256(p) for p in inputs},
        # What the present process read, should this run be killed before the new one starts.
        "before": {k: before[k] for k in ("boot", "start", "inputs")} if before else None,
    }
    os.makedirs(f"{host.state}/units", mode=0o700, exist_ok=True)
    write_whole(f"{host.state}/units/{name}.json", json.dumps(record).encode(), 0o600)
    if host.unit(name).get("ActiveState") == "failed":
        # A unit over its start limit would refuse; its past does not matter to what is asked now.
        run(["systemctl", "reset-failed", "--", name], check=False)
    run(["systemctl", verb, *([] if wait else ["--no-block"]), "--", name], timeout=300)


def unit_failure(name: str, message: str, where: str) -> ResourceError:
    """Return the error of a unit that does not come up, with the last words of its journal."""
    # What the process itself said; systemd's lines about it are in the message already.
    text = run(["journalctl", f"_SYSTEMD_UNIT={name}", "-n", "4", "-o", "cat", "--no-pager"], check=False)
    words = [f"  {line[:240]}" for line in text.splitlines()]
    component = name.rpartition(".")[0]
    return ResourceError(
        "unit-failed", "\n".join([message, *words]), where=where, hint=f"nidome logs {component}"
    )


# What a running process has read.


def observe_restarts(resources: Sequence[Restart], host: Host) -> List[Observed]:
    """Compare what each process read at its start with what its inputs hold now."""
    host.show_units([r.name for r in resources if r.name not in host.units])
    return [_stale(resource, host) for resource in resources]


def _stale(resource: Restart, host: Host) -> Observed:
    shown = host.unit(resource.name)
    if not _runs(shown):
        # What does not run has read nothing; starting it is the unit's own matter.
        return {"stale": [], "$running": False, "$in_force": {}}
    inputs = _with_unit_file(resource.name, resource.inputs)
    start = int(shown.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    read = _read_at_start(resource.name, start, host)
    if read is not None:
        stale = [p for p in inputs if p in read and host.sha256(p) != read[p]] + [
            p for p in inputs if p not in read
        ]
    else:
        began = time.time() - (time.monotonic() - start)
        stale = [p for p in inputs if _changed_at(p) > began]
    return {"stale": sorted(stale), "$running": True, "$in_force": read or {}}


def _changed_at(path: str) -> float:
    """Return when a file's content last became what it is; a further hard link of it is no change."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0.0
    return status.st_ctime if status.st_nlink == 1 else status.st_mtime


def _boot() -> str:
    """Return what tells this start of the host from others: monotonic times mean nothing beyond it."""
    fields = (read_text("/proc/1/stat") or "").rpartition(")")[2].split()
    return f"{(read_text('/proc/sys/kernel/random/boot_id') or '').strip()} {fields[19] if fields else ''}"


def _record(name: str, host: Host) -> Optional[Dict[str, Any]]:
    """Return what was written down when Nidome last asked for the unit's start, None where nothing is."""
    try:
        with open(f"{host.state}/units/{name}.json", encoding="utf-8") as source:
            record = json.load(source)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and {"boot", "start", "inputs"} <= set(record) else None


def _read_at_start(name: str, start: float, host: Host) -> Optional[Dict[str, Optional[str]]]:
    """Return what the process read, or None where somebody else started it since."""
    record = _record(name, host)
    if record is None or record["boot"] != _boot():
        return None
    if start == 0:
        return dict(record["inputs"])
    if record["start"] is None and start >= record["asked"]:
        record["start"] = start
        with contextlib.suppress(OSError):
            write_whole(f"{host.state}/units/{name}.json", json.dumps(record).encode(), 0o600)
    for known in (record, record.get("before") or {}):
        if known.get("boot") == record["boot"] and known.get("start") == start:
            return dict(known["inputs"])
    return None


def note_starts(host: Host) -> None:
    """Write down which process each start that was asked for has become, before anybody else restarts it."""
    directory = f"{host.state}/units"
    names = [n[: -len(".json")] for n in os.listdir(directory)] if os.path.isdir(directory) else []
    waiting = [n for n in names if (_record(n, host) or {"start": 0})["start"] is None]
    host.show_units(waiting)
    for name in waiting:
        _read_at_start(name, int(host.unit(name).get("ExecMainStartTimestampMonotonic") or 0) / 1e6, host)


def apply_restart(resource: Restart, host: Host) -> None:
    """Restart the unit and wait until systemd says that it is up."""
    _load(resource.name, host)
    try:
        _start(resource.name, _with_unit_file(resource.name, resource.inputs), host, "restart", wait=True)
    except ResourceError as error:
        raise unit_failure(resource.name, error.message, resource.id) from None
    host.units.pop(resource.name, None)


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Stop and disable the unit, remove its file and what its process left behind."""
    name, data = entry["key"], entry.get("data") or {}
    _stop(name)
    for path in (
        f"{DIRECTORY}/{_WANTS}/{name}",
        f"{DIRECTORY}/{name}",
        f"{host.state}/units/{name}.json",
        f"{_BACKOFF}/{name}",
    ):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    run(["systemctl", "daemon-reload"], check=False)
    run(["systemctl", "reset-failed", "--", name], check=False)
    for residue in data.get("residue") or []:
        remove_residue(residue.replace("$nft-tables", ",".join(data.get("nft_tables") or [])))


def _stop(name: str) -> None:
    """Stop the unit; raise ResourceError while a process is left, so that its files stay to stop it by."""
    run(["systemctl", "stop", "--", name], check=False, timeout=300)
    shown = run(
        ["systemctl", "show", "--no-pager", "-p", "ActiveState", "--value", "--", name], check=False
    ).strip()
    if shown not in ("inactive", "failed"):
        raise ResourceError(
            "unit-not-stopped",
            f"{name} is still {shown or 'there'} after a stop",
            where=f"Unit:{name}",
            hint=f"see `systemctl status {name}` on the host, then run this again",
        )
