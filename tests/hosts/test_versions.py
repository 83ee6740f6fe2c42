"""The older release of Kubernetes, with everything on that can be, and its way to the newer one.

The tests of this file share one cluster, in this order.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster

from nidome.declare.shapes import SIGNALS
from nidome.declare.variables import KUBE_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.hosts

_NEWER, _OLDER = KUBE_VERSIONS
_SCRIPT = Path(__file__).parents[2] / "scripts" / "component_flags.py"
_PASSWORD = "hunter2-of-the-registry"  # noqa: S105 - looked for where it must not be
_VARIABLES: dict[str, Any] = {
    "kube_version": f"v{_OLDER}",
    "kube_encrypt_secret_data": True,
    "kubernetes_audit": True,
    "kube_reserved": True,
    "system_reserved": True,
    "eviction_hard": {signal: "1%" if "pid" not in signal else "100" for signal in SIGNALS},
    "http_proxy": "http://proxy.example:3128",
    "containerd_registries_mirrors": [
        {"prefix": "docker.io", "mirrors": [{"host": "https://mirror.example"}]}
    ],
    "containerd_registry_auth": [{"registry": "10.0.0.9:5000", "username": "me", "password": _PASSWORD}],
    "kube_oidc_auth": True,
    "kube_oidc_url": "https://idp.example",
    "kube_oidc_client_id": "kube",
    "kube_webhook_token_auth": True,
    "kube_webhook_token_auth_url": "https://hook.example/token",
}
# Components say so where they read a configuration that they do not know in full, or a flag that will go.
_COMPLAINTS = "lenient|unknown field|flag .* deprecated|unrecognized"


@pytest.fixture(scope="module")
def cluster(cluster_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for this file."""
    made = Cluster(tmp_path_factory.mktemp("versions"), cluster_cache, variables=dict(_VARIABLES))
    try:
        made.up()
        yield made
    finally:
        made.remove()


def _changed(events: list[dict[str, Any]]) -> int:
    found: int = events[-1]["recap"]["node1"]["changed"]
    return found


def _version(cluster: Cluster) -> tuple[str, str]:
    node = cluster.kubectl("get", "node", "node1", "-o", "jsonpath={.status.nodeInfo.kubeletVersion}")
    server = json.loads(cluster.kubectl("get", "--raw", "/version"))["gitVersion"]
    return node, server


def _pods(cluster: Cluster) -> list[tuple[str, str]]:
    items = json.loads(cluster.kubectl("get", "pods", "-A", "-o", "json"))["items"]
    return [
        (pod["metadata"]["uid"], status["containerID"])
        for pod in items
        for status in pod["status"]["containerStatuses"]
    ]


