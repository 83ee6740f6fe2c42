"""Approves the serving certificates that kubelets ask for, as soon as they ask.

Runs on a control-plane host as ``nidome-approver.service``, one self-contained file for the host's own Python
(3.9 or newer, standard library). The controller manager signs kubelet *client* certificates by itself; for
serving certificates it leaves the decision to somebody who knows the nodes' addresses. A request is approved
only if a node asks for itself, for a server, under names and addresses that its Node object has.
"""

from __future__ import annotations

import base64
import datetime as dt
import http.client
import ipaddress
import json
import re
import ssl
import subprocess
import sys
import time
import urllib.parse
from typing import Any, Dict, Iterator, Mapping, Optional, Set

__all__ = ["Approver", "main", "refusal"]

_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_SELECTOR = urllib.parse.urlencode({"fieldSelector": "spec.signerName=kubernetes.io/kubelet-serving"})
_USAGES = {"digital signature", "key encipherment", "server auth"}
_WATCH_SECONDS = 300
_SOON_SECONDS = 1
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def _asked(pem: bytes) -> Dict[str, Any]:
    """Return subject and names of a certificate request; raise ValueError where it is none."""
    done = subprocess.run(
        # Control characters are escaped: nobody's name can look like a line of openssl's own.
        ["openssl", "req", "-noout", "-text", "-subject", "-nameopt", "sep_multiline,sname,esc_ctrl"],
        input=pem,
        capture_output=True,
        check=False,
        timeout=10,
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0 or "\nsubject=" not in text:
        raise ValueError("it is not a certificate request")
    names = re.search(r"Subject Alternative Name:[^\n]*\n\s*([^\n]+)", text)
    subject = [line.strip() for line in text.rpartition("\nsubject=")[2].splitlines()]
    return {
        "subject": sorted(line for line in subject if line),
        "names": {_name(n.strip()) for n in names.group(1).split(",")} if names else set(),
    }


def _name(text: str) -> str:
    """Return one alternative name as ``IP:…`` or ``DNS:…``; other kinds stay as openssl writes them."""
    kind, _, value = text.partition(":")
    return f"IP:{ipaddress.ip_address(value)}" if kind == "IP Address" else text


def _addresses(node: Optional[Mapping[str, Any]]) -> Set[str]:
    """Return the names that a Node object says are its own, in the form of a certificate's."""
    found: Set[str] = set()
    for address in ((node or {}).get("status") or {}).get("addresses") or []:
        try:
            found.add(f"IP:{ipaddress.ip_address(address['address'])}")
        except ValueError:
            found.add(f"DNS:{address['address']}")
    return found


def refusal(request: Mapping[str, Any], node: Optional[Mapping[str, Any]]) -> str:
    """Return why a request must not be approved, "" where it may be."""
    spec = request["spec"]
    user = spec.get("username", "")
    try:
        asked = _asked(base64.b64decode(spec["request"]))
    except ValueError as error:
        return str(error)
    known = _addresses(node)
    checks = (
        (
            user.startswith("system:node:") and "system:nodes" in spec.get("groups", []),
            "it does not come from a node",
        ),
        (
            set(spec.get("usages", [])) <= _USAGES and "server auth" in spec.get("usages", []),
            "its usages are not a server's",
        ),
        (
            asked["subject"] == sorted([f"CN={user}", "O=system:nodes"]),
            "it is for another subject than its sender",
        ),
        (node is not None, "its node is unknown"),
        (
            bool(asked["names"]) and asked["names"] <= known,
            f"the node does not have {sorted(asked['names'] - known)}",
        ),
    )
    return next((reason for holds, reason in checks if not holds), "")


class Approver:
    """Watches requests through one API server."""

    def __init__(self, server: str, ca: str, certificate: str, key: str) -> None:
        self._refused: Dict[str, str] = {}
        url = urllib.parse.urlsplit(server)
        self._host, self._port = url.hostname or "", url.port
        self._context = ssl.create_default_context(cafile=ca)
        self._context.load_cert_chain(certificate, key)

    def _open(
        self, method: str, path: str, body: Any = None, timeout: float = 30
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout, context=self._context
        )
        raw = None if body is None else json.dumps(body)
        connection.request(
            method, path, raw, {"Accept": "application/json", "Content-Type": "application/json"}
        )
        response = connection.getresponse()
        if response.status == 404:  # noqa: PLR2004 - HTTP Not Found
            raise LookupError(path)
        if response.status >= 300:  # noqa: PLR2004 - HTTP failure
            raise OSError(f"HTTP {response.status} from {path}: {response.read(300)!r}")
        return response

    def _get(self, path: str) -> Dict[str, Any]:
        answer: Dict[str, Any] = json.load(self._open("GET", path))
        return answer

    def _requests(self) -> Iterator[Dict[str, Any]]:
        """Give every open request, then each new one until the server ends the watch."""
        listed = self._get(f"{_REQUESTS}?{_SELECTOR}")
        names = {r["metadata"]["name"] for r in listed["items"]}
        self._refused = {name: reason for name, reason in self._refused.items() if name in names}
        yield from listed["items"]
        version = listed["metadata"]["resourceVersion"]
        # What is refused now may be right as soon as its Node is there, or has its addresses.
        seconds = _SOON_SECONDS if self._refused else _WATCH_SECONDS
        query = f"{_SELECTOR}&watch=1&timeoutSeconds={seconds}&resourceVersion={version}"
        watch = self._open("GET", f"{_REQUESTS}?{query}", timeout=seconds + 30)
        for line in iter(watch.readline, b""):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] == "ADDED":
                yield event["object"]
                if self._refused and seconds == _WATCH_SECONDS:
                    return

    def _decide(self, request: Dict[str, Any]) -> None:
        if request.get("status", {}).get("conditions"):
            self._refused.pop(request["metadata"]["name"], None)
            return
        name, user = request["metadata"]["name"], request["spec"].get("username", "")
        try:
            node: Optional[Dict[str, Any]] = self._get(
                "/api/v1/nodes/" + urllib.parse.quote(user.split(":")[-1], safe="")
            )
        except LookupError:
            node = None
        reason = refusal(request, node)
        if reason:
            if self._refused.get(name) != reason:
                print(f"{name} of {user} is not approved: {reason}", flush=True)
            self._refused[name] = reason
            return
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "NodeAddresses",
            "lastUpdateTime": now,
            "message": "asked for by the node itself, for addresses that it has",
        }
        request.setdefault("status", {})["conditions"] = [condition]
        self._open("PUT", f"{_REQUESTS}/{name}/approval", request).read()
        self._refused.pop(name, None)
        print(f"{name} of {user} is approved", flush=True)

    def run(self) -> None:
        """Decide on requests for ever; a server that is away is asked again, ever more slowly."""
        failures = 0
        while True:
            try:
                for request in self._requests():
                    self._decide(request)
                failures = 0
            except (
                OSError,
                ValueError,
                LookupError,
                http.client.HTTPException,
                subprocess.SubprocessError,
            ) as error:
                print(f"the API server does not serve: {error}", flush=True)
                failures += 1
            time.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])


def main() -> None:
    """Run with the API server's URL, CA, certificate and key as arguments."""
    Approver(*sys.argv[1:5]).run()


if __name__ == "__main__":
    main()
