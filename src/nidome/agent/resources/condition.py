"""Conditions: what must become true before a run may go on. They are waited for, never brought about."""

from __future__ import annotations

import calendar
import http.client
import os
import random
import socket
import ssl
import struct
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Sequence, Tuple

from nidome.agent.resources.base import Observed, Resource
from nidome.agent.resources.kubeobject import wait_for_api
from nidome.agent.resources.restarts import restarts
from nidome.agent.resources.unit import unit_failure
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host
    from nidome.agent.kube import Api

__all__ = ["Condition", "apply", "observe"]

_POLL_SECONDS = 0.04
_DNS_SECONDS = 0.3
_ENDS_WAITED_FOR = 5
_LEASE_SECONDS = 40  # after which the node controller, too, counts a node as lost


@dataclass(frozen=True)
class Condition(Resource):
    """``probe`` holds within ``timeout`` seconds; ``units`` must run for it and are quoted when it fails.

    ``access`` is the API server's URL, CA, certificate and key for probes that ask it; ``parameters`` are
    the probe's own.
    """

    kind: ClassVar[str] = "Condition"
    probe: str
    units: Tuple[str, ...] = ()
    timeout: float = 120
    access: Tuple[str, ...] = ()
    parameters: Dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The probe and its parameters."""
        return " ".join(
            [self.probe, *(f"{k}={v}" for k, v in sorted(self.parameters.items())), *self.units[:1]]
        )

    def desired(self) -> Dict[str, Any]:
        """Return that it holds."""
        return {"holds": True}


def _is_active(condition: Condition, host: Host) -> str:
    inactive = [u for u in condition.units if host.unit(u, fresh=True).get("ActiveState") != "active"]
    return f"{', '.join(inactive)} not active" if inactive else ""


def _api(condition: Condition, host: Host) -> Api:
    return host.api(condition.access)


def _api_ready(condition: Condition, host: Host) -> str:
    wait_for_api(_api(condition, host), 0)
    return ""


def _endpoint(condition: Condition, host: Host) -> str:
    found = _api(condition, host).get("/api/v1/namespaces/default/endpoints/kubernetes") or {}
    addresses = [a["ip"] for s in found.get("subsets", []) for a in s.get("addresses", [])]
    return "" if addresses else "the kubernetes Service has no endpoint"


def _node_ready(condition: Condition, host: Host) -> str:
    """Take a Ready condition from the kubelet that runs now alone: a lost node keeps Ready=True."""
    name = condition.parameters["node"]
    shown = host.unit("kubelet.service", fresh=True)
    started = int(shown.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    if shown.get("ActiveState") != "active" or not started:
        return f"the kubelet of {name} is not running"
    node = _api(condition, host).get(f"/api/v1/nodes/{name}")
    if node is None:
        return f"node {name} has not registered"
    ready = next((c for c in node["status"].get("conditions", []) if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        return f"node {name} is not Ready: {ready['message'] if ready else 'no condition yet'}"
    lease = _api(condition, host).get(
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    )
    # A new kubelet makes its lease only later; its first word is the heartbeat, in whole seconds.
    heard = max(
        _seconds(ready["lastHeartbeatTime"]) + 1, _seconds(lease["spec"]["renewTime"]) if lease else 0
    )
    if heard < time.time() - (time.monotonic() - started):
        return f"node {name} has not been heard of since its kubelet started"
    if time.time() - heard > _LEASE_SECONDS:
        return f"node {name} has not been heard of for {_LEASE_SECONDS} s"
    return ""


def _seconds(moment: str) -> float:
    """Return a Kubernetes time, with or without a fraction, in seconds since the epoch."""
    return calendar.timegm(time.strptime(moment.partition(".")[0].rstrip("Z"), "%Y-%m-%dT%H:%M:%S"))


def _healthy(condition: Condition, host: Host) -> str:
    """Ask a component itself; what it answers on loopback is no secret, and its certificate is its own."""
    inactive = _is_active(condition, host)
    if inactive or "url" not in condition.parameters:
        return inactive
    url = urllib.parse.urlsplit(condition.parameters["url"])
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, timeout=2, context=context)
    else:
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=2)
    try:
        connection.request("GET", url.path)
        response = connection.getresponse()
        said = response.read(200).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"{condition.parameters['url']} does not answer: {error}"
    finally:
        connection.close()
    return "" if response.status == 200 else f"{condition.parameters['url']} says {said}"  # noqa: PLR2004 - HTTP OK


def _dns_query(name: str, server: str) -> List[str]:
    """Return the IPv4 addresses that a DNS server gives for a name (RFC 1035, one question over UDP)."""
    identity = random.randrange(1 << 16)  # noqa: S311 - matches an answer to its question, guards nothing
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.rstrip(".").split(".")) + b"\0"
    question = struct.pack(">HHHHHH", identity, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_DNS_SECONDS)
        sock.connect((server, 53))
        sock.send(question)
        answer = sock.recv(4096)
    count = struct.unpack(">H", answer[6:8])[0]
    if answer[:2] != question[:2] or answer[3] & 0x0F or not count:
        return []
    return [socket.inet_ntoa(answer[-4:])]


def _dns(condition: Condition, host: Host) -> str:
    del host
    name, server = condition.parameters["name"], condition.parameters["server"]
    try:
        addresses = _dns_query(name, server)
    except OSError as error:
        return f"{server} does not answer for {name}: {error}"
    wanted = condition.parameters.get("address")
    if not addresses or (wanted and addresses != [wanted]):
        return f"{server} says {addresses or 'nothing'} for {name}"
    return ""


def _socket(condition: Condition, host: Host) -> str:
    del host
    path = condition.parameters["path"]
    if not os.path.exists(path):
        return f"{path} does not exist"
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except OSError as error:
            return f"{path}: {error.strerror}"
    return ""


PROBES: Dict[str, Callable[[Condition, "Host"], str]] = {
    "api-ready": _api_ready,
    "dns": _dns,
    "healthy": _healthy,
    "kubernetes-endpoint": _endpoint,
    "node-ready": _node_ready,
    "socket": _socket,
    "unit-active": _is_active,
}
"""Each probe returns what is missing, "" when it holds."""


def _missing(condition: Condition, host: Host) -> str:
    try:
        return PROBES[condition.probe](condition, host)
    except ResourceError as error:
        return error.message


def observe(resources: Sequence[Condition], host: Host) -> List[Observed]:
    """Probe once; nothing is asked of a service whose unit does not run."""
    host.show_units(sorted({u for r in resources for u in r.units} - set(host.units)))
    found: List[Observed] = []
    for resource in resources:
        stopped = [
            u for u in resource.units if host.unit(u).get("ActiveState") not in ("active", "activating")
        ]
        missing = f"{', '.join(stopped)} not running" if stopped else _missing(resource, host)
        found.append({"holds": not missing, "$detail": missing})
    return found


def apply(resource: Condition, host: Host) -> None:
    """Wait until the probe holds."""
    deadline = time.monotonic() + resource.timeout
    before = {u: _restarts(u, host) for u in resource.units}
    checked = time.monotonic()
    while True:
        missing = _missing(resource, host)
        if not missing:
            return
        if host.abandoned():
            raise ResourceError(
                "abandoned", "nobody waits for this any more", where=resource.id, hint="run this again"
            )
        if time.monotonic() > deadline:
            raise _failure(resource, f"not within {resource.timeout:.0f} s: {missing}")
        if time.monotonic() - checked > 1:
            checked = time.monotonic()
            _fail_early(resource, before, host)
        time.sleep(_POLL_SECONDS)


def _restarts(unit: str, host: Host) -> int:
    return restarts(host.unit(unit, fresh=True))


def _fail_early(resource: Condition, before: Dict[str, int], host: Host) -> None:
    for unit, count in before.items():
        if _restarts(unit, host) - count >= _ENDS_WAITED_FOR:
            raise _failure(resource, f"{unit} keeps ending: {host.unit(unit).get('Result')}")


def _failure(resource: Condition, message: str) -> ResourceError:
    lines = []
    for unit in resource.units:
        lines += [f"{unit}: {line.strip()}" for line in unit_failure(unit, "", "").message.splitlines()[1:]]
    return ResourceError(
        "condition-timeout",
        "\n".join([f"{resource.probe}: {message}", *lines]),
        where=resource.id,
        hint=f"nidome logs {resource.units[0].rpartition('.')[0]}" if resource.units else "run this again",
    )
