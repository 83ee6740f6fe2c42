"""The first lab page, in its order: list the plays, run the playbook twice, change one value, run with a tag.

Once over ssh, and once as the page has it, on the node itself with ``ansible_connection=local``. What the
records say is read from the kept output a second time here, by expressions that know nothing of Nidome.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster

from nidome.events import from_json
from nidome.prove.ansiblelog import from_events, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.hosts

KUBE_VERSION = "1.35.8"
"""What the page's inventory asks for."""

_CONTAINERD = "group_vars/all/containerd.yml"
_INVENTORY = """\
node1 {variables} ip={address} etcd_member_name=etcd1

[kube_control_plane]
node1

[etcd]
node1

[kube_node]
node1
"""
_KUBECTL = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl"
_RESTART = "container-engine/containerd : Containerd | restart containerd"
_CONFIGURE = "container-engine/containerd : Write containerd configuration"


@dataclass
class Page:
    """Where the page is worked on: ``shell`` is the learner's, ``node`` runs on the node."""

    shell: Callable[[str], str]
    node: Callable[[str], str]
    inventory: str
    logs: str
    install: str

    def playbook(self, words: str, log: str) -> str:
        """Run the playbook with its output kept by tee; it must end with 0."""
        kept = f"{self.logs}/{log}"
        self.shell(f"set -o pipefail; nidome playbook -i {self.inventory}/inventory.ini {words} | tee {kept}")
        return self.shell(f"cat {kept}")

    def node_object(self) -> dict[str, Any]:
        """Return the Node as kubectl on the node gives it."""
        found: dict[str, Any] = json.loads(self.node(f"{_KUBECTL} get node node1 -o json"))
        return found

    def ready(self) -> bool:
        """Whether the Node is Ready."""
        conditions = {c["type"]: c["status"] for c in self.node_object()["status"]["conditions"]}
        return bool(conditions["Ready"] == "True")

    def pods(self) -> list[tuple[str, ...]]:
        """Return every container of every pod: its id tells whether it is still the same process."""
        pods = json.loads(self.node(f"{_KUBECTL} get pods -A -o json"))["items"]
        return sorted(
            (pod["metadata"]["uid"], c["containerID"], str(c["restartCount"]), str("running" in c["state"]))
            for pod in pods
            for c in pod["status"]["containerStatuses"]
        )


# Reading as a person does.


def _recap(log: str) -> dict[str, int]:
    line = re.findall(r"^node1 +: (ok=.*)$", log, re.MULTILINE)[-1]
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)}


def _elapsed(log: str) -> int:
    heading = log[log.index("TASKS RECAP") :].splitlines()[1]
    hours, minutes, seconds = re.findall(r"(\d+):(\d\d):(\d\d)\.\d{3}", heading)[-1]
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _slowest(log: str) -> str:
    first = log[log.index("TASKS RECAP") :].splitlines()[3]
    return re.sub(r" -+ ?\d+\.\d\ds$", "", first)


def _changed(log: str) -> list[str]:
    heading, found = "", []
    for line in log.splitlines():
        if match := re.match(r"(?:TASK|RUNNING HANDLER) \[(.*)\] \*+$", line):
            heading = match[1]
        if line.startswith("changed: [node1]"):
            found.append(heading)
    return found


def _by_hand(listing: str, logs: list[str], page: Page) -> dict[str, Any]:
    """Return what the page has one write, from the outputs alone and the cluster."""
    plays = {
        name: int(number)
        for number, name in re.findall(r"^ +play #(\d+) \(.*\): (.*)\tTAGS", listing, re.MULTILINE)
    }
    first, second, tagged = logs
    one, two = _recap(first), _recap(second)
    version = json.loads(page.node(f"{_KUBECTL} get --raw /version"))["gitVersion"]
    counts = ("ok", "changed", "failed")
    return {
        "plan.json": {
            "play_count": len(plays),
            "etcd_play": plays["Install etcd"],
            "cni_play": plays["Invoke kubeadm and install a CNI"],
            "apps_play": plays["Install Kubernetes apps"],
        },
        "run1.json": {
            **{name: one[name] for name in counts},
            "elapsed_sec": _elapsed(first),
            "slowest_task": _slowest(first),
            "node_uid": page.node_object()["metadata"]["uid"],
        },
        "run2.json": {**{name: two[name] for name in counts}, "elapsed_sec": _elapsed(second)},
        "report.json": {
            "kubespray": "v2.32.0",
            "server_version": version,
            "first_run_sec": _elapsed(first),
            "second_run_sec": _elapsed(second),
            "first_changed": one["changed"],
            "second_changed": two["changed"],
            "tags_run_changed": _recap(tagged)["changed"],
            "containerd_restarted": _RESTART in _changed(tagged),
        },
    }


