"""A Kubernetes API client of the size that objects and conditions need: JSON over one connection."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from typing import Any, Dict, Mapping, Optional, Tuple

from nidome.errors import ResourceError

__all__ = ["Api", "object_path"]

_UNAUTHORIZED = 401
_NOT_FOUND = 404
_CONFLICT = 409
_FAILURE = 300
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

_PLURALS = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "StorageClass": "storageclasses"}
_CLUSTER_SCOPED = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Namespace",
        "Node",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
    }
)


def object_path(manifest: Mapping[str, Any]) -> str:
    """Return the API path of the object that a manifest describes."""
    version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, kind.lower() + "s")
    scope = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{meta['namespace']}"
    return f"{root}{scope}/{plural}/{urllib.parse.quote(meta['name'])}"


class Api:
    """One API server, reached with a client certificate; thread-safe, requests go one by one.

    Errors are ResourceError: ``api-unreachable`` where nothing answers, ``api-refused`` with the
    server's own message for a status of 300 or above, ``object-conflict`` for 409.
    """

    def __init__(self, server: str, ca: str, certificate: str, key: str) -> None:
        self.server = server
        self._files = (ca, certificate, key)
        self._connection: Optional[http.client.HTTPSConnection] = None
        self._lock = threading.Lock()

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        ca, certificate, key = self._files
        try:
            context = ssl.create_default_context(cafile=ca)
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ResourceError(
                "api-credentials",
                f"cannot use {certificate}: {error}",
                where=self.server,
                hint="nidome apply --tags certificates",
            ) from None
        url = urllib.parse.urlsplit(self.server)
        connection = http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=timeout, context=context
        )
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _send(
        self, method: str, path: str, body: Optional[bytes], kind: str, timeout: float
    ) -> Tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = kind
        fresh = self._connection is None
        if self._connection is None:
            self._connection = self._connect(timeout)
        try:
            self._connection.timeout = timeout
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (http.client.HTTPException, OSError):
            self.close()
            if fresh:
                raise
            # A kept connection may have been closed by a restart of the server: once more on a new one.
            return self._send(method, path, body, kind, timeout)

    def request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", timeout: float = 10
    ) -> Tuple[int, Any]:
        """Send one request; return the status and the decoded body (text where it is not JSON)."""
        raw = None if body is None else json.dumps(body).encode()
        with self._lock:
            try:
                status, answer = self._send(method, path, raw, kind, timeout)
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise ResourceError(
                    "api-untrusted",
                    f"the API server's certificate is not trusted: {error.verify_message}",
                    where=self.server,
                    hint="nidome apply restarts what still has old certificates",
                ) from None
            except (http.client.HTTPException, OSError) as error:
                self.close()
                raise ResourceError(
                    "api-unreachable",
                    f"the API server does not answer: {error}",
                    where=self.server,
                    hint="nidome logs kube-apiserver",
                ) from None
            if status == _UNAUTHORIZED:
                # The certificate may have been made anew since: the next request reads it again.
                self.close()
        try:
            return status, json.loads(answer)
        except ValueError:
            return status, answer.decode(errors="replace")

    def get(self, path: str) -> Optional[Dict[str, Any]]:
        """Return an object, or None where there is none."""
        status, answer = self.request("GET", path)
        if status == _NOT_FOUND:
            return None
        return self._checked(status, answer, path)

    def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        dry_run: bool = False,
        force: bool = False,
        manager: str = "nidome",
    ) -> Dict[str, Any]:
        """Apply a manifest on the server's side and return the object that results."""
        path = object_path(manifest)
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        status, answer = self.request(
            "PATCH", f"{path}?{urllib.parse.urlencode(query)}", manifest, kind=APPLY
        )
        return self._checked(status, answer, path)

    def patch(self, path: str, body: Any, kind: str) -> Dict[str, Any]:
        """Patch an object and return what it became."""
        status, answer = self.request("PATCH", path, body, kind=kind)
        return self._checked(status, answer, path)

    def delete(self, path: str) -> None:
        """Delete an object; one that is not there is deleted already."""
        status, answer = self.request("DELETE", path, {"propagationPolicy": "Background"})
        if status != _NOT_FOUND:
            self._checked(status, answer, path)

    def _checked(self, status: int, answer: Any, path: str) -> Dict[str, Any]:
        message = answer.get("message", "") if isinstance(answer, dict) else str(answer)
        if status == _CONFLICT:
            raise ResourceError(
                "object-conflict",
                message,
                where=path,
                hint="run `nidome apply --take-over` to own these fields",
            )
        if status >= _FAILURE or not isinstance(answer, dict):
            raise ResourceError(
                "api-refused",
                f"HTTP {status}: {message[:400]}",
                where=path,
                hint="nidome logs kube-apiserver",
            )
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
