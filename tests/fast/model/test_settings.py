from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nidome.declare.variables import KUBE_VERSIONS
from nidome.errors import DeclarationError
from nidome.model.flags import flags
from nidome.model.spec import because

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec

_RUNTIME = {"name": "kata", "type": "io.containerd.kata.v2"}
_MIRROR = {"prefix": "docker.io", "mirrors": [{"host": "https://m.example"}]}

# What is declared, the error's code, and words of its message and of its next step.
_BAD: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"kube_oidc_auth": True},
        "setting-incomplete",
        "kube_oidc_auth: true needs kube_oidc_url",
        "kube_oidc_url",
    ),
    (
        {"kube_oidc_auth": True, "kube_oidc_url": "https://idp.example"},
        "setting-incomplete",
        "needs kube_oidc_client_id",
        "kube_oidc_client_id",
    ),
    (
        {"kube_webhook_token_auth": True},
        "setting-incomplete",
        "needs kube_webhook_token_auth_url",
        "kube_webhook_token_auth_url",
    ),
    (
        {"kube_encrypt_secret_data": True, "kube_encryption_resources": []},
        "setting-incomplete",
        "needs kube_encryption_resources",
        "kube_encryption_resources",
    ),
    (
        {"dns_mode": "manual"},
        "setting-incomplete",
        "dns_mode: manual needs manual_dns_server",
        "manual_dns_server",
    ),
    (
        {"containerd_default_runtime": "kata"},
        "variable-choice",
        "'kata' is none of runc",
        "additional_runtimes",
    ),
    (
        {"containerd_additional_runtimes": [_RUNTIME, _RUNTIME]},
        "name-twice",
        "more than one name kata",
        "keep one",
    ),
    (
        {"containerd_additional_runtimes": [{**_RUNTIME, "name": "runc"}]},
        "name-twice",
        "more than one name runc",
        "keep one",
    ),
    (
        {"containerd_registries_mirrors": [_MIRROR, _MIRROR]},
        "name-twice",
        "more than one prefix docker.io",
        "keep one",
    ),
    (
        {"kube_kubeadm_scheduler_extra_args": {"leader-elct": "true"}},
        "flag-unknown",
        "kube-scheduler 1.36.4 has no flag --leader-elct",
        "did you mean --leader-elect?",
    ),
    (
        {"kube_kubeadm_apiserver_extra_args": {"no-such-thing": "1"}},
        "flag-unknown",
        "kube-apiserver 1.36.4 has no flag --no-such-thing",
        "kube-apiserver --help",
    ),
    (
        {"kube_kubeadm_controller_extra_args": {"tls-curve-preferences": "X25519"}, "kube_version": "1.35.8"},
        "flag-unknown",
        "kube-controller-manager 1.35.8 has no flag --tls-curve-preferences",
        "",
    ),
    (
        {"kubelet_custom_flags": ["--max-podz=3"]},
        "flag-unknown",
        "kubelet 1.36.4 has no flag --max-podz",
        "--max-pods",
    ),
]


@pytest.mark.parametrize(("variables", "code", "message", "hint"), _BAD)
def test_settings_that_need_each_other(
    declared: Callable[..., ClusterSpec], variables: dict[str, Any], code: str, message: str, hint: str
) -> None:
    """A setting without what it needs, a name given twice, and a flag that nothing has are errors."""
    with pytest.raises(DeclarationError) as caught:
        declared(**variables)
    assert caught.value.code == code
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "all.yml:" in caught.value.where


_GOOD: list[dict[str, Any]] = [
    {"containerd_default_runtime": "kata", "containerd_additional_runtimes": [_RUNTIME]},
    {"kube_kubeadm_controller_extra_args": {"tls-curve-preferences": "X25519"}},
    {"kube_kubeadm_apiserver_extra_args": {"v": 5}, "kubelet_custom_flags": ["--max-pods=3", "--v=4"]},
    {"dns_mode": "manual", "manual_dns_server": "10.0.0.53"},
    {"kube_oidc_url": "https://idp.example"},
]


@pytest.mark.parametrize("variables", _GOOD)
def test_settings_that_fit_each_other(
    declared: Callable[..., ClusterSpec], variables: dict[str, Any]
) -> None:
    """What has all that it needs is taken, flags of the declared release too."""
    spec = declared(**variables)
    assert spec.values().keys() >= variables.keys()


@pytest.mark.parametrize("version", KUBE_VERSIONS)
def test_every_release_has_its_flags(version: str) -> None:
    """The table of flags knows the components of every supported release."""
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"):
        assert {"v", "help", "version"} <= flags(component, version)


def test_a_long_value_is_cut_in_a_reason(declared: Callable[..., ClusterSpec]) -> None:
    """A reason shows the beginning of a value that is long, as an encoded certificate is."""
    spec = declared(kube_kubeadm_apiserver_extra_args={"audit-log-path": "/" + "x" * 1000})
    [reason] = because(spec, "kube_kubeadm_apiserver_extra_args")
    assert "audit-log-path: /xxx" in reason
    assert len(reason) < 500


def test_passwords_are_not_told(declared: Callable[..., ClusterSpec]) -> None:
    """A password is in no reason and in no list of values, and yet another one is another declaration."""
    entry = {"registry": "r.example", "username": "u", "password": "hunter2"}
    first = declared(containerd_registry_auth=[entry], http_proxy="http://me:hunter2@proxy.example:3128")
    told = str(because(first, "containerd_registry_auth", "http_proxy"))
    assert "hunter2" not in told
    assert "http_proxy = http://me:***@proxy.example:3128" in told
    assert "hunter2" not in str(first.values()["containerd_registry_auth"])
    second = declared(
        containerd_registry_auth=[{**entry, "password": "other"}],
        http_proxy="http://me:hunter2@proxy.example:3128",
    )
    assert first.digest != second.digest
    assert because(declared(), "containerd_registry_auth") == ("containerd_registry_auth = [] (default)",)
