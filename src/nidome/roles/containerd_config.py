"""The files that containerd reads: its configuration, its registries, and the proxy of its service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.roles.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nidome.agent.resources.base import Resource
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import HostContext

__all__ = [
    "CNI_TEMPLATE",
    "CONFIG",
    "FIELDS",
    "PROXY_FIELDS",
    "cgroup_driver",
    "config",
    "proxy",
    "registries",
]

CONFIG = "/etc/containerd/config.toml"
CNI_TEMPLATE = "/etc/cni/net.d/10-nidome.conflist.template"
_REGISTRIES = "/etc/containerd/certs.d"
_PROXY = "/etc/containerd/proxy.env"
_CRI = "io.containerd.cri.v1"
_IMAGES, _RUNTIME = f"plugins.'{_CRI}.images'", f"plugins.'{_CRI}.runtime'"
_RUNC_TYPE = "io.containerd.runc.v2"
_QUOTE = json.dumps

FIELDS = (
    "containerd_storage_dir",
    "containerd_state_dir",
    "containerd_oom_score",
    "containerd_debug_level",
    "containerd_metrics_address",
    "containerd_snapshotter",
    "containerd_max_container_log_line_size",
    "containerd_default_runtime",
    "containerd_additional_runtimes",
    "containerd_registries_mirrors",
    "containerd_registry_auth",
)
"""The declared values that shape the configuration."""

PROXY_FIELDS = ("http_proxy", "https_proxy", "no_proxy", "additional_no_proxy")
"""The declared values that shape the proxy."""


def cgroup_driver(context: HostContext) -> str:
    """Return the driver for kubelet and containerd: systemd where it owns cgroup2, else plain cgroupfs."""
    return "systemd" if context.facts["systemd"] and context.facts["cgroup"] == 2 else "cgroupfs"  # noqa: PLR2004 - cgroup2


def config(context: HostContext, socket: str) -> File:
    """Return the configuration; one that holds passwords is for root alone."""
    spec = context.spec
    text = "\n".join(
        [
            *_main(spec, socket),
            *_images(context),
            *_credentials(spec),
            *_runtime(context),
            *_runtimes(context),
            "",
        ]
    )
    return File(CONFIG, text, "0600" if spec.containerd_registry_auth.value else "0644")


def _main(spec: ClusterSpec, socket: str) -> list[str]:
    return [
        "version = 3",
        f"root = {_QUOTE(spec.containerd_storage_dir.value)}",
        f"state = {_QUOTE(spec.containerd_state_dir.value)}",
        f"oom_score = {spec.containerd_oom_score.value}",
        "",
        "[grpc]",
        f"  address = {_QUOTE(socket)}",
        "",
        "[debug]",
        f"  level = {_QUOTE(spec.containerd_debug_level.value)}",
        "",
        "[metrics]",
        f"  address = {_QUOTE(spec.containerd_metrics_address.value)}",
        "",
    ]


def _images(context: HostContext) -> list[str]:
    spec = context.spec
    lines = [
        f"[{_IMAGES}]",
        f"  snapshotter = {_QUOTE(spec.containerd_snapshotter.value)}",
        f"  [{_IMAGES}.pinned_images]",
        f"    sandbox = {_QUOTE(context.artifacts['image-pause'].reference)}",
    ]
    if spec.containerd_registries_mirrors.value:
        lines += [f"  [{_IMAGES}.registry]", f"    config_path = {_QUOTE(_REGISTRIES)}"]
    return lines


def _credentials(spec: ClusterSpec) -> list[str]:
    lines = []
    for entry in spec.containerd_registry_auth.value:
        lines += [
            f"  [{_IMAGES}.registry.configs.{_QUOTE(entry['registry'])}.auth]",
            f"    username = {_QUOTE(entry['username'])}",
            f"    password = {_QUOTE(entry['password'])}",
        ]
    return [*lines, ""]


def _runtime(context: HostContext) -> list[str]:
    spec = context.spec
    return [
        f"[{_RUNTIME}]",
        f"  max_container_log_line_size = {spec.containerd_max_container_log_line_size.value}",
        # Without CAP_SYS_RESOURCE no score may be lowered, and a container that asks for it would not start.
        f"  restrict_oom_score_adj = {_QUOTE(not context.facts['cap_sys_resource'])}",
        f"  [{_RUNTIME}.cni]",
        '    bin_dirs = ["/opt/cni/bin"]',
        '    conf_dir = "/etc/cni/net.d"',
        # Filled in with the node's pod network as soon as the node is given one.
        f"    conf_template = {_QUOTE(CNI_TEMPLATE)}",
        f"  [{_RUNTIME}.containerd]",
        f"    default_runtime_name = {_QUOTE(spec.containerd_default_runtime.value)}",
    ]


def _runtimes(context: HostContext) -> list[str]:
    systemd = cgroup_driver(context) == "systemd"
    options = {"BinaryName": Paths(context.spec).binary("runc"), "SystemdCgroup": str(systemd).lower()}
    runc: dict[str, Any] = {"name": "runc", "type": _RUNC_TYPE, "options": options}
    lines = []
    for runtime in (runc, *context.spec.containerd_additional_runtimes.value):
        table = f"{_RUNTIME}.containerd.runtimes.{runtime['name']}"
        lines += [
            f"    [{table}]",
            f"      runtime_type = {_QUOTE(runtime['type'])}",
            f"      [{table}.options]",
        ]
        lines += [f"        {name} = {_option(value)}" for name, value in runtime["options"].items()]
    return lines


def _option(value: str) -> str:
    """Return an option's value: true and false are truths, all else is text, as kubespray writes it."""
    return value if value in ("true", "false") else _QUOTE(value)