def _complaints(cluster: Cluster) -> str:
    units = " ".join(
        f"-u {n}"
        for n in ("kubelet", "kube-proxy", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
    )
    return cluster.host(f"journalctl {units} -o cat | grep -iE '{_COMPLAINTS}'", check=False)


def test_flags_are_those_of_the_binaries() -> None:
    """The table of flags is what the components of every supported release say themselves."""
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_older_release(cluster: Cluster) -> None:
    """The older release becomes Ready with everything on, a second run changes nothing, and nobody complains."""
    assert _version(cluster) == (f"v{_OLDER}", f"v{_OLDER}")
    assert _changed(cluster.apply()) == 0
    assert _complaints(cluster) == ""


def test_what_is_declared_is_in_force(cluster: Cluster) -> None:
    """Reservations, the proxy, the audit log and the mirrors are what the live components work by."""
    allocatable = json.loads(cluster.kubectl("get", "node", "node1", "-o", "json"))["status"]
    cores = int(allocatable["capacity"]["cpu"]) * 1000
    assert allocatable["allocatable"]["cpu"] == f"{cores - 600}m"
    environment = cluster.host(
        "tr '\\0' '\\n' < /proc/$(systemctl show -p MainPID --value containerd)/environ"
    )
    assert "HTTP_PROXY=http://proxy.example:3128" in environment
    assert "mirror.example" in cluster.host("crictl pull docker.io/library/none:1 2>&1", check=False)
    cluster.kubectl("create", "configmap", "audited")
    logged = [
        json.loads(line)
        for line in cluster.host("grep audited /var/log/audit/kube-apiserver-audit.log").splitlines()
    ]
    assert {(entry["verb"], entry["level"]) for entry in logged} == {("create", "Metadata")}


def test_passwords_stay_with_root(cluster: Cluster) -> None:
    """A registry's password is in containerd's configuration alone, which only root reads."""
    assert cluster.host("stat -c %a /etc/containerd/config.toml") == "600"
    found = cluster.host(f"grep -rl {_PASSWORD} /etc /var/lib/nidome /var/log 2>/dev/null", check=False)
    assert found == "/etc/containerd/config.toml"
    assert not [p for p in (cluster.home / "state").rglob("*") if p.is_file() and _PASSWORD in p.read_text()]


def test_an_earlier_password_is_not_shown(cluster: Cluster) -> None:
    """Where a password is no longer declared, plans and diffs show what else changes, and neither do records."""
    auth = cluster.variables.pop("containerd_registry_auth")
    try:
        plan = cluster.nidome("plan", *cluster._extra(), status=2).stdout
        document = json.dumps(cluster.plan())
        diff = cluster.nidome(
            "playbook",
            "-i",
            str(cluster.inventory),
            "cluster.yml",
            "--check",
            "--diff",
            *cluster._extra(),
        ).stdout
    finally:
        cluster.variables["containerd_registry_auth"] = auth
    for text in (plan, document, diff):
        assert _PASSWORD not in text
        assert "*** (earlier)" in text
    assert '-    username = "me"' in diff
    line = "containerd_max_container_log_line_size"
    cluster.variables[line] = 32768
    try:
        changed = cluster.nidome("plan", *cluster._extra(), status=2).stdout
    finally:
        del cluster.variables[line]
    assert "+  max_container_log_line_size = 32768" in changed
    recorded = [path for path in (cluster.home / "state" / "runs").rglob("*") if path.is_file()]
    assert not [path for path in recorded if _PASSWORD in path.read_text()]
    assert {path.stat().st_mode & 0o777 for path in recorded} == {0o600}


def test_secrets_are_encrypted(cluster: Cluster) -> None:
    """A Secret is encrypted where it is stored, and read back as it was written."""
    cluster.kubectl("create", "secret", "generic", "mine", "--from-literal=word=plain-to-see")
    assert cluster.host(
        "grep -a -c plain-to-see /var/lib/kine/state.db /var/lib/kine/state.db-wal", check=False
    ).split() == [
        "/var/lib/kine/state.db:0",
        "/var/lib/kine/state.db-wal:0",
    ]
    assert cluster.kubectl("get", "secret", "mine", "-o", "jsonpath={.data.word}") == "cGxhaW4tdG8tc2Vl"


def test_a_part_of_an_upgrade_is_refused(cluster: Cluster) -> None:
    """Chosen tasks cannot bring a part of another release; nothing is changed by the attempt."""
    cluster.variables["kube_version"] = _NEWER
    arguments = [f"-e{name}={json.dumps(value)}" for name, value in cluster.variables.items()]
    done = cluster.nidome("apply", *arguments, "--tags", "kubelet", status=1)
    assert "upgrade-partial" in done.stderr + done.stdout
    assert _version(cluster) == (f"v{_OLDER}", f"v{_OLDER}")


def test_an_interrupted_upgrade_goes_on(cluster: Cluster) -> None:
    """An upgrade that is killed after its first program is remembered by the host: the older release is refused."""
    arguments = [f"-e{name}={json.dumps(value)}" for name, value in cluster.variables.items()]
    running = cluster.start("apply", "--view", "json", *arguments)
    assert running.stdout is not None
    for line in running.stdout:
        if "Install kube-apiserver" in line and "task_finished" in line:
            break
    running.send_signal(signal.SIGKILL)
    running.communicate()
    done = cluster.nidome("plan", "-e", f"kube_version={_OLDER}", status=1)
    assert "kubernetes-downgrade" in done.stderr + done.stdout


def test_upgrade_in_place(cluster: Cluster) -> None:
    """An apply with the newer release upgrades every component; pods go on, data stays, a second run is empty."""
    before = _pods(cluster)
    planned = cluster.plan()["hosts"]["node1"]
    events = cluster.apply()
    done = [e["task"] for e in events if e["type"] == "task_finished" and e["status"] == "changed"]
    assert done == [step["task"] for step in planned]
    restarted = {task.rpartition(" ")[2] for task in done if ": Restart " in task}
    assert restarted == {
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
    }
    assert _version(cluster) == (f"v{_NEWER}", f"v{_NEWER}")
    assert _pods(cluster) == before
    assert cluster.kubectl("get", "secret", "mine", "-o", "jsonpath={.data.word}") == "cGxhaW4tdG8tc2Vl"
    assert _changed(cluster.apply()) == 0
    assert _complaints(cluster) == ""


def test_no_way_back(cluster: Cluster) -> None:
    """The older release is refused from then on, by plan and apply, with what to do."""
    arguments = ["-e", f"kube_version={_OLDER}"]
    for command in ("plan", "apply"):
        done = cluster.nidome(command, *arguments, status=1)
        assert "kubernetes-downgrade" in done.stderr + done.stdout
        assert f"set kube_version: {_NEWER}" in done.stderr + done.stdout


def test_everything_off_again(cluster: Cluster) -> None:
    """With everything off again what was encrypted is still read, and a reset leaves no trace of any of it."""
    cluster.variables = {"kube_version": _NEWER, "kubernetes_audit": True}
    cluster.apply()
    assert _changed(cluster.apply()) == 0
    assert cluster.kubectl("get", "secret", "mine", "-o", "jsonpath={.data.word}") == "cGxhaW4tdG8tc2Vl"
    cluster.kubectl("create", "secret", "generic", "late", "--from-literal=word=plain-to-see")
    assert "plain-to-see" in cluster.host("grep -a -o plain-to-see /var/lib/kine/state.db-wal | head -1")
    assert cluster.host("ls /etc/containerd") == "config.toml"
    cluster.nidome("reset", "-y", "-e", f"kube_version={_NEWER}")
    left = "ls -d /var/log/audit /etc/kubernetes /etc/containerd /var/lib/kine 2>/dev/null"
    assert cluster.host(left, check=False) == ""
