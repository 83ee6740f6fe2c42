"""Where the API server keeps its objects: etcd, or kine with sqlite; TLS and client certificates for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.agent.resources.binary import Binary
from nidome.agent.resources.directory import Directory
from nidome.roles.arguments import command
from nidome.roles.base import Handler, HostContext, Role, Task
from nidome.roles.paths import Paths
from nidome.roles.units import Service

if TYPE_CHECKING:
    from nidome.agent.resources.unit import Unit
    from nidome.model.spec import ClusterSpec

__all__ = ["STORE"]

CLIENT_PORT = 2379
_PEER_PORT = 2380
# The store holds every Secret: what it writes is for root alone.
_PRIVATE = ("UMask=0077",)


def _etcd(context: HostContext) -> Service:
    paths, spec, ip = Paths(context.spec), context.spec, context.host.ip.value
    peers = ",".join(f"{h.name}=https://{h.access_ip.value}:{_PEER_PORT}" for h in spec.etcd)
    server, key, ca = paths.cert("store-server"), paths.key("store-server"), paths.cert("etcd-ca")
    arguments = {
        "name": context.host.name,
        "data-dir": spec.etcd_data_dir.value,
        "listen-client-urls": f"https://127.0.0.1:{CLIENT_PORT},https://{ip}:{CLIENT_PORT}",
        "advertise-client-urls": f"https://{ip}:{CLIENT_PORT}",
        "listen-peer-urls": f"https://{ip}:{_PEER_PORT}",
        "initial-advertise-peer-urls": f"https://{context.host.access_ip.value}:{_PEER_PORT}",
        "initial-cluster": peers,
        "cert-file": server,
        "key-file": key,
        "trusted-ca-file": ca,
        "client-cert-auth": True,
        "peer-cert-file": server,
        "peer-key-file": key,
        "peer-trusted-ca-file": ca,
        "peer-client-cert-auth": True,
        "auto-compaction-retention": 8,
        "listen-metrics-urls": "http://127.0.0.1:2381",
    }
    return Service(
        "etcd",
        "etcd",
        command(paths.binary("etcd"), arguments),
        (paths.binary("etcd"), ca),
        notify=True,
        stop_seconds=20,
        settings=_PRIVATE,
    )


def _kine(context: HostContext) -> Service:
    paths, data = Paths(context.spec), context.spec.kine_data_dir.value
    arguments = {
        # kine's own defaults, written out: with WAL, NORMAL loses at most the last moments at a power cut.
        "endpoint": f"sqlite://{data}/state.db?_journal_mode=WAL&_busy_timeout=30000&_synchronous=NORMAL&_txlock=immediate&cache=shared",
        "listen-address": f"127.0.0.1:{CLIENT_PORT}",
        "server-cert-file": paths.cert("store-server"),
        "server-key-file": paths.key("store-server"),
        "trusted-ca-file": paths.cert("etcd-ca"),
        "metrics-bind-address": "0",
    }
    return Service(
        "kine",
        "kine (etcd API on sqlite)",
        command(paths.binary("kine"), arguments),
        (paths.binary("kine"), paths.cert("etcd-ca")),
        settings=_PRIVATE,
    )


def _service(context: HostContext) -> Service:
    return _etcd(context) if context.spec.uses_etcd else _kine(context)


def _unit(context: HostContext) -> Unit:
    return _service(context).unit(context.facts)


def _data_dir(context: HostContext) -> str:
    return context.spec.etcd_data_dir.value if context.spec.uses_etcd else context.spec.kine_data_dir.value


def _tasks(context: HostContext) -> list[Task]:
    role, tags, found = "etcd", ("etcd",), context.artifacts
    names = _names(context.spec)
    binaries = tuple(
        Binary(Paths(context.spec).binary(n), found[n].sha256, found[n].version, found[n].size) for n in names
    )
    fields = (
        ("etcd_deployment_type", "etcd_data_dir")
        if context.spec.uses_etcd
        else ("etcd_deployment_type", "kine_data_dir")
    )
    return [
        Task(
            role, "Create data directory", (Directory(_data_dir(context), "0700", owned=True),), tags, fields
        ),
        Task(role, f"Install {names[0]} binaries", binaries, (*tags, "download", "upgrade"), ("bin_dir",)),
        Task(role, f"Start {names[0]}", (_unit(context),), tags, fields),
    ]


def _handlers(context: HostContext) -> list[Handler]:
    unit = _unit(context)
    return [Handler("etcd", f"Restart {unit.name.partition('.')[0]}", unit.name, unit.inputs, ("etcd",))]


def _names(spec: ClusterSpec) -> tuple[str, ...]:
    return ("etcd", "etcdctl") if spec.uses_etcd else ("kine",)


STORE = Role("etcd", _tasks, _handlers, _names)
