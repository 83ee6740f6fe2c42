"""A first install that is killed at any moment is finished by the next run, in the state of an undisturbed one."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts

_SOAK = bool(os.environ.get("NIDOME_SOAK"))
_SEEDS = range(100 if _SOAK else 5)
_INSTALL_SECONDS = 8.0  # kills fall into the time that an undisturbed install takes
_RANGE = "10.61.77.0/24"  # one address for all, so that the files that name it are the same
_AGENT = "import sys,os,json"  # the first line of what an agent is started with

# Keys and certificates are different in every cluster; so is what Nidome notes of inodes and times.
_UNIQUE = re.compile(
    r"^[0-9a-f]{64}  (/etc/kubernetes/ssl/|/var/lib/nidome/(ledger|known|declared|units)|/etc/ssh/|/etc/machine-id|/root/\.ssh/|.*\.pyc$)"
)


@pytest.fixture(scope="module")
def undisturbed(cluster_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what a host looks like after an install that nothing disturbed."""
    made = Cluster(tmp_path_factory.mktemp("undisturbed"), cluster_cache, range=_RANGE)
    try:
        made.up()
        made.apply()
        return _state(made)
    finally:
        made.remove()


@pytest.fixture
def cluster(cluster_cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Give a host without a cluster, and the inventory for one."""
    made = Cluster(tmp_path, cluster_cache, range=_RANGE)
    # A check that cannot pass: the host and the inventory are made, and nothing is installed.
    try:
        made.nidome("up", "-e", "kube_apiserver_port=22", status=1)
        yield made
    finally:
        made.remove()


def _state(cluster: Cluster) -> list[str]:
    seen = cluster.snapshot(identities=False)
    files = [line for line in seen.files if not _UNIQUE.match(line)]
    units = [
        re.sub(r"(MainPID|ExecMainStartTimestampMonotonic|NRestarts)=\d+", "", block) for block in seen.units
    ]
    # Pods, their replica sets and requests for certificates have names made up at random.
    objects = [
        o for o in seen.objects if o.split()[0] not in ("Pod", "EndpointSlice", "CertificateSigningRequest")
    ]
    return sorted([*files, *units, *seen.kernel[-3:], *objects])


def _finish(cluster: Cluster, undisturbed: list[str]) -> None:
    events = cluster.apply()
    assert events[-1]["ok"]
    assert cluster.apply()[-1]["recap"]["node1"]["changed"] == 0
    now = _state(cluster)
    assert [f"- {line}" for line in undisturbed if line not in now] + [
        f"+ {line}" for line in now if line not in undisturbed
    ] == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_nidome_killed(cluster: Cluster, undisturbed: list[str], seed: int) -> None:
    """Kill -9 of nidome in the middle of a first install."""
    running = cluster.start("apply", "--view", "json")
    time.sleep(random.Random(seed).uniform(0.2, _INSTALL_SECONDS))  # noqa: S311 - a moment, not a secret
    running.send_signal(signal.SIGKILL)
    running.communicate()
    _finish(cluster, undisturbed)


@pytest.mark.parametrize("seed", _SEEDS)
def test_agent_killed(cluster: Cluster, undisturbed: list[str], seed: int) -> None:
    """Kill -9 of the agent on the host in the middle of a first install: the run says so and ends with 1."""
    running = cluster.start("apply", "--view", "json")
    time.sleep(random.Random(1000 + seed).uniform(0.5, _INSTALL_SECONDS))  # noqa: S311 - as above
    killed = cluster.host(f"pgrep -o -f '^python3 -I -S -c .{_AGENT}' | xargs -r kill -9", check=False)
    said, _ = running.communicate(timeout=300)
    assert killed == ""
    assert running.returncode in (0, 1)
    assert "Traceback" not in said
    _finish(cluster, undisturbed)
