"""The API server, how it knows its users, what it writes down, and its two companions."""

from __future__ import annotations

from nidome.declare.kinds import BOOL, PATH, choice, integer, list_of, map_of, text, text_or_empty
from nidome.declare.shapes import CERTIFICATES, url
from nidome.declare.variables.table import Computed, Variable

__all__ = ["ARGUMENTS", "PORT", "TABLE"]

PORT = integer(1, 65535)
ARGUMENTS = map_of(r"[a-z][a-z0-9-]*", r"[^\s].*|", "a mapping of flag names (without --) to values")
_ALT_NAME = text("a host name or an address", r"(\*\.)?[A-Za-z0-9][A-Za-z0-9.:-]*")
_CLAIM = text("the name of a claim", r"[^\s\"'\\]+")
_PREFIX = text("the beginning of a name", r"[^\s\"'\\]+")
_CLIENT = text_or_empty("the client's identity at the provider", r"[^\s\"'\\]+")
_RESOURCE = text("a resource such as secrets or deployments.apps", r"[a-z]+(\.[a-z0-9.-]+)?")
_LOG = text("an absolute path without spaces, or - for the journal", r"-|(/[A-Za-z0-9_+@][A-Za-z0-9._+@-]*)+")

_ACCESS = (
    Variable("kube_apiserver_port", PORT, 6443, "Port of the API server.", pinned=True),
    Variable(
        "kube_api_anonymous_auth",
        BOOL,
        default=False,
        meaning="Whether the API server lets anonymous requests in.",
        difference="kubespray's default is true. Here health checks use a certificate, so nothing needs it.",
    ),
    Variable(
        "supplementary_addresses_in_ssl_keys",
        list_of(_ALT_NAME, "host names and addresses"),
        (),
        "More names and addresses that the API server's certificate is valid for.",
    ),
    Variable(
        "kube_webhook_token_auth",
        BOOL,
        default=False,
        meaning="Whether the API server asks a webhook about tokens that it does not know.",
    ),
    Variable("kube_webhook_token_auth_url", url("https"), "", "Address of that webhook."),
    Variable(
        "kube_webhook_token_auth_url_skip_tls_verify",
        BOOL,
        default=False,
        meaning="Whether that webhook may have any certificate.",
    ),
    Variable(
        "kube_webhook_token_auth_ca_data",
        CERTIFICATES,
        "",
        "Authorities of that webhook's certificate; '' is those that the host trusts.",
    ),
    Variable(
        "kube_oidc_auth",
        BOOL,
        default=False,
        meaning="Whether the API server takes tokens of an OpenID Connect provider.",
    ),
    Variable("kube_oidc_url", url("https"), "", "Address of that provider."),
    Variable("kube_oidc_client_id", _CLIENT, "", "Client that the provider's tokens must be for."),
    Variable("kube_oidc_username_claim", _CLAIM, "sub", "Claim that holds a user's name."),
    Variable(
        "kube_oidc_username_prefix",
        _PREFIX,
        None,
        "Put before users' names; unset is the API server's own choice.",
    ),
    Variable("kube_oidc_groups_claim", _CLAIM, "groups", "Claim that holds a user's groups."),
    Variable("kube_oidc_groups_prefix", _PREFIX, None, "Put before groups' names; unset is nothing."),
    Variable(
        "kube_oidc_ca_cert",
        CERTIFICATES,
        "",
        "Authorities of the provider's certificate; '' is those that the host trusts.",
        difference="Written to kube_cert_dir/oidc-ca.crt; kube_oidc_ca_file, a file that somebody else puts "
        "there, is not supported.",
    ),
)

_AUDIT = (
    Variable(
        "kubernetes_audit",
        BOOL,
        default=False,
        meaning="Whether the API server writes an audit log. A reset removes it, unless it was switched off "
        "before.",
    ),
    Variable("audit_log_path", _LOG, "/var/log/audit/kube-apiserver-audit.log", "Where it writes it."),
    Variable("audit_log_maxage", integer(0, 36500), 30, "Days that old audit logs are kept; 0 is for ever."),
    Variable("audit_log_maxbackups", integer(0, 100000), 10, "Old audit logs that are kept; 0 is all."),
    Variable("audit_log_maxsize", integer(1, 1048576), 100, "MiB at which an audit log is put aside."),
    Variable(
        "audit_policy_file",
        PATH,
        Computed(
            "kube_config_dir + /audit-policy/apiserver-audit-policy.yaml",
            lambda known: f"{known['kube_config_dir']}/audit-policy/apiserver-audit-policy.yaml",
            "kube_config_dir",
        ),
        "File with the rules of what is written.",
        difference="The rules are Nidome's own: who did what to which object, and the content of neither "
        "requests nor answers. audit_policy_custom_rules is not supported.",
    ),
)

_ENCRYPTION = (
    Variable(
        "kube_encrypt_secret_data",
        BOOL,
        default=False,
        meaning="Whether Secrets are encrypted in the store. One that is there already is encrypted, or "
        "decrypted again, when it is written the next time.",
        difference="The key is made on the host and stays there; kube_encrypt_token is not supported.",
    ),
    Variable(
        "kube_encryption_algorithm",
        choice("secretbox", "aescbc", "aesgcm"),
        "secretbox",
        "How they are encrypted. With a new algorithm, what was encrypted with an old one stays readable.",
    ),
    Variable(
        "kube_encryption_resources",
        list_of(_RESOURCE, "resources"),
        ("secrets",),
        "What is encrypted.",
    ),
)

_ARGUMENTS = (
    Variable("kube_kubeadm_apiserver_extra_args", ARGUMENTS, {}, "More arguments of kube-apiserver."),
    Variable(
        "kube_kubeadm_controller_extra_args", ARGUMENTS, {}, "More arguments of kube-controller-manager."
    ),
    Variable("kube_kubeadm_scheduler_extra_args", ARGUMENTS, {}, "More arguments of kube-scheduler."),
)

TABLE = (*_ACCESS, *_AUDIT, *_ENCRYPTION, *_ARGUMENTS)
