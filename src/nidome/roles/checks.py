"""What every run does before its first play, as tasks under the names that people look for.

These tasks have no resources: connecting, gathering facts, checking and observing happen for all hosts at
once before anything is planned, whatever tags are chosen. Here they are told, each in the play where
kubespray's users expect it, with the time that it took.
"""

from __future__ import annotations

from nidome.roles.base import HostContext, Role, Task
from nidome.roles.preflight import CHECKS

__all__ = ["CONNECT", "DOWNLOAD", "FACTS", "FIT", "VALIDATE"]


def _connect(_context: HostContext) -> list[Task]:
    return [Task("nidome", "Connect to the host", (), ("check", "always"), phase="connect")]


def _validate(_context: HostContext) -> list[Task]:
    return [Task("validate_inventory", "Check what is declared", (), ("asserts", "always"))]


def _facts(_context: HostContext) -> list[Task]:
    tags = ("facts", "always")
    return [
        Task("nidome", "Gather facts", (), tags, phase="facts"),
        Task("nidome", "Compare the host with the declaration", (), tags, phase="observe"),
    ]


def _fit(_context: HostContext) -> list[Task]:
    role, tags = "kubernetes/preinstall", ("preinstall", "asserts", "always")
    unchanged = Task(role, "Stop unless settings that cannot change are as they were", (), tags)
    return [unchanged, *(Task(role, f"Stop unless {check.meaning}", (), tags) for check in CHECKS)]


def _download(_context: HostContext) -> list[Task]:
    tags = ("download", "always")
    return [
        Task("download", "Get what the plays install", (), tags, phase="artifacts"),
        Task("download", "Send what the host does not have", (), tags, phase="stage"),
    ]


CONNECT = Role("nidome", _connect)
VALIDATE = Role("validate_inventory", _validate)
FACTS = Role("nidome", _facts)
FIT = Role("kubernetes/preinstall", _fit)
DOWNLOAD = Role("download", _download)
