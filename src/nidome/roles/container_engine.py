"""containerd, runc and the images that a node needs before it can reach a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.agent.resources.binary import Binary
from nidome.agent.resources.condition import Condition
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.agent.resources.image import Image
from nidome.roles.base import Handler, HostContext, Role, Task
from nidome.roles.containerd_config import (
    CNI_TEMPLATE,
    CONFIG,
    FIELDS,
    PROXY_FIELDS,
    config,
    proxy,
    registries,
)
from nidome.roles.paths import Paths
from nidome.roles.units import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.agent.resources.unit import Unit
    from nidome.model.spec import ClusterSpec

__all__ = ["CNI", "CONTAINERD", "DNS_IMAGE", "SANDBOX_IMAGE", "USER_IMAGES", "socket_path"]

_ROLE = "container-engine/containerd"
_TAGS = ("container-engine", "containerd")
_BINARIES = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd-shim-runc-v2",
    "ctr": "ctr",
    "runc": "runc",
    "crictl": "crictl",
}
USER_IMAGE = "image:"
_OPEN_FILES = 20000  # the hard limit that a machine without CAP_SYS_RESOURCE was seen to have


def socket_path(context: HostContext) -> str:
    """Return containerd's socket."""
    return f"{context.spec.containerd_state_dir.value}/containerd.sock"


def _binaries(context: HostContext) -> tuple[Binary, ...]:
    found = context.artifacts
    return tuple(
        Binary(Paths(context.spec).binary(file), found[name].sha256, found[name].version, found[name].size)
        for name, file in _BINARIES.items()
    )


def _unit(context: HostContext) -> Unit:
    paths, spec = Paths(context.spec), context.spec
    # runc, ctr and the shim are started afresh for each use; only containerd itself must be restarted.
    limit = "infinity" if context.facts["cap_sys_resource"] else _OPEN_FILES
    state, files = spec.containerd_state_dir.value, proxy(spec)
    return Service(
        "containerd",
        "containerd container runtime",
        [paths.binary("containerd"), "--config", CONFIG],
        (CONFIG, CNI_TEMPLATE, paths.binary("containerd"), *(file.path for file in files)),
        notify=True,
        settings=(
            "Delegate=yes",
            "KillMode=process",
            f"LimitNOFILE={limit}",
            "TasksMax=infinity",
            f"Environment=PATH={paths.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
            *(f"EnvironmentFile={file.path}" for file in files),
        ),
        residue=(
            "kill-cgroup:system.slice/containerd.service",
            "netns:cni-",
            f"mounts:{state}",
            f"mounts:{spec.containerd_storage_dir.value}",
            "path:/etc/cni/net.d/*.conflist",
            f"path:{state}",
            "link:cni0",
            "path:/var/lib/cni",
            "firewall-chains:CNI-",
            "new-nft-tables:$nft-tables",
            "path:/run/containerd",
            "path:/run/nri",
            "empty-tree:/opt/containerd",
        ),
    ).unit(context.facts)


def _crictl(context: HostContext) -> File:
    return File("/etc/crictl.yaml", f"runtime-endpoint: unix://{socket_path(context)}\ntimeout: 10\n")


def _tasks(context: HostContext) -> list[Task]:
    spec = context.spec
    directories = (
        Directory("/etc/containerd"),
        Directory(spec.containerd_storage_dir.value, "0700", owned=True),
        Directory("/etc/cni/net.d"),
        Directory("/opt/cni/bin"),
        Directory("/var/log/pods", "0750", owned=True),
        Directory("/var/log/containers", owned=True),
    )
    return [
        Task(_ROLE, "Create containerd directories", directories, _TAGS, ("containerd_storage_dir",)),
        Task(
            _ROLE,
            "Install containerd binaries",
            _binaries(context),
            (*_TAGS, "download", "upgrade"),
            ("bin_dir",),
        ),
        Task(
            _ROLE,
            "Write CNI configuration template",
            (File(CNI_TEMPLATE, _cni_template(context)),),
            (*_TAGS, "network"),
            ("kube_pods_subnet",),
        ),
        Task(
            _ROLE,
            "Write containerd configuration",
            (config(context, socket_path(context)), _crictl(context)),
            _TAGS,
            FIELDS,
        ),
        *_optional(spec),
        Task(_ROLE, "Start containerd", (_unit(context),), _TAGS, PROXY_FIELDS),
    ]


