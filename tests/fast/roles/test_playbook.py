"""Properties of everything that a declaration asks of a host, over the variants of hosts and declarations."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.residue import KINDS as RESIDUES
from nidome.agent.resources.certificate import Certificate, KeyPair, Token
from nidome.agent.resources.condition import PROBES, Condition
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit
from nidome.model.spec import because
from nidome.roles.playbook import CLUSTER, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.agent.resources.base import Resource
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import Handler, HostContext, Task
    from nidome.roles.playbook import HostPlay

STORES = ("host", "kine")
MODES = ("nftables", "iptables")
HOSTS = tuple(itertools.product((1, 2), (True, False), (247, 252, 257)))
VARIANTS = [(*declared, *host) for declared in itertools.product(STORES, MODES) for host in HOSTS]
ALSO = {"/etc/systemd/system"}


class Variant:
    """All plays of one declaration on one kind of host."""

    def __init__(self, context: HostContext) -> None:
        self.context = context
        self.plays: list[HostPlay] = evaluate(CLUSTER, context)
        self.tasks: list[Task] = [t for p in self.plays for t in p.tasks]
        self.handlers: list[Handler] = [h for p in self.plays for h in p.handlers]
        self.resources: list[Resource] = [r for t in self.tasks for r in t.resources]

    def units(self) -> dict[str, Unit]:
        """Return the units by component."""
        return {r.name.removesuffix(".service"): r for r in self.resources if isinstance(r, Unit)}

    def files(self) -> dict[str, File]:
        """Return the files by path."""
        return {r.path: r for r in self.resources if isinstance(r, File)}

    def command(self, component: str) -> dict[str, str]:
        """Return a component's arguments as its unit has them."""
        text = self.units()[component].text
        lines = text[text.index("ExecStart=") :].split(" \\\n  ")
        words = [lines[0], *lines[1:-1], lines[-1].splitlines()[0]]
        pairs = [w.strip('"').removeprefix("--").partition("=") for w in words[1:]]
        return {name: value for name, _, value in pairs}


@pytest.fixture(params=VARIANTS, ids=lambda v: "-".join(map(str, v)))
def variant(
    request: Any, declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]
) -> Variant:
    """Return every variant of store, proxy mode, cgroup version, capabilities and systemd."""
    store, mode, cgroup, capable, systemd = request.param
    spec = declared(etcd_deployment_type=store, kube_proxy_mode=mode)
    return Variant(context_of(spec, cgroup=cgroup, cap_sys_resource=capable, systemd=systemd))


@pytest.fixture
def usual(declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]) -> Variant:
    """Return the variant that `nidome up` makes."""
    return Variant(context_of(declared(etcd_deployment_type="kine")))


def test_resources_and_titles_are_unique(variant: Variant) -> None:
    """On a host, each resource is declared once, and each task and handler has a title of its own."""
    ids = [r.id for r in variant.resources] + [h.restart.id for h in variant.handlers]
    titles = [t.title for t in variant.tasks] + [h.title for h in variant.handlers]
    assert sorted(set(ids)) == sorted(ids)
    assert sorted(set(titles)) == sorted(titles)


def test_tasks_are_named_as_in_kubespray(variant: Variant) -> None:
    """Every task has a role, a name, tags in small letters, and resources or work that every run does."""
    for task in variant.tasks:
        assert task.role
        assert task.name[0].isupper()
        assert task.tags
        assert all(tag == tag.lower() for tag in task.tags)
        assert task.resources or "always" in task.tags


# What users count on: the lab page and scripts look plays up by number and name.
PLAYS = (
    ("all", "Check Ansible version"),
    ("all", "Inventory setup and validation"),
    ("bastion[0]", "Install bastion ssh config"),
    ("k8s_cluster:etcd:calico_rr", "Bootstrap hosts for Ansible"),
    ("k8s_cluster:etcd:calico_rr", "Gather facts"),
    ("k8s_cluster:etcd", "Prepare for etcd install"),
    ("kube_node", "Add worker nodes to the etcd play if needed"),
    ("etcd:kube_control_plane:_kubespray_needs_etcd", "Install etcd"),
    ("k8s_cluster", "Install Kubernetes nodes"),
    ("kube_control_plane", "Install the control plane"),
    ("k8s_cluster", "Invoke kubeadm and install a CNI"),
    ("calico_rr", "Install Calico Route Reflector"),
    ("kube_control_plane[0]", "Patch Kubernetes for Windows"),
    ("kube_control_plane", "Install Kubernetes apps"),
    ("k8s_cluster", "Apply resolv.conf changes now that cluster DNS is up"),
)
TAGS = [
    "facts",
    "asserts",
    "bootstrap_os",
    "preinstall",
    "container-engine",
    "containerd",
    "download",
    "etcd",
    "node",
    "kubelet",
    "control-plane",
    "client",
    "network",
    "coredns",
    "apps",
    "helm",
    "resolvconf",
    "always",
    "upgrade",
]


