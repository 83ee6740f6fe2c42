"""Disposable hosts: real systemd machines in namespaces, reached over ssh."""

from __future__ import annotations

from nidome.machines.lifecycle import create, create_many, get, listing, start, stop
from nidome.machines.model import BLOBS_IN_GUEST, DEFAULT_OS, RELEASES, Machine
from nidome.machines.reach import ssh_arguments
from nidome.machines.removal import names, remove
from nidome.machines.requirements import Missing, missing, require

__all__ = [
    "BLOBS_IN_GUEST",
    "DEFAULT_OS",
    "RELEASES",
    "Machine",
    "Missing",
    "create",
    "create_many",
    "get",
    "listing",
    "missing",
    "names",
    "remove",
    "require",
    "ssh_arguments",
    "start",
    "stop",
]
