"""A host for tests of resource kinds: the agent's own view, with its state in a directory of the test."""

from __future__ import annotations

import grp
import os
import pwd
import signal
from typing import TYPE_CHECKING

import pytest

from nidome.agent.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GUARD_SECONDS = 20


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a host that keeps its ledger and its hashes below the test's directory."""
    (tmp_path / "state").mkdir()
    return Host(str(tmp_path / "state"))


@pytest.fixture
def again(tmp_path: Path, host: Host) -> Host:
    """Return the host as the next agent process finds it; use it after ``host.close()``."""
    del host
    return Host(str(tmp_path / "state"))


@pytest.fixture
def me() -> tuple[str, str]:
    """Return the user and the group that the tests run as, by name."""
    return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


@pytest.fixture
def promptly() -> Iterator[None]:
    """End a test that waits for what never comes, such as a pipe's other side."""

    def end(*_: object) -> None:
        raise TimeoutError(f"still waiting after {_GUARD_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_GUARD_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
