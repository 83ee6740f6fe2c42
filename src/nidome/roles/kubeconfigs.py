"""Kubeconfigs that refer to certificates by path, so that a renewed certificate needs no new file."""

from __future__ import annotations

import base64
import json

from nidome.agent.resources.file import File

__all__ = ["embedded_kubeconfig", "kubeconfig", "kubeconfig_text"]


def kubeconfig_text(server: str, ca: str, user: str, credentials: dict[str, str]) -> str:
    """Return a kubeconfig; ``credentials`` are the keys of its user, such as ``client-certificate``."""
    q = json.dumps
    lines = ["apiVersion: v1", "kind: Config", "clusters:", "- name: kubernetes", "  cluster:"]
    lines += [f"    server: {q(server)}", f"    certificate-authority: {q(ca)}"]
    lines += [
        "users:",
        f"- name: {q(user)}",
        "  user:",
        *(f"    {k}: {q(v)}" for k, v in credentials.items()),
    ]
    lines += ["contexts:", "- name: default", "  context:", "    cluster: kubernetes", f"    user: {q(user)}"]
    return "\n".join([*lines, "current-context: default", ""])


def kubeconfig(path: str, server: str, ca: str, user: str, credentials: dict[str, str]) -> File:
    """Return a kubeconfig that only root reads."""
    return File(path, kubeconfig_text(server, ca, user, credentials), mode="0600")


def embedded_kubeconfig(server: str, ca: str, certificate: str, key: str) -> str:
    """Return an administrator's kubeconfig that holds its credentials (PEM) and refers to no file."""

    def data(pem: str) -> str:
        return json.dumps(base64.b64encode(pem.encode()).decode())

    lines = ["apiVersion: v1", "kind: Config", "clusters:", "- name: kubernetes", "  cluster:"]
    lines += [f"    server: {json.dumps(server)}", f"    certificate-authority-data: {data(ca)}"]
    lines += ["users:", "- name: kubernetes-admin", "  user:"]
    lines += [f"    client-certificate-data: {data(certificate)}", f"    client-key-data: {data(key)}"]
    lines += ["contexts:", "- name: kubernetes-admin@kubernetes", "  context:"]
    lines += ["    cluster: kubernetes", "    user: kubernetes-admin"]
    return "\n".join([*lines, "current-context: kubernetes-admin@kubernetes", ""])
