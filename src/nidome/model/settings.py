"""Settings that need each other, or that a component must know: checks across fields of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nidome.model.findings import DeclarationWarning
    from nidome.model.spec import ClusterSpec
    from nidome.provenance import Sourced

__all__ = ["CHECKS"]


class _Need(NamedTuple):
    """A setting which, at a value, needs others that are not empty."""

    setting: str
    value: Any
    needs: tuple[str, ...]


_NEEDS = (
    _Need("kube_oidc_auth", value=True, needs=("kube_oidc_url", "kube_oidc_client_id")),
    _Need("kube_webhook_token_auth", value=True, needs=("kube_webhook_token_auth_url",)),
    _Need("kube_encrypt_secret_data", value=True, needs=("kube_encryption_resources",)),
    _Need("dns_mode", "manual", ("manual_dns_server",)),
)

_ARGUMENTS = {
    "kube_kubeadm_apiserver_extra_args": "kube-apiserver",
    "kube_kubeadm_controller_extra_args": "kube-controller-manager",
    "kube_kubeadm_scheduler_extra_args": "kube-scheduler",
    "kubelet_custom_flags": "kubelet",
}
"""The settings that hold a component's arguments."""

_NAMES = {
    "containerd_registries_mirrors": "prefix",
    "containerd_registry_auth": "registry",
    "containerd_additional_runtimes": "name",
}
"""The lists whose entries have a name that no other may have."""


def _fail(code: str, message: str, sourced: Sourced[Any], hint: str) -> NoReturn:
    raise DeclarationError(code, message, where=str(sourced.origin), hint=hint)


def _together(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    for setting, value, needs in _NEEDS:
        sourced = getattr(spec, setting)
        for name in needs if sourced.value == value else ():
            if not getattr(spec, name).value:
                text = str(value).lower()
                _fail("setting-incomplete", f"{setting}: {text} needs {name}", sourced, f"set {name}")
    yield from ()


def _names(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    for setting, key in _NAMES.items():
        sourced, seen = getattr(spec, setting), {"runc"} if key == "name" else set()
        for entry in sourced.value:
            if entry[key] in seen:
                message = f"{setting}: there is more than one {key} {entry[key]}"
                _fail("name-twice", message, sourced, "keep one of them")
            seen.add(entry[key])
    yield from ()


def _runtime(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    chosen = spec.containerd_default_runtime
    names = ("runc", *(runtime["name"] for runtime in spec.containerd_additional_runtimes.value))
    if chosen.value not in names:
        message = f"containerd_default_runtime: '{chosen.value}' is none of {', '.join(names)}"
        hint = "choose one of them, or add it to containerd_additional_runtimes"
        _fail("variable-choice", message, chosen, hint)
    yield from ()


def _flags(spec: ClusterSpec) -> Iterator[DeclarationWarning]:
    for setting, component in _ARGUMENTS.items():
        sourced = getattr(spec, setting)
        if sourced.value:
            words = (word.removeprefix("--").partition("=")[0] for word in sourced.value)
            _require_flags(spec.kube_version.value, component, sourced, setting, words)
    yield from ()


def _require_flags(
    version: str, component: str, sourced: Sourced[Any], setting: str, words: Iterable[str]
) -> None:
    from nidome.model.flags import flags  # noqa: PLC0415 - read only where somebody adds arguments

    known = flags(component, version)
    for word in words:
        if word not in known:
            message = f"{setting}: {component} {version} has no flag --{word}"
            _fail("flag-unknown", message, sourced, _similar(word, known, component))


def _similar(word: str, known: frozenset[str], component: str) -> str:
    import difflib  # noqa: PLC0415 - only a misspelt name needs it

    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.75)
    return f"did you mean --{close[0]}?" if close else f"{component} --help lists its flags"


CHECKS = (_together, _names, _runtime, _flags)
