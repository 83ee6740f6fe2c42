"""The administrator's way to the API, fetched from a host each time: never stale, never kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.engine.transport import AgentConnection
from nidome.errors import StateError
from nidome.roles.kubeconfigs import embedded_kubeconfig
from nidome.roles.paths import Paths

if TYPE_CHECKING:
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["admin_kubeconfig"]

_ADMIN = "admin"


def admin_kubeconfig(spec: ClusterSpec, host: HostSpec) -> str:
    """Return the administrator's kubeconfig with the host's access address as server.

    Raises StateError ``cluster-missing`` where the host has no credentials, TransportError where it does
    not answer.
    """
    paths = Paths(spec)
    files = (paths.cert("ca"), paths.cert(_ADMIN), paths.key(_ADMIN))
    agent = AgentConnection(host)
    try:
        ca, certificate, key = (agent.call("read", path=path) for path in files)
    finally:
        agent.close()
    if not (ca and certificate and key):
        raise StateError(
            "cluster-missing",
            "the host has no administrator's certificate: no cluster was made on it",
            where=f"{host.name}: {files[1]}",
            hint="nidome apply",
        )
    server = f"https://{host.access_ip.value}:{spec.kube_apiserver_port.value}"
    return embedded_kubeconfig(server, ca, certificate, key)