def test_plays_have_the_numbers_that_people_know() -> None:
    """The plays of cluster.yml have kubespray's numbers, host patterns and names."""
    assert tuple((play.pattern, play.name) for play in CLUSTER) == PLAYS


def test_tags_that_people_use_exist(declared: Any, context_of: Any) -> None:
    """Every tag that kubespray's users know and that concerns something here chooses at least one task."""
    variant = Variant(context_of(declared(helm_enabled=True)))
    assert set(TAGS) <= {tag for task in variant.tasks for tag in task.tags}


@pytest.mark.parametrize(
    ("play", "role"),
    [
        (6, "container-engine/containerd"),
        (6, "kubernetes/preinstall"),
        (8, "etcd"),
        (9, "kubernetes/node"),
        (10, "kubernetes/control-plane"),
        (10, "kubernetes/client"),
        (11, "kubernetes/kubeadm"),
        (11, "network_plugin/cni"),
        (14, "kubernetes-apps/ansible"),
    ],
)
def test_roles_are_in_the_plays_that_people_know(usual: Variant, play: int, role: str) -> None:
    """What kubespray does in a play is done in the play of that number here."""
    mine = next(p for p in usual.plays if p.play is CLUSTER[play - 1])
    assert role in {task.role for task in mine.tasks}


def test_nodes_are_waited_for_after_the_restarts(usual: Variant) -> None:
    """Whether a node is Ready is asked in a play after the one whose handlers restart its components."""
    restarts = [n for n, play in enumerate(usual.plays) if play.handlers]
    waits = [
        number
        for number, play in enumerate(usual.plays)
        for task in play.tasks
        if any(r.id.startswith("Condition:node-ready") for r in task.resources)
    ]
    assert min(waits) > max(restarts)


def test_a_kubelet_gives_up_its_certificates_when_it_has_new_ones(usual: Variant) -> None:
    """Certificates of an earlier authority are dropped, and kubelet restarted, once it has a new one."""
    titles = [task.title for task in usual.tasks]
    dropped = titles.index("kubernetes/node : Drop kubelet certificates of an earlier authority")
    assert dropped > titles.index("kubernetes/pki : Issue the components' certificates")
    assert dropped > titles.index("kubernetes/control-plane : Wait for the API server")


def test_no_program_is_ahead_of_the_api_server(usual: Variant) -> None:
    """The API server's program is replaced before those of the components that talk to it."""
    titles = [task.title for task in usual.tasks]
    first = titles.index("kubernetes/control-plane : Install kube-apiserver")
    others = [n for n, title in enumerate(titles) if re.search(r" : Install (kube|helm)", title)]
    assert min(others) == first


def test_the_restart_of_containerd_has_kubesprays_name(usual: Variant) -> None:
    """The handler that restarts containerd is named as in kubespray: scripts look for it."""
    titles = [handler.title for handler in usual.handlers]
    assert "container-engine/containerd : Containerd | restart containerd" in titles


def test_every_reason_exists(variant: Variant) -> None:
    """Each declared value that a task cites as its reason exists, for the cluster or for the host."""
    spec, host = variant.context.spec, variant.context.host
    for task in variant.tasks:
        for name in task.fields:
            assert because(host if hasattr(host, name) else spec, name)


def test_units_read_what_was_written_before(variant: Variant) -> None:
    """Whatever a unit reads at its start is written by a task before the one that starts it."""
    written: set[str] = set()
    for task in variant.tasks:
        for resource in task.resources:
            if isinstance(resource, Unit):
                assert set(resource.inputs) <= written, (task.title, set(resource.inputs) - written)
        written |= {path for resource in task.resources for path in resource.paths}


def test_command_lines_name_only_what_is_there(variant: Variant) -> None:
    """Every certificate, key and configuration that a command line names is written by an earlier task."""
    written: set[str] = set()
    for task in variant.tasks:
        for resource in task.resources:
            if isinstance(resource, Unit):
                values = variant.command(resource.name.removesuffix(".service")).values()
                named = {v for v in values if v.startswith("/etc/") and "," not in v}
                assert named <= written, (resource.name, named - written)
        written |= {path for resource in task.resources for path in resource.paths}


def test_objects_are_reached_with_certificates_that_exist(variant: Variant) -> None:
    """Objects and conditions reach the API with a certificate, and read files, that an earlier task made."""
    written: set[str] = set()
    for task in variant.tasks:
        for resource in task.resources:
            access = getattr(resource, "access", ())
            assert set(access[1:]) <= written
            assert set(resource.reads) <= written | set(resource.paths) | {
                p for r in task.resources for p in r.paths
            }
        written |= {path for resource in task.resources for path in resource.paths}


