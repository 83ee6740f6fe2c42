"""Disposable hosts: real systemd machines in namespaces, reached over ssh."""

from __future__ import annotations

from nidome.machines.lifecycle import all_names, create, create_many, get, listing, remove, start, stop
from nidome.machines.model import BLOBS_IN_GUEST, DEFAULT_OS, RELEASES, Machine, Progress
from nidome.machines.reach import ssh_arguments
from nidome.machines.requirements import Missing, missing, require

__all__ = [
    "BLOBS_IN_GUEST",
    "DEFAULT_OS",
    "RELEASES",
    "Machine",
    "Missing",
    "Progress",
    "all_names",
    "create",
    "create_many",
    "get",
    "listing",
    "missing",
    "remove",
    "require",
    "ssh_arguments",
    "start",
    "stop",
]
