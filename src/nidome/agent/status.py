"""What runs on this host, for a person to read: each component's version, state, restarts and since when."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from nidome.agent.resources.restarts import STEADY_SECONDS, keeps_ending, restarts, seconds_up
from nidome.agent.system import run

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["components"]

_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,NRestarts,Result,ExecStart,ActiveEnterTimestamp,InactiveEnterTimestamp,"
    "ExecMainStartTimestampMonotonic"
)
_PROGRAM = re.compile(r"path=(\S+)")
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)")
_VERSION_SECONDS = 10
_STAMP_WORDS = 4


def components(names: Sequence[str], host: Host) -> List[Dict[str, Any]]:
    """Return each unit's component in the order given.

    ``state`` is systemd's (with the sub-state), ``since`` the UTC time at which the unit became active, or
    ended where it is not active; "" where it never was. ``version`` is what the program itself says.
    ``steady`` is whether it is not just another start of a unit that keeps ending.
    """
    if not names:
        return []
    shown = _shown(names)
    with ThreadPoolExecutor(len(names)) as pool:
        versions = list(pool.map(lambda p: _version(p, host), shown))
    return [_component(name, unit, version) for name, unit, version in zip(names, shown, versions)]


def _shown(names: Sequence[str]) -> List[Dict[str, str]]:
    # systemd writes times in the caller's zone.
    text = run(["env", "TZ=UTC", "systemctl", "show", "--no-pager", "-p", _PROPERTIES, "--", *names])
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n")
    ]


def _component(name: str, unit: Dict[str, str], version: str) -> Dict[str, Any]:
    active = unit.get("ActiveState", "")
    stamp = unit.get("ActiveEnterTimestamp" if active == "active" else "InactiveEnterTimestamp", "")
    return {
        "component": name.rpartition(".")[0],
        "unit": name,
        "version": version,
        "state": active if unit.get("LoadState") != "not-found" else "missing",
        "substate": unit.get("SubState", ""),
        "restarts": restarts(unit),
        "steady": not keeps_ending(unit) or seconds_up(unit) > STEADY_SECONDS,
        "since": _iso(stamp),
        "result": unit.get("Result", ""),
    }


def _iso(stamp: str) -> str:
    """Return ``Mon 2026-11-30 16:54:01 UTC`` as ISO 8601."""
    words = stamp.split()
    return f"{words[1]}T{words[2]}Z" if len(words) == _STAMP_WORDS else ""


def _version(unit: Dict[str, str], host: Host) -> str:
    found = _PROGRAM.search(unit.get("ExecStart", ""))
    program = found.group(1) if found else ""
    # A script's version is not its interpreter's.
    if not program or os.path.basename(program).startswith(("python", "sh")):
        return ""
    return str(host.learned("version", program, _ask) or "")


def _ask(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(done.stdout.decode(errors="replace"))
    return found.group(1) if found else ""