def test_each_component_has_its_handler(variant: Variant) -> None:
    """Every unit has one handler with the same inputs, in the play that starts it or an earlier one."""
    units = {u.name: u for u in variant.units().values()}
    assert {h.unit for h in variant.handlers} == set(units)
    for handler in variant.handlers:
        assert handler.inputs == units[handler.unit].inputs
    for play in variant.plays:
        here = {r.key for t in play.tasks for r in t.resources if r.kind == "Unit"}
        assert here == {h.unit for h in play.handlers}


def test_binaries_are_inputs_of_what_runs_them(variant: Variant) -> None:
    """A component is restarted when its own binary changes."""
    for name, unit in variant.units().items():
        program = unit.text.split("ExecStart=")[1].split()[0]
        assert program in unit.inputs or name == "nidome-approver"


def test_units_follow_one_pattern(variant: Variant) -> None:
    """Every unit restarts with a growing delay and no limit, has a stop timeout and starts at boot."""
    native = variant.context.facts["systemd"] >= 254
    for unit in variant.units().values():
        for line in (
            "Restart=always",
            "RestartSec=100ms",
            "StartLimitIntervalSec=0",
            "WantedBy=multi-user.target",
        ):
            assert line in unit.text
        assert "TimeoutStopSec=" in unit.text
        assert ("RestartSteps=" in unit.text) is native
        assert ("ExecStartPre=/usr/local/lib/nidome/backoff %n" in unit.text) is not native
        assert all(r.partition(":")[0] in RESIDUES for r in unit.residue)
        assert (unit.enabled, unit.running) == (True, True)
    assert ("/usr/local/lib/nidome/backoff" in variant.files()) is not native


def test_runtimes_keep_their_children(variant: Variant) -> None:
    """Restarting containerd or kubelet kills no pod; both own their part of the cgroup tree."""
    for name in ("containerd", "kubelet"):
        text = variant.units()[name].text
        assert "KillMode=process" in text
        assert "Delegate=yes" in text


def test_units_are_ordered(variant: Variant) -> None:
    """The API server stops before its store, and kubelet before containerd."""
    store = "etcd.service" if variant.context.spec.uses_etcd else "kine.service"
    assert f"After=network-online.target {store}" in variant.units()["kube-apiserver"].text
    assert "After=network-online.target containerd.service" in variant.units()["kubelet"].text


def test_conditions_are_known(variant: Variant) -> None:
    """Every condition has a probe that exists, and names units that some task starts."""
    units = {u.name for u in variant.units().values()}
    ready = [h.ready for h in variant.handlers if h.ready]
    for condition in [*ready, *(r for r in variant.resources if isinstance(r, Condition))]:
        assert condition.probe in PROBES
        assert set(condition.units) <= units


def test_secrets_are_for_root_only(variant: Variant) -> None:
    """Keys, tokens and kubeconfigs have mode 0600; the directory of certificates is closed to others."""
    for resource in variant.resources:
        if isinstance(resource, Certificate):
            assert resource.key_mode == "0600"
        if isinstance(resource, KeyPair | Token):
            assert resource.mode == "0600"
        if isinstance(resource, File):
            if resource.path.endswith(".conf") and "kind: Config" in resource.content:
                assert resource.mode == "0600"
            assert "PRIVATE KEY" not in resource.content
    certs = next(r for r in variant.resources if r.id == "Directory:/etc/kubernetes/ssl")
    assert certs.desired()["mode"] == "0750"


def test_no_secret_is_in_a_declaration_of_resources(variant: Variant) -> None:
    """A bootstrap token is named by its file: neither plan nor protocol holds its value."""
    secrets = [r for r in variant.resources if isinstance(r, KubeObject) and r.manifest["kind"] == "Secret"]
    assert secrets
    for secret in secrets:
        assert secret.reads == ("/etc/kubernetes/ssl/bootstrap-token",)
        assert "token-secret" in secret.manifest["stringData"]
        assert isinstance(secret.manifest["stringData"]["token-secret"], dict)


def test_the_store_is_reached_with_tls_only(variant: Variant) -> None:
    """The store asks every client for a certificate, and the API server has one and verifies the store's."""
    api = variant.command("kube-apiserver")
    assert api["etcd-servers"] == "https://127.0.0.1:2379"
    assert all(api[f"etcd-{n}"] for n in ("cafile", "certfile", "keyfile"))
    if variant.context.spec.uses_etcd:
        store = variant.command("etcd")
        assert store["client-cert-auth"] == store["peer-client-cert-auth"] == "true"
        assert "http://" not in store["listen-client-urls"] + store["listen-peer-urls"]
        assert store["trusted-ca-file"] == api["etcd-cafile"]
    else:
        store = variant.command("kine")
        assert store["trusted-ca-file"] == api["etcd-cafile"]
        assert store["listen-address"] == "127.0.0.1:2379"
        assert store["server-cert-file"].endswith("store-server.crt")


