from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.errors import PreflightError, UsageError
from nidome.roles.preflight import (
    CHECKS,
    IMMUTABLE,
    check_host,
    directories,
    require_fit,
    require_known,
    tolerated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec

OURS = [f"Unit:{n}.service" for n in ("kubelet", "containerd", "kube-apiserver", "kine", "kube-proxy")]

# What is wrong with a host, the check that finds it, and a word of what it says.
UNFIT: list[tuple[dict[str, Any], str, str]] = [
    ({"systemd": 0}, "systemd", "no systemd as PID 1"),
    ({"systemd": 244}, "systemd", "systemd 244"),
    ({"os": "rocky", "os_like": ["rhel", "fedora"]}, "distribution", "rocky"),
    ({"architecture": "riscv64"}, "architecture", "riscv64"),
    ({"memory_mib": 512}, "memory", "512 MiB"),
    ({"free_mib": {"/var/lib/containerd": 100}}, "disk-space", "/var/lib/containerd has 100 MiB"),
    ({"writable": {"/etc/systemd/system": False}}, "writable", "/etc/systemd/system"),
    ({"filesystems": {"/var/lib/containerd": "overlay"}}, "snapshots", "overlay"),
    ({"nft": "0.9.8"}, "nft", "the host has 0.9.8"),
    ({"nft": "", "os_version": "11"}, "nft", "0.9.8"),
    ({"cgroup_controllers": ["cpu", "cpuset", "memory"]}, "cgroup-controllers", "pids"),
    ({"units": ["docker"]}, "foreign-runtime", "docker"),
    ({"sockets": ["/run/k0s/status.sock"]}, "foreign-runtime", "/run/k0s/status.sock"),
    ({"directories": ["/var/lib/rancher"]}, "foreign-runtime", "/var/lib/rancher"),
    ({"listening": [10250]}, "ports", "port 10250, which kubelet.service needs"),
    ({"listening": [6443]}, "ports", "port 6443"),
    ({"listening": [2379]}, "ports", "port 2379, which kine.service needs"),
    ({"addresses": ["127.0.0.1", "192.168.50.6"]}, "address", "it has 192.168.50.6"),
    ({"routes": ["10.233.64.0/24 eth1"]}, "networks", "eth1"),
    ({"routes": ["10.0.0.0/8 eth1"]}, "networks", "kube_service_addresses"),
]

FIT: list[dict[str, Any]] = [
    {},
    {"os": "ubuntu", "os_like": ["debian"]},
    {"os": "linuxmint", "os_like": ["ubuntu", "debian"]},
    {"architecture": "arm64"},
    {"systemd": 245},
    {"nft": "1.0.1"},
    {"nft": "1.1"},
    {"nft": ""},
    {"listening": [22, 80, 6444]},
    {"routes": ["10.234.0.0/16 eth0", "10.233.64.0/24 cni0"]},
    {"ledger": OURS, "listening": [10250, 6443, 2379, 10256], "sockets": ["/run/containerd/containerd.sock"]},
    {
        "ledger": OURS,
        "units": ["containerd", "kubelet"],
        "directories": ["/etc/kubernetes", "/var/lib/kubelet"],
    },
    {"ledger": OURS, "free_mib": {"/var/lib/containerd": 100}},
    {"ledger": ["Directory:/etc/kubernetes"], "directories": ["/etc/kubernetes"]},
]


@pytest.fixture
def spec(declared: Callable[..., ClusterSpec]) -> ClusterSpec:
    """Return a cluster on kine."""
    return declared(etcd_deployment_type="kine")


@pytest.mark.parametrize("changes", FIT)
def test_a_fit_host_passes(spec: ClusterSpec, facts: dict[str, Any], changes: dict[str, Any]) -> None:
    """A host that is fit passes every check, an empty one as well as one with Nidome's own cluster on it."""
    assert check_host(spec, spec.hosts[0], {**facts, **changes}) == []
    require_fit(spec, spec.hosts[0], {**facts, **changes})


@pytest.mark.parametrize(("changes", "check", "words"), UNFIT)
def test_each_check_finds_its_fault(
    spec: ClusterSpec, facts: dict[str, Any], changes: dict[str, Any], check: str, words: str
) -> None:
    """Each fault of a host is found by its own check, with the host, what is wrong and how to go on."""
    found = check_host(spec, spec.hosts[0], {**facts, **changes})
    assert {e.code for e in found} == {f"preflight-{check}"}
    first = found[0]
    assert words in "\n".join(e.message for e in found)
    assert first.where == "node1"
    assert f"--ignore-preflight-errors {check}" in first.hint


@pytest.mark.parametrize(("changes", "check", "words"), UNFIT)
def test_a_check_is_ignored_by_its_name(
    spec: ClusterSpec, facts: dict[str, Any], changes: dict[str, Any], check: str, words: str
) -> None:
    """A check can be ignored by its name, and by no other."""
    assert words
    unfit = {**facts, **changes}
    assert check_host(spec, spec.hosts[0], unfit, (check,)) == []
    others = tuple(c.name for c in CHECKS if c.name != check)
    assert check_host(spec, spec.hosts[0], unfit, others)


def test_every_check_is_tried_here() -> None:
    """Every check has a fault that it finds, a name that does not change, and a meaning."""
    here = {"access-address"}  # needs another declaration: below
    assert {check for _, check, _ in UNFIT} == {c.name for c in CHECKS} - here
    assert len({c.name for c in CHECKS}) == len(CHECKS)
    assert all(c.meaning for c in CHECKS)


def test_an_access_address_that_the_host_does_not_have(
    declared: Callable[..., ClusterSpec], facts: dict[str, Any]
) -> None:
    """access_ip must be an address of the host, unless its check is to be ignored."""
    spec = declared(access_ip="203.0.113.7")
    found = check_host(spec, spec.hosts[0], facts)
    assert [e.code for e in found] == ["preflight-access-address"]
    assert "access_ip 203.0.113.7" in found[0].message
    assert "all.yml:1" in found[0].message
    assert check_host(spec, spec.hosts[0], facts, ("access-address",)) == []
    assert check_host(spec, spec.hosts[0], {**facts, "addresses": ["192.168.50.5", "203.0.113.7"]}) == []


def test_an_unsupported_distribution_may_be_allowed(
    declared: Callable[..., ClusterSpec], spec: ClusterSpec
) -> None:
    """allow_unsupported_distribution_setup lets the one check of the distribution fail."""
    assert tolerated(spec) == ()
    allowed = declared(allow_unsupported_distribution_setup=True, ignore_preflight_errors=["memory"])
    assert tolerated(allowed) == ("memory", "distribution")
    require_known(tolerated(allowed))


def test_a_check_that_does_not_exist_cannot_be_ignored() -> None:
    """Ignoring a check that does not exist is an error that lists those that do."""
    require_known(c.name for c in CHECKS)
    with pytest.raises(UsageError) as raised:
        require_known(["memory", "disk"])
    assert raised.value.code == "check-unknown"
    assert "disk-space" in raised.value.hint


def test_all_faults_are_told_at_once(spec: ClusterSpec, facts: dict[str, Any]) -> None:
    """A host with several faults is refused once, with all of them."""
    with pytest.raises(PreflightError) as raised:
        require_fit(spec, spec.hosts[0], {**facts, "memory_mib": 1, "systemd": 0, "units": ["k3s"]})
    assert raised.value.code == "preflight-systemd"
    assert "also: [preflight-memory]" in raised.value.message
    assert "also: [preflight-foreign-runtime]" in raised.value.message
    assert raised.value.hint.endswith("--ignore-preflight-errors systemd,memory,foreign-runtime)")


@pytest.mark.parametrize("name", sorted(IMMUTABLE))
def test_what_cannot_be_changed_is_refused(spec: ClusterSpec, facts: dict[str, Any], name: str) -> None:
    """A setting that cannot change on a living cluster is refused with its value and the way out."""
    same = {**facts, "declared": {name: getattr(spec, name).value}}
    require_fit(spec, spec.hosts[0], same)
    with pytest.raises(PreflightError) as raised:
        require_fit(spec, spec.hosts[0], {**facts, "declared": {name: "another"}})
    assert raised.value.code == "immutable-setting"
    assert f"{name} is another" in raised.value.message
    assert raised.value.hint == IMMUTABLE[name]


def test_room_is_asked_for_where_data_goes(spec: ClusterSpec, declared: Callable[..., ClusterSpec]) -> None:
    """The directories that must have room are those of the declaration."""
    assert spec.kine_data_dir.value in directories(spec)
    moved = declared(etcd_deployment_type="host", containerd_storage_dir="/data/c", etcd_data_dir="/data/e")
    assert {"/data/c", "/data/e"} <= set(directories(moved))
    assert spec.kine_data_dir.value not in directories(moved)
