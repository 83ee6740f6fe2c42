"""The main job on a real cluster: it works, a second run changes nothing, one change changes one thing.

The tests of this file share one cluster, in this order.
"""

from __future__ import annotations

import json
import random
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.hosts

_IMAGE = "nidome.test/probe:1"
_WORKLOAD = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 0,
                        "containers": [{
                            "name": "web", "image": _IMAGE, "imagePullPolicy": "Never",
                            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
                        }],
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    ],
}  # fmt: skip
_LOST = "/var/lib/kubelet/pki /etc/kubernetes/ssl/kubelet.crt /etc/kubernetes/ssl/kubelet.key"
_COMPONENTS = (
    "kine", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "containerd", "nidome-approver",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster(probe_cache: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for this file."""
    made = Cluster(tmp_path_factory.mktemp("cluster"), probe_cache)
    try:
        made.up()
        yield made
    finally:
        made.remove()


def _pods(cluster: Cluster) -> dict[str, str]:
    """Return the web pods with the time at which their process started."""
    items = json.loads(cluster.kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    return {
        p["metadata"]["name"]: p["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        for p in items
    }


def _answers(cluster: Cluster) -> set[str]:
    """Return the pods that answered requests from a pod to the Service."""
    pod = next(iter(_pods(cluster)))
    return {
        cluster.kubectl("exec", pod, "--", "/probe", "get", "http://web.default").split()[0]
        for _ in range(12)
    }


def _recap(events: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = events[-1]["recap"]["node1"]
    return found


def _changed(events: list[dict[str, Any]]) -> list[str]:
    return [e["task"] for e in events if e["type"] == "task_finished" and e["status"] == "changed"]


def test_workload_answers(cluster: Cluster) -> None:
    """A Deployment of two pods behind a Service answers, under the Service's name, from both pods."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_WORKLOAD))
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    wait_for(lambda: len(_answers(cluster)) == 2)


def test_dns_in_a_pod(cluster: Cluster) -> None:
    """A pod resolves kubernetes.default to the first address of the service network."""
    pod = next(iter(_pods(cluster)))
    assert cluster.kubectl("exec", pod, "--", "/probe", "resolve", "kubernetes.default") == "10.233.0.1"


def test_logs_and_serving_certificate(cluster: Cluster) -> None:
    """The kubelet serves logs under a certificate that the cluster's authority signed for the node's address."""
    pod = next(iter(_pods(cluster)))
    assert cluster.kubectl("logs", pod).startswith("serving web-")
    said = cluster.host(
        "openssl s_client -connect $(hostname -I | cut -d' ' -f1):10250 -CAfile /etc/kubernetes/ssl/ca.crt "
        "-verify_ip $(hostname -I | cut -d' ' -f1) </dev/null 2>&1"
    )
    assert "Verify return code: 0 (ok)" in said


def test_secrets_are_private(cluster: Cluster) -> None:
    """Every private key, token and kubeconfig is readable by root alone."""
    loose = cluster.host(
        "find /etc/kubernetes /var/lib/kine /var/lib/nidome /var/lib/kubelet/pki -type f "
        "\\( -name '*.key' -o -name '*.conf' -o -name '*token*' -o -name '*.pem' -o -name '*.db*' -o -name 'ledger.jsonl' \\) -perm /077"
    )
    assert loose == ""
    assert cluster.host("stat -c %a /var/lib/kine /var/lib/nidome") == "700\n700"


def test_store_needs_a_certificate(cluster: Cluster) -> None:
    """The store refuses a client without a certificate of its authority."""
    said = cluster.host(
        "echo | openssl s_client -connect 127.0.0.1:2379 -CAfile /etc/kubernetes/ssl/etcd-ca.crt -tls1_2 2>&1",
        check=False,
    )
    assert re.search(r"alert (bad certificate|certificate required|handshake failure)", said), said


def test_second_run_changes_nothing(cluster: Cluster) -> None:
    """A second apply reports changed=0, and by an independent look nothing on host or in the API has changed."""
    cluster.apply()
    before = cluster.settled()
    events = cluster.apply()
    assert _recap(events)["changed"] == 0
    assert cluster.nidome("plan").stdout.strip().endswith("No changes.")
    assert before.differences(cluster.snapshot()) == []


def test_one_setting(cluster: Cluster) -> None:
    """One changed setting: the plan names exactly what the run reports, one unit restarts, pods keep running."""
    path = cluster.inventory / "group_vars" / "all" / "containerd.yml"
    path.write_text(path.read_text() + "\ncontainerd_max_container_log_line_size: 32768\n")
    pods, before = _pods(cluster), cluster.settled()
    planned = cluster.plan()["hosts"]["node1"]
    reasons = [reason for step in planned for change in step["changes"] for reason in change["because"]]
    assert any(
        "containerd_max_container_log_line_size = 32768" in r and "containerd.yml:" in r for r in reasons
    )
    events = cluster.apply()
    assert _changed(events) == [step["task"] for step in planned]
    assert _changed(events) == [
        "container-engine/containerd : Write containerd configuration",
        "container-engine/containerd : Containerd | restart containerd",
    ]
    assert "max_container_log_line_size = 32768" in cluster.host("cat /etc/containerd/config.toml")
    moved = [
        line
        for line in before.differences(cluster.snapshot())
        if "containerd" not in line and "/var/lib/nidome" not in line
    ]
    assert [line for line in moved if "Pod " not in line and "Node " not in line] == []
    assert _pods(cluster) == pods
    assert len(_answers(cluster)) == 2
    assert _recap(cluster.apply())["changed"] == 0


def test_handler_of_a_killed_run(cluster: Cluster) -> None:
    """A restart that a killed run still owed is planned and done by the next run."""
    cluster.host("sed -i 's/32768/32769/' /etc/containerd/config.toml")
    planned = [step["task"] for step in cluster.plan()["hosts"]["node1"]]
    # The process still has what is declared: putting the file back calls for no restart.
    assert planned == ["container-engine/containerd : Write containerd configuration"]
    cluster.host("systemctl restart containerd")
    cluster.host("sed -i 's/32769/32768/' /etc/containerd/config.toml")
    planned = [step["task"] for step in cluster.plan()["hosts"]["node1"]]
    assert planned == ["container-engine/containerd : Containerd | restart containerd"]
    assert _changed(cluster.apply()) == planned
    assert _recap(cluster.apply())["changed"] == 0


@pytest.mark.parametrize("component", _COMPONENTS)
def test_killed_component_comes_back(cluster: Cluster, component: str) -> None:
    """A component that is killed is back by itself, and no other has been restarted."""
    show = "systemctl show --no-pager -p Id,MainPID " + " ".join(f"{c}.service" for c in _COMPONENTS)

    def pids() -> dict[str, str]:
        blocks = [
            dict(line.split("=", 1) for line in b.splitlines()) for b in cluster.host(show).split("\n\n")
        ]
        return {b["Id"].removesuffix(".service"): b["MainPID"] for b in blocks}

    before = pids()
    cluster.host(f"kill -9 {before[component]}")
    wait_for(lambda: pids()[component] not in ("0", before[component]))
    wait_for(lambda: cluster.host(f"systemctl is-active {component}", check=False) == "active")
    after = pids()
    assert {c for c in before if before[c] != after[c]} == {component}
    wait_for(lambda: "ok" in cluster.kubectl("get", "--raw", "/readyz", check=False))
    assert len(_pods(cluster)) == 2


def test_lost_client_certificate(cluster: Cluster) -> None:
    """A kubelet that lost its client certificate gets a new one with the bootstrap token; apply repairs the rest."""
    uid = cluster.kubectl("get", "node", "node1", "-o", "jsonpath={.metadata.uid}")
    cluster.host(f"systemctl stop kubelet; rm -rf {_LOST}; systemctl start kubelet")
    wait_for(
        lambda: (
            "kubelet-client-current.pem" in cluster.host("ls /var/lib/kubelet/pki 2>/dev/null", check=False)
        )
    )
    wait_for(lambda: "system:bootstrap:nidome" in cluster.kubectl("get", "csr", check=False))
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0
    assert cluster.kubectl("get", "node", "node1", "-o", "jsonpath={.metadata.uid}") == uid


@pytest.mark.parametrize(
    ("setting", "component"),
    [
        ('kube_kubeadm_scheduler_extra_args={"kube-api-burst": "no-such-number"}', "kube-scheduler"),
        ('kubelet_custom_flags=["--max-pods=no-such-number"]', "kubelet"),
    ],
)
def test_component_that_keeps_ending(cluster: Cluster, setting: str, component: str) -> None:
    """A component that keeps ending fails the run with its last words, and is not called unchanged by the next."""
    for _ in range(2):
        done = cluster.nidome("apply", "-e", setting, "--view", "plain", status=1)
        assert "no-such-number" in done.stdout
        assert f"nidome logs {component}" in done.stdout
    assert cluster.nidome("plan", "-e", setting, status=None).returncode != 0
    assert component in cluster.nidome("status", status=1).stdout
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0


def test_a_second_operator_is_told_whom_it_waits_for(cluster: Cluster) -> None:
    """A run that waits for another one's lock says so, and goes on once that one has ended."""
    cluster.host("setsid flock /run/nidome.lock sleep 6 > /dev/null 2>&1 < /dev/null &")
    wait_for(lambda: "flock" in cluster.host("ps -eo comm"))
    events = cluster.apply()
    assert any("another run is under way" in e["what"] for e in events if e["type"] == "waiting")
    assert _recap(events)["changed"] == 0


def test_kubectl_on_the_host(cluster: Cluster) -> None:
    """Root's kubectl on a control-plane host needs no option to reach the cluster."""
    assert cluster.host("kubectl get node node1 -o name") == "node/node1"


def test_why(cluster: Cluster) -> None:
    """The command why shows who wrote a value, the line it has in a file, and what is live before it is applied and after."""
    debug = ("-e", "containerd_debug_level=debug")
    before = cluster.nidome("why", "containerd_debug_level", *debug).stdout
    assert "  from    command line" in before
    assert "beats   default: info" in before
    assert "File:/etc/containerd/config.toml  not yet applied" in before
    assert 'live: level = "info"' in before
    cluster.apply(*debug)
    after = cluster.nidome("why", "containerd_debug_level", *debug).stdout
    assert "File:/etc/containerd/config.toml  in force" in after
    number = cluster.host("grep -n 'level = .debug.' /etc/containerd/config.toml").partition(":")[0]
    assert f'/etc/containerd/config.toml:{number}  level = "debug"' in after
    assert "live:" not in after
    cluster.apply()
    level = cluster.nidome("why", "kube_log_level", "-e", "kube_log_level=4", "--json").stdout
    places = {e["resource"]: e["places"] for e in json.loads(level)["effects"]}
    assert places["Unit:kubelet.service"] == [
        {"where": "process of kubelet.service", "wanted": "--v=4", "live": "--v=2"}
    ]


def test_authority_made_anew(cluster: Cluster) -> None:
    """After the authority was lost, one run makes a new one and everything follows it, what the kubelet kept too."""
    cluster.host("rm /etc/kubernetes/ssl/ca.crt /etc/kubernetes/ssl/ca.key")
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0
    pod = next(iter(_pods(cluster)))
    wait_for(lambda: cluster.kubectl("logs", pod, check=False).startswith("serving web-"))
    verify = (
        "openssl verify -CAfile /etc/kubernetes/ssl/ca.crt /var/lib/kubelet/pki/kubelet-server-current.pem"
    )
    assert cluster.host(verify).endswith(": OK")


def test_api_port_moves(cluster: Cluster) -> None:
    """With another port of the API server every component follows it, the kubelet too."""
    moved = ("-e", "kube_apiserver_port=7443")
    cluster.apply(*moved)
    assert _recap(cluster.apply(*moved))["changed"] == 0
    connected = cluster.host("ss -tnpH state established dport = :7443")
    for component in ("kubelet", "kube-scheduler", "kube-controller", "kube-proxy"):
        assert component in connected
    assert cluster.host("ss -tnH state established dport = :6443") == ""
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0


def test_helm(cluster: Cluster) -> None:
    """Helm is there where it is asked for, works against the cluster, and goes when it is not."""
    cluster.apply("-e", "helm_enabled=true")
    assert cluster.host("KUBECONFIG=/etc/kubernetes/admin.conf helm list -A -q") == ""
    cluster.apply()
    assert cluster.host("command -v helm", check=False) == ""


def test_labels_and_taints(cluster: Cluster) -> None:
    """Labels of any name and taints are put on the living node, those of others stay, and undeclared ones go."""
    cluster.kubectl("taint", "node", "node1", "theirs=1:PreferNoSchedule")
    declared = (
        "-e",
        'node_labels={"node-role.kubernetes.io/lab": "", "disk": "ssd"}',
        "-e",
        'node_taints=["lab=1:PreferNoSchedule"]',
    )
    cluster.apply(*declared)
    assert _recap(cluster.apply(*declared))["changed"] == 0
    node = json.loads(cluster.kubectl("get", "node", "node1", "-o", "json"))
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert "node-role.kubernetes.io/lab" in node["metadata"]["labels"]
    assert {t["key"] for t in node["spec"]["taints"]} == {"lab", "theirs"}
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0
    node = json.loads(cluster.kubectl("get", "node", "node1", "-o", "json"))
    assert not {"disk", "node-role.kubernetes.io/lab"} & set(node["metadata"]["labels"])
    assert {t["key"] for t in node["spec"]["taints"]} == {"theirs"}
    cluster.kubectl("taint", "node", "node1", "theirs-")


def test_client_certificate_rotates(cluster: Cluster) -> None:
    """The kubelet renews its client certificate by itself before that ends; nobody has to approve it."""
    short = ("-e", 'kube_kubeadm_controller_extra_args={"cluster-signing-duration": "60s"}')
    cluster.apply(*short)
    # Back by the token, with a certificate that ends in a minute.
    cluster.host(f"systemctl stop kubelet; rm -rf {_LOST}; systemctl start kubelet")
    current = "readlink /var/lib/kubelet/pki/kubelet-client-current.pem"
    wait_for(lambda: cluster.host(current, check=False) != "")
    first = cluster.host(current)
    wait_for(lambda: cluster.host(current, check=False) not in ("", first), 120)
    cluster.apply()
    assert _recap(cluster.apply())["changed"] == 0
    assert "True" in cluster.kubectl(
        "get", "node", "node1", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    )


def test_drift_is_repaired(cluster: Cluster) -> None:
    """What a hand changed on the host is planned, repaired, and then as before."""
    cluster.host("systemctl restart kubelet")
    cluster.apply()
    before = cluster.snapshot(identities=False)
    cluster.host(
        "echo '# by hand' >> /etc/kubernetes/kubelet-config.yaml; chmod 644 /etc/kubernetes/admin.conf; "
        "sysctl -qw net.ipv4.ip_forward=0; rm /etc/crictl.yaml; systemctl stop kube-scheduler"
    )
    cluster.kubectl("delete", "configmap", "-n", "kube-system", "coredns")
    planned = [step["task"] for step in cluster.plan()["hosts"]["node1"]]
    assert planned == [
        "kubernetes/preinstall : Set kernel parameters",
        "container-engine/containerd : Write containerd configuration",
        "kubernetes/node : Write kubelet configuration",
        "kubernetes/control-plane : Write kube-apiserver configuration",
        "kubernetes/control-plane : Start kube-scheduler",
        # It was restarted by hand: nobody knows what this process has read.
        "kubernetes/node : Restart kubelet",
        "kubernetes-apps/ansible : Kubernetes Apps | CoreDNS",
    ]
    assert _changed(cluster.apply()) == planned
    assert _recap(cluster.apply())["changed"] == 0
    after = cluster.snapshot(identities=False)
    assert [line for line in set(before.files) ^ set(after.files) if "/var/lib/nidome/" not in line] == []
    assert before.kernel == after.kernel


def test_power_cycle(cluster: Cluster) -> None:
    """After power off and on the node is Ready again, pods answer, and apply finds nothing to change."""
    cluster.nidome("machines", "stop", "node1")
    cluster.nidome("machines", "start", "node1")
    events = cluster.apply()
    assert _recap(events)["changed"] == 0
    wait_for(lambda: len(_pods(cluster)) == 2 and len(_answers(cluster)) == 2)


def test_nidome_killed_in_a_tag_run(cluster: Cluster) -> None:
    """A run that is killed between a change and its restart is finished by the next one."""
    path = cluster.inventory / "group_vars" / "all" / "containerd.yml"
    path.write_text(path.read_text().replace("32768", "16384"))
    running = cluster.start("apply", "--view", "json")
    assert running.stdout is not None
    for line in running.stdout:
        if "Write containerd configuration" in line and "task_finished" in line:
            break
    running.send_signal(signal.SIGKILL)
    running.communicate()
    wait_for(lambda: "16384" in cluster.host("cat /etc/containerd/config.toml"))
    cluster.apply()
    time.sleep(random.Random(7).random())  # noqa: S311 - a moment, not a secret
    assert _recap(cluster.apply())["changed"] == 0
    started = cluster.host(
        'stat -c %Z /etc/containerd/config.toml; date -d "$(systemctl show -p ActiveEnterTimestamp --value containerd)" +%s'
    )
    written, entered = map(int, started.split())
    assert entered >= written