def test_the_api_server_authorises(variant: Variant) -> None:
    """The API server authorises nodes and by RBAC, and reaches kubelets with a verified certificate."""
    api = variant.command("kube-apiserver")
    assert api["authorization-mode"] == "Node,RBAC"
    assert "NodeRestriction" in api["enable-admission-plugins"]
    assert api["advertise-address"] == "192.168.50.5"
    assert api["kubelet-certificate-authority"] == "/etc/kubernetes/ssl/ca.crt"
    for name in ("kube-controller-manager", "kube-scheduler"):
        assert variant.command(name)["bind-address"] == "127.0.0.1"
        assert "authorization-kubeconfig" in variant.command(name)


def test_containerd_reads_its_configuration(variant: Variant) -> None:
    """The configuration of containerd is valid TOML of version 3, for the host that it is on."""
    config = tomllib.loads(variant.files()["/etc/containerd/config.toml"].content)
    facts = variant.context.facts
    assert config["version"] == 3
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["restrict_oom_score_adj"] is not facts["cap_sys_resource"]
    options = runtime["containerd"]["runtimes"][runtime["containerd"]["default_runtime_name"]]["options"]
    assert options["SystemdCgroup"] is (facts["cgroup"] == 2)
    assert options["BinaryName"] == "/usr/local/bin/runc"
    images = config["plugins"]["io.containerd.cri.v1.images"]
    assert images["pinned_images"]["sandbox"] == "registry.local/image-pause:1.2.3"
    limit = "infinity" if facts["cap_sys_resource"] else "20000"
    assert f"LimitNOFILE={limit}\n" in variant.units()["containerd"].text


def test_kubelet_reads_its_configuration(variant: Variant) -> None:
    """The configuration of kubelet fits the host: cgroup version, driver and the right to lower scores."""
    text = variant.files()["/etc/kubernetes/kubelet-config.yaml"].content
    config, facts = json.loads(text), variant.context.facts
    assert config["kind"] == "KubeletConfiguration"
    assert config["cgroupDriver"] == ("systemd" if facts["cgroup"] == 2 else "cgroupfs")
    assert config.get("failCgroupV1", True) is (facts["cgroup"] == 2)
    assert ("oomScoreAdj" in config) is not facts["cap_sys_resource"]
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authorization"] == {"mode": "Webhook"}
    assert (config["clusterDNS"], config["clusterDomain"]) == (["10.233.0.3"], "cluster.local")
    arguments = variant.command("kubelet")
    assert (arguments["node-ip"], arguments["hostname-override"]) == ("192.168.50.5", "node1")


def test_kube_proxy_reads_its_configuration(variant: Variant) -> None:
    """kube-proxy's configuration has the declared mode and network and touches no limit of the machine."""
    config = json.loads(variant.files()["/etc/kubernetes/kube-proxy-config.yaml"].content)
    assert config["mode"] == variant.context.spec.kube_proxy_mode.value
    assert config["clusterCIDR"] == variant.context.spec.kube_pods_subnet.value
    assert (config["conntrack"]["maxPerCore"], config["conntrack"]["min"]) == (0, 0)


def test_extra_arguments_win(declared: Any, context_of: Any) -> None:
    """A declared extra argument replaces Nidome's own, and values with special characters arrive whole."""
    extra = {"profiling": "true", "audit-log-path": "/var/log/a b%c$d.log"}
    variant = Variant(context_of(declared(kube_kubeadm_apiserver_extra_args=extra)))
    text = variant.units()["kube-apiserver"].text
    assert "--profiling=true" in text
    assert "--profiling=false" not in text
    assert '"--audit-log-path=/var/log/a b%%c$$d.log"' in text


def test_moved_directories_move_everything(declared: Any, context_of: Any) -> None:
    """Directories declared elsewhere are followed by every file, command line and unit."""
    spec = declared(bin_dir="/opt/kube/bin", kube_config_dir="/srv/k8s", etcd_deployment_type="kine")
    variant = Variant(context_of(spec))
    for unit in variant.units().values():
        assert "/etc/kubernetes" not in unit.text
        assert "/usr/local/bin" not in unit.text
    test_units_read_what_was_written_before(variant)


def test_systemd_accepts_the_units(usual: Variant, tmp_path: Any) -> None:
    """The systemd of the machine finds nothing to say about any unit."""
    for unit in usual.units().values():
        program = unit.text.split("ExecStart=")[1].split()[0]
        text = unit.text.replace(f"ExecStart={program}", "ExecStart=/bin/true")
        (tmp_path / unit.name).write_text(
            text.replace("ExecStartPre=/usr/local/lib/nidome/backoff", "ExecStartPre=/bin/true")
        )
    names = [str(tmp_path / u.name) for u in usual.units().values()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
