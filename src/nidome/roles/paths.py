"""Where things are on a host: every path that more than one role names, from the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["Access", "Paths", "access", "client_access"]

Access = tuple[str, str, str, str]
"""An API server's URL, CA file, certificate file and key file."""

KUBELET_ROOT = "/var/lib/kubelet"


@dataclass(frozen=True)
class Paths:
    """The layout of a host. Certificates are named as kubeadm and kubespray name them."""

    spec: ClusterSpec

    @property
    def bin(self) -> str:
        """Where binaries are."""
        return self.spec.bin_dir.value

    @property
    def config(self) -> str:
        """Where Kubernetes' configuration is."""
        return self.spec.kube_config_dir.value

    @property
    def certs(self) -> str:
        """Where certificates and keys are."""
        return self.spec.kube_cert_dir.value

    def binary(self, name: str) -> str:
        """Return the path of a binary."""
        return f"{self.bin}/{name}"

    def cert(self, name: str) -> str:
        """Return the path of a certificate."""
        return f"{self.certs}/{name}.crt"

    def key(self, name: str) -> str:
        """Return the path of a private key."""
        return f"{self.certs}/{name}.key"

    def kubeconfig(self, name: str) -> str:
        """Return the path of a component's kubeconfig."""
        return f"{self.config}/{name}.conf"

    @property
    def store_data(self) -> str:
        """What exists exactly where the store has data."""
        if self.spec.uses_etcd:
            return f"{self.spec.etcd_data_dir.value}/member"
        return f"{self.spec.kine_data_dir.value}/state.db"

    @property
    def store_unit(self) -> str:
        """The store's unit."""
        return "etcd.service" if self.spec.uses_etcd else "kine.service"


def server_url(spec: ClusterSpec, host: HostSpec) -> str:
    """Return the URL at which a host's own API server is reached from that host."""
    return f"https://{host.ip.value}:{spec.kube_apiserver_port.value}"


def access(spec: ClusterSpec, host: HostSpec) -> Access:
    """Return how the agent on a control-plane host reaches the API: as the administrator."""
    return client_access(spec, host, "admin")


def client_access(spec: ClusterSpec, host: HostSpec, client: str) -> Access:
    """Return how a client with a certificate of that name reaches the API."""
    paths = Paths(spec)
    return (server_url(spec, host), paths.cert("ca"), paths.cert(client), paths.key(client))