def _optional(spec: ClusterSpec) -> list[Task]:
    """Return what is written only where it was asked for."""
    found = (
        ("Write registries and their mirrors", registries(spec), ("containerd_registries_mirrors",)),
        ("Write the proxy of containerd", proxy(spec), PROXY_FIELDS),
    )
    return [Task(_ROLE, name, resources, _TAGS, fields) for name, resources, fields in found if resources]


def _network(context: HostContext) -> list[Task]:
    tags = ("network", "cni", "download", "upgrade")
    return [Task("network_plugin/cni", "Install CNI plugins", _plugins(context), tags)]


def _plugins(context: HostContext) -> tuple[Binary, ...]:
    names = [n for n in context.artifacts if n.startswith("cni-")]
    found = context.artifacts
    return tuple(
        Binary(f"/opt/cni/bin/{n[4:]}", found[n].sha256, found[n].version, found[n].size) for n in names
    )


def _cni_template(context: HostContext) -> str:
    """Return the template that containerd fills in with the node's pod networks."""
    ranges = '[{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}]'
    routes = '[{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]'
    del context
    return f"""{{
  "cniVersion": "1.0.0",
  "name": "nidome",
  "plugins": [
    {{
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {{"type": "host-local", "ranges": {ranges}, "routes": {routes}}}
    }},
    {{"type": "portmap", "capabilities": {{"portMappings": true}}, "snat": true}}
  ]
}}
"""


def _handlers(context: HostContext) -> list[Handler]:
    unit = _unit(context)
    ready = Condition("socket", (unit.name,), 60, parameters={"path": socket_path(context)})
    return [Handler(_ROLE, "Containerd | restart containerd", unit.name, unit.inputs, _TAGS, ready)]


def _image(context: HostContext, name: str) -> Image:
    found, paths = context.artifacts[name], Paths(context.spec)
    store = context.spec.containerd_storage_dir.value
    ctr, kept = paths.binary("ctr"), name.startswith(USER_IMAGE)
    return Image(found.reference, found.sha256, ctr, socket_path(context), store, kept=kept)


def _import(title: str, name: str, *, needed: Callable[[ClusterSpec], bool] = lambda _: True) -> Role:
    def tasks(context: HostContext) -> list[Task]:
        return [Task("download", title, (_image(context, name),), ("download", "images"))]

    return Role(
        "download",
        tasks,
        artifacts=lambda spec: (name,) if needed(spec) else (),
        applies=lambda context: needed(context.spec),
    )


def _user_images(context: HostContext) -> list[Task]:
    images = tuple(_image(context, name) for name in sorted(context.artifacts) if name.startswith(USER_IMAGE))
    return [Task("download", "Import images of your own", images, ("download", "images"))] if images else []


CONTAINERD = Role(
    _ROLE,
    _tasks,
    _handlers,
    lambda _: tuple(_BINARIES),
)
CNI = Role(
    "network_plugin/cni",
    _network,
    artifacts=lambda _: ("cni-bridge", "cni-host-local", "cni-loopback", "cni-portmap"),
)
# The sandbox image is needed by the first pod, CoreDNS's a moment later: unpacking it may take its time then.
SANDBOX_IMAGE = _import("Import the sandbox image", "image-pause")
DNS_IMAGE = _import(
    "Import the CoreDNS image", "image-coredns", needed=lambda spec: spec.dns_mode.value == "coredns"
)
# What `nidome artifacts image add` was given: no registry may be there to bring it.
USER_IMAGES = Role("download", _user_images)