# The page.


def _work_through(page: Page) -> None:
    listing = page.shell(f"nidome playbook -i {page.inventory}/inventory.ini cluster.yml --list-tasks")
    first = page.playbook("cluster.yml", "cluster-1.log")
    assert _recap(first)["failed"] == 0
    assert page.ready()
    uid = page.node_object()["metadata"]["uid"]
    second = page.playbook("cluster.yml", "cluster-2.log")
    assert (_recap(second)["failed"], _recap(second)["changed"], _changed(second)) == (0, 0, [])
    assert page.node_object()["metadata"]["uid"] == uid
    tagged = _change_one_value(page)
    _report(page, listing, [first, second, tagged])


def _change_one_value(page: Page) -> str:
    """Add the value, look at what it would change, run with the tag; return that run's output."""
    begun = page.node("systemctl show -p ActiveEnterTimestampMonotonic --value containerd")
    pods = page.pods()
    assert pods
    page.shell(f"echo 'containerd_max_container_log_line_size: 32768' >> {page.inventory}/{_CONTAINERD}")
    dry = page.playbook("cluster.yml --tags containerd --check --diff", "dry.log")
    assert _changed(dry) == [_CONFIGURE, _RESTART]
    assert "-  max_container_log_line_size = 16384\n+  max_container_log_line_size = 32768\n" in dry
    assert "max_container_log_line_size = 16384" in page.node("cat /etc/containerd/config.toml")
    tagged = page.playbook("cluster.yml --tags containerd", "containerd.log")
    assert _changed(tagged) == [_CONFIGURE, _RESTART]
    assert f"RUNNING HANDLER [{_RESTART}] ***" in tagged
    assert "max_container_log_line_size = 32768" in page.node("cat /etc/containerd/config.toml")
    after = page.node("systemctl show -p ActiveEnterTimestampMonotonic --value containerd")
    assert int(after) > int(begun)
    assert page.ready()
    assert page.pods() == pods
    return tagged


def _report(page: Page, listing: str, logs: list[str]) -> None:
    command = f"nidome runs report -i {page.inventory}/inventory.ini --format kubespray-lab"
    kept = " ".join(
        f"--{name} {page.logs}/{file}"
        for name, file in (
            ("log1", "cluster-1.log"),
            ("log2", "cluster-2.log"),
            ("log-tags", "containerd.log"),
        )
    )
    for directory, words in ((page.install, ""), (f"{page.install}-2", kept)):
        page.shell(f"{command} -o {directory} {words}")
        files = {
            name: json.loads(page.shell(f"cat {directory}/{name}"))
            for name in ("plan.json", "run1.json", "run2.json", "report.json")
        }
        assert files == _by_hand(listing, logs, page)
        assert page.shell(f"cat {directory}/changed.txt").splitlines() == _changed(logs[1])


