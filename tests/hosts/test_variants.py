"""The same job with what else can be declared, on other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts

_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    # etcd with TLS, kube-proxy through iptables, a systemd that restarts ever more slowly by itself.
    "etcd-iptables": ("debian:13", {"etcd_deployment_type": "host", "kube_proxy_mode": "iptables"}),
    # Python 3.9, OpenSSL 1.1.1, systemd 247 and an nft too old for kube-proxy; other networks, directories, names.
    "other-places": (
        "debian:11",
        {
            "kube_proxy_mode": "iptables", "kube_service_addresses": "10.96.0.0/16", "kube_pods_subnet": "10.97.0.0/16", "cluster_name": "lab.internal",
            "bin_dir": "/opt/bin", "containerd_storage_dir": "/var/srv/containerd", "kubelet_max_pods": 20,
            "supplementary_addresses_in_ssl_keys": ["api.lab.internal", "192.0.2.77"],
        },
    ),
}  # fmt: skip


@pytest.fixture(params=_VARIANTS)
def cluster(request: pytest.FixtureRequest, cluster_cache: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Give a cluster of each variant."""
    system, variables = _VARIANTS[request.param]
    made = Cluster(tmp_path, cluster_cache, os=system, variables=variables)
    try:
        made.up()
        yield made
    finally:
        made.remove()


def test_variant(cluster: Cluster) -> None:
    """The variant becomes Ready, what was declared is in the live processes, and a second run changes nothing."""
    arguments = cluster.host("ps -eo args")
    names = cluster.host("openssl x509 -in /etc/kubernetes/ssl/apiserver.crt -noout -ext subjectAltName")
    for name, value in cluster.variables.items():
        expected = {
            "etcd_deployment_type": lambda: "etcd --name=node1" in arguments,
            "kube_proxy_mode": lambda: "KUBE-SERVICES" in cluster.host("iptables-save"),
            "kube_service_addresses": lambda: "--service-cluster-ip-range=10.96.0.0/16" in arguments,
            "kube_pods_subnet": lambda: "--cluster-cidr=10.97.0.0/16" in arguments,
            "cluster_name": lambda: (
                "--service-account-issuer=https://kubernetes.default.svc.lab.internal" in arguments
            ),
            "bin_dir": lambda: "/opt/bin/kubelet --config" in arguments,
            "containerd_storage_dir": lambda: "io.containerd" in cluster.host("ls /var/srv/containerd"),
            "kubelet_max_pods": lambda: (
                cluster.kubectl("get", "node", "node1", "-o", "jsonpath={.status.capacity.pods}") == "20"
            ),
            "supplementary_addresses_in_ssl_keys": lambda: (
                "api.lab.internal" in names and "192.0.2.77" in names
            ),
        }
        assert expected[name](), (name, value)
    assert cluster.apply()[-1]["recap"]["node1"]["changed"] == 0
