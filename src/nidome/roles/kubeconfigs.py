"""Kubeconfigs that refer to certificates by path, so that a renewed certificate needs no new file."""

from __future__ import annotations

import json

from nidome.agent.resources.file import File

__all__ = ["kubeconfig", "kubeconfig_text"]


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