@pytest.fixture
def cluster(cluster_cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Give a disposable host with nothing on it."""
    made = Cluster(tmp_path, cluster_cache)
    try:
        made.nidome("machines", "create", made.name, "--blobs", str(made.cache / "blobs" / "sha256"))
        yield made
    finally:
        made.remove()


def _group_vars(root: Path) -> None:
    for name, text in {
        _CONTAINERD: "# containerd_max_container_log_line_size: 16384\n",
        "group_vars/k8s_cluster/k8s-cluster.yml": f"kube_version: {KUBE_VERSION}\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def _here(cluster: Cluster) -> Page:
    """Return the page worked on from this machine, over ssh."""
    environment = {**cluster.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def shell(script: str) -> str:
        done = subprocess.run(
            ["/bin/bash", "-c", script], env=environment, cwd=cluster.home, capture_output=True, text=True,
            check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    machine = json.loads(shell("nidome machines list --json"))[0]
    ways = f"-o UserKnownHostsFile={machine['known_hosts']} -o StrictHostKeyChecking=yes"
    variables = (
        f"ansible_host={machine['address']} ansible_user={machine['user']} ansible_port={machine['port']} "
        f"ansible_ssh_private_key_file={machine['key']} ansible_ssh_common_args='{ways}'"
    )
    inventory = cluster.home / "ks" / "inventory" / "lab"
    _group_vars(inventory)
    text = _INVENTORY.format(variables=variables, address=machine["address"])
    (inventory / "inventory.ini").write_text(text, encoding="utf-8")
    (cluster.home / "logs").mkdir()
    return Page(
        shell, cluster.host, str(inventory), str(cluster.home / "logs"), str(cluster.home / "install")
    )


def test_the_page_over_ssh(cluster: Cluster) -> None:
    """The whole page works over ssh, its records are what a person reads, and a reset ends it."""
    page = _here(cluster)
    _work_through(page)
    for record in sorted((cluster.home / "state" / "runs").iterdir()):
        stored = (record / "events.jsonl").read_text(encoding="utf-8").splitlines()
        events = [event for line in stored if (event := from_json(json.loads(line))) is not None]
        assert parse(page.shell(f"nidome runs log {record.name}")) == from_events(events)
    begun = page.shell(f"nidome playbook -i {page.inventory}/inventory.ini cluster.yml --detach")
    followed = page.shell(f"nidome runs attach {begun.split()[1]}")
    assert _recap(followed)["changed"] == 0
    reset = page.playbook("reset.yml -e reset_confirmation=yes", "reset.log")
    assert _recap(reset)["failed"] == 0
    assert "TASK [reset : Stop and remove kubelet] ***" in reset
    assert page.node("ls -d /etc/kubernetes /var/lib/kubelet /etc/containerd 2>/dev/null; true") == ""


def test_logs_are_what_happened(cluster: Cluster) -> None:
    """What a real run printed, kept by tee, says exactly what its record says."""
    page = _here(cluster)
    kept = page.playbook("cluster.yml", "cluster-1.log")
    (record,) = (cluster.home / "state" / "runs").iterdir()
    stored = (record / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [event for line in stored if (event := from_json(json.loads(line))) is not None]
    assert parse(kept) == from_events(events)
    assert page.shell("nidome runs log") == kept


def _program() -> bytes:
    """Return nidome with the libraries that read inventories, for the host's own Python."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for package in ("nidome", "yaml", "jinja2", "markupsafe", "netaddr"):
            found = importlib.util.find_spec(package)
            assert found is not None
            root = Path(str(found.origin)).parent
            archive.add(
                root, root.name, filter=lambda f: None if f.name.endswith((".so", "__pycache__")) else f
            )
    return packed.getvalue()


def _inside(cluster: Cluster) -> Page:
    """Return the page worked on at the node itself, where it has its places."""
    address = cluster.host("hostname -I").split()[0]
    local = Path(cluster.home / "inside")
    _group_vars(local)
    text = _INVENTORY.format(variables="ansible_connection=local", address=address)
    files = {
        "/root/program.tgz": _program(),
        "/root/cache/index.json": (cluster.cache / "index.json").read_bytes(),
        "/root/ks/inventory/lab/inventory.ini": text.encode(),
        "/root/bin/nidome": b'#!/bin/sh\nexec python3 -m nidome.cli.main "$@"\n',
        **{f"/root/ks/inventory/lab/{p.relative_to(local)}": p.read_bytes() for p in local.rglob("*.yml")},
    }
    for path, content in files.items():
        command = cluster.command(
            "machines", "ssh", cluster.name, "--", f"mkdir -p $(dirname {path}); cat > {path}"
        )
        subprocess.run(command, input=content, env=cluster.environment, check=True)
    cluster.host(
        "mkdir -p /root/program /root/cache/blobs /root/ks/logs /opt/ks/kubespray; chmod +x /root/bin/nidome; "
        "tar -xzf /root/program.tgz -C /root/program; ln -s /run/host/nidome/blobs /root/cache/blobs/sha256"
    )

    def shell(script: str) -> str:
        setting = "PATH=/root/bin:$PATH NIDOME_CACHE_DIR=/root/cache PYTHONPATH=/root/program"
        whole = f"cd /opt/ks/kubespray; export {setting}; {script}"
        return cluster.host(f"bash -c {shlex.quote(whole)}")

    return Page(shell, cluster.host, "/root/ks/inventory/lab", "/root/ks/logs", "/root/ks/install")


def test_the_page_on_the_node_itself(cluster: Cluster) -> None:
    """The whole page works on the node itself with ansible_connection=local, at the places that it names."""
    _work_through(_inside(cluster))