def registries(spec: ClusterSpec) -> tuple[Resource, ...]:
    """Return the files that say where a registry's images come from; they are read at each pull."""
    found: list[Resource] = []
    for registry in spec.containerd_registries_mirrors.value:
        directory = f"{_REGISTRIES}/{registry['prefix']}"
        found += [Directory(directory), File(f"{directory}/hosts.toml", _hosts(registry))]
    return (Directory(_REGISTRIES), *found) if found else ()


def _hosts(registry: Mapping[str, Any]) -> str:
    # Without a server, containerd itself knows where the registry is: docker.io's has another name.
    lines = [f"server = {_QUOTE(registry['server'])}"] if registry["server"] else []
    for mirror in registry["mirrors"]:
        lines += ["", f"[host.{_QUOTE(mirror['host'])}]"]
        lines += [f"  capabilities = {_QUOTE(list(mirror['capabilities']))}"]
        lines += [f"  {name} = {_QUOTE(mirror[name])}" for name in ("skip_verify", "override_path")]
        lines += [f"  ca = {_QUOTE(list(mirror['ca']))}"] if mirror["ca"] else []
    return "\n".join([*lines, ""])


def proxy(spec: ClusterSpec) -> tuple[File, ...]:
    """Return the environment of containerd's service, where there is a proxy."""
    named = {"HTTP_PROXY": spec.http_proxy.value, "HTTPS_PROXY": spec.https_proxy.value}
    if not any(named.values()):
        return ()
    values = {**named, "NO_PROXY": _no_proxy(spec)}
    text = "".join(f'{name}="{value}"\n' for name, value in values.items() if value)
    return (File(_PROXY, text, "0600"),)


def _no_proxy(spec: ClusterSpec) -> str:
    hosts = [word for host in spec.hosts for word in (host.name, host.ip.value, host.access_ip.value)]
    networks = [spec.kube_service_addresses.value, spec.kube_pods_subnet.value]
    usual = ["localhost", "127.0.0.1", *hosts, *networks, ".svc", f".{spec.cluster_name.value}"]
    chosen = spec.no_proxy.value
    words = [chosen] if chosen is not None else list(dict.fromkeys(usual))
    return ",".join(word for word in (*words, spec.additional_no_proxy.value) if word)
