"""What every run does before its first play, as tasks under the names that people look for.

These tasks have no resources: connecting, gathering facts, checking and observing happen for all hosts at
once before anything is planned, whatever tags are chosen. Here they are told, each in the play where
kubespray's users expect it, with the time that it took.
"""

from __future__ import annotations

from nidome.roles.base import HostContext, Role, Task
from nidome.roles.preflight import CHECKS, Check

__all__ = [
    "CONNECT",
    "CONNECT_TITLE",
    "DOWNLOAD",
    "FACTS",
    "FIT",
    "UNCHANGED_TITLE",
    "VALIDATE",
    "check_title",
]

_FIT_ROLE = "kubernetes/preinstall"
_CONNECT = Task("nidome", "Connect to the host", (), ("check", "always"), phase="connect")
_UNCHANGED = "Stop unless settings that cannot change are as they were"
CONNECT_TITLE = _CONNECT.title
UNCHANGED_TITLE = f"{_FIT_ROLE} : {_UNCHANGED}"


def check_title(check: Check) -> str:
    """Return the title of the task that tells of a preflight check."""
    return f"{_FIT_ROLE} : {_check_name(check)}"


def _check_name(check: Check) -> str:
    return f"Stop unless {check.meaning}"


def _connect(_context: HostContext) -> list[Task]:
    return [_CONNECT]


def _validate(_context: HostContext) -> list[Task]:
    return [Task("validate_inventory", "Check what is declared", (), ("asserts", "always"))]


def _facts(_context: HostContext) -> list[Task]:
    tags = ("facts", "always")
    return [
        Task("nidome", "Gather facts", (), tags, phase="facts"),
        Task("nidome", "Compare the host with the declaration", (), tags, phase="observe"),
    ]


def _fit(_context: HostContext) -> list[Task]:
    tags = ("preinstall", "asserts", "always")
    names = (_UNCHANGED, *map(_check_name, CHECKS))
    return [Task(_FIT_ROLE, name, (), tags) for name in names]


def _download(_context: HostContext) -> list[Task]:
    tags = ("download", "always")
    return [
        Task("download", "Get what the plays install", (), tags, phase="artifacts"),
        Task("download", "Send what the host does not have", (), tags, phase="stage"),
    ]


CONNECT = Role("nidome", _connect)
VALIDATE = Role("validate_inventory", _validate)
FACTS = Role("nidome", _facts)
FIT = Role(_FIT_ROLE, _fit)
DOWNLOAD = Role("download", _download)
