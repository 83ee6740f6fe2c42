"""What an API server is told of users, of auditing and of encryption, where a cluster asks for it.

Each extra is its arguments and the files that they name; the API server reads those at its start.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.directory import Directory
from nidome.agent.resources.encryption import PLAIN, EncryptionKeys
from nidome.agent.resources.file import File
from nidome.roles.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nidome.agent.resources.base import Resource
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import HostContext

__all__ = ["FIELDS", "Extra", "extras"]

FIELDS = (
    "kube_webhook_token_auth",
    "kube_webhook_token_auth_url",
    "kube_webhook_token_auth_url_skip_tls_verify",
    "kube_webhook_token_auth_ca_data",
    "kube_oidc_auth",
    "kube_oidc_url",
    "kube_oidc_client_id",
    "kube_oidc_username_claim",
    "kube_oidc_username_prefix",
    "kube_oidc_groups_claim",
    "kube_oidc_groups_prefix",
    "kube_oidc_ca_cert",
    "kubernetes_audit",
    "audit_log_path",
    "audit_log_maxage",
    "audit_log_maxbackups",
    "audit_log_maxsize",
    "audit_policy_file",
    "kube_encrypt_secret_data",
    "kube_encryption_algorithm",
    "kube_encryption_resources",
)
"""The declared values that shape the extras."""

# Nobody asks who looked at these, and they are most of all requests.
_NOISE: tuple[dict[str, Any], ...] = (
    {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]},
    {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
    {"level": "None", "resources": [{"group": "", "resources": ["events"]}]},
    {"level": "None", "verbs": ["get", "list", "watch"], "userGroups": ["system:nodes"]},
    {
        "level": "None",
        "verbs": ["get", "list", "watch"],
        "users": ["system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"],
    },
)
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [*_NOISE, {"level": "Metadata"}],
}


@dataclass(frozen=True)
class Extra:
    """Arguments, the files that they name, and what the API server leaves behind because of them."""

    arguments: Mapping[str, object] = field(default_factory=dict)
    resources: tuple[Resource, ...] = ()
    residue: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that are read at a start."""
        return tuple(path for resource in self.resources for path in resource.paths)


def extras(context: HostContext) -> Extra:
    """Return everything that is asked for beside the usual."""
    found = [_webhook(context.spec), _oidc(context.spec), _audit(context.spec), _encryption(context)]
    return Extra(
        {name: value for extra in found for name, value in extra.arguments.items()},
        tuple(resource for extra in found for resource in extra.resources),
        tuple(residue for extra in found for residue in extra.residue),
    )


def _webhook(spec: ClusterSpec) -> Extra:
    if not spec.kube_webhook_token_auth.value:
        return Extra()
    cluster: dict[str, object] = {"server": spec.kube_webhook_token_auth_url.value}
    if spec.kube_webhook_token_auth_url_skip_tls_verify.value:
        cluster["insecure-skip-tls-verify"] = True
    elif spec.kube_webhook_token_auth_ca_data.value:
        cluster["certificate-authority-data"] = spec.kube_webhook_token_auth_ca_data.value
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "webhook", "cluster": cluster}],
        "users": [{"name": "apiserver", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "apiserver"}}],
        "current-context": "webhook",
    }
    path = f"{Paths(spec).config}/webhook-token-auth-config.yaml"
    return Extra({"authentication-token-webhook-config-file": path}, (_json(path, config, "0600"),))


def _json(path: str, value: Any, mode: str = "0644") -> File:
    """Return a file of JSON, which is YAML too."""
    return File(path, json.dumps(value, indent=2) + "\n", mode)


def _oidc(spec: ClusterSpec) -> Extra:
    if not spec.kube_oidc_auth.value:
        return Extra()
    arguments: dict[str, object] = {
        "oidc-issuer-url": spec.kube_oidc_url.value,
        "oidc-client-id": spec.kube_oidc_client_id.value,
        "oidc-username-claim": spec.kube_oidc_username_claim.value,
        "oidc-username-prefix": spec.kube_oidc_username_prefix.value,
        "oidc-groups-claim": spec.kube_oidc_groups_claim.value,
        "oidc-groups-prefix": spec.kube_oidc_groups_prefix.value,
    }
    encoded = spec.kube_oidc_ca_cert.value
    if not encoded:
        return Extra(arguments)
    path = Paths(spec).cert("oidc-ca")
    ca = File(path, base64.b64decode(encoded).decode())
    return Extra({**arguments, "oidc-ca-file": path}, (ca,))


def _audit(spec: ClusterSpec) -> Extra:
    if not spec.kubernetes_audit.value:
        return Extra()
    policy, log = spec.audit_policy_file.value, spec.audit_log_path.value
    arguments = {
        "audit-policy-file": policy,
        "audit-log-path": log,
        "audit-log-maxage": spec.audit_log_maxage.value,
        "audit-log-maxbackup": spec.audit_log_maxbackups.value,
        "audit-log-maxsize": spec.audit_log_maxsize.value,
    }
    directory, _, name = log.rpartition("/")
    stem, dot, end = name.rpartition(".") if "." in name else (name, "", "")
    # A log that was put aside has the time between its name and its end.
    aside = f"path:{directory}/{stem}-[0-9][0-9][0-9][0-9]-*{dot}{end}"
    residue = () if log == "-" else (f"path:{log}", aside, f"empty-tree:{directory}")
    files = (Directory(policy.rpartition("/")[0]), _json(policy, _POLICY))
    return Extra(arguments, files, residue)


def _encryption(context: HostContext) -> Extra:
    """Return the keys; where there were some, they stay, so that what they encrypted can be read."""
    spec = context.spec
    on, path = spec.kube_encrypt_secret_data.value, f"{Paths(spec).certs}/secrets_encryption.yaml"
    algorithm = spec.kube_encryption_algorithm.value if on else PLAIN
    keys = EncryptionKeys(path, algorithm, spec.kube_encryption_resources.value)
    if not on and keys.id not in context.facts["ledger"]:
        return Extra()
    return Extra({"encryption-provider-config": path}, (keys,))
