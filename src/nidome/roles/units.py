"""systemd units of components, from one table of what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BACKOFF_PATH", "Service", "native_backoff"]

_ONLINE = "network-online.target"
BACKOFF_PATH = "/usr/local/lib/nidome/backoff"
_RESTART_STEPS_SINCE = 254  # systemd's RestartSteps= and RestartMaxDelaySec=


def native_backoff(facts: Mapping[str, Any]) -> bool:
    """Tell whether the host's systemd itself can restart ever more slowly."""
    return int(facts["systemd"]) >= _RESTART_STEPS_SINCE


@dataclass(frozen=True)
class Service:
    """What makes one component's unit different; everything else is common to all.

    ``inputs`` are files read at start only. ``stop_seconds`` is how long an orderly stop may take before
    the process is killed. ``settings`` are further lines of the [Service] section.
    """

    name: str
    description: str
    command: Sequence[str]
    inputs: tuple[str, ...]
    notify: bool = False
    after: tuple[str, ...] = ()
    stop_seconds: int = 10
    settings: tuple[str, ...] = ()
    residue: tuple[str, ...] = ()

    def unit(self, facts: Mapping[str, Any]) -> Unit:
        """Return the unit for a host."""
        residue = (*self.residue, f"unneeded-target:{_ONLINE}")
        return Unit(f"{self.name}.service", self._text(facts), inputs=self.inputs, residue=residue)

    def _text(self, facts: Mapping[str, Any]) -> str:
        after = " ".join([_ONLINE, *self.after])
        lines = ["[Unit]", f"Description={self.description}", f"After={after}", f"Wants={_ONLINE}"]
        # No limit on starts: a component that cannot start yet is tried again, ever more slowly.
        lines += ["StartLimitIntervalSec=0", "", "[Service]", f"Type={'notify' if self.notify else 'exec'}"]
        lines += [f"ExecStart={_command(self.command)}", "Restart=always", *_backoff(facts)]
        lines += [f"TimeoutStopSec={self.stop_seconds}", "TimeoutStartSec=300", *self.settings]
        lines += ["", "[Install]", "WantedBy=multi-user.target", ""]
        return "\n".join(lines)


def _backoff(facts: Mapping[str, Any]) -> list[str]:
    if native_backoff(facts):
        return ["RestartSec=100ms", "RestartSteps=8", "RestartMaxDelaySec=10s"]
    return ["RestartSec=100ms", f"ExecStartPre={BACKOFF_PATH} %n"]


def _command(words: Sequence[str]) -> str:
    """Return the command line, one argument a line; systemd's own specifiers and quotes escaped."""
    return " \\\n  ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    escaped = word.replace("%", "%%").replace("$", "$$")
    if not escaped or any(c in escaped for c in " \t\n\"'\\;"):
        return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return escaped
