"""containerd, runc and the images that a node needs before it can reach a registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nidome.agent.resources.binary import Binary
from nidome.agent.resources.condition import Condition
from nidome.agent.resources.directory import Directory
from nidome.agent.resources.file import File
from nidome.agent.resources.image import Image
from nidome.roles.base import Handler, HostContext, Role, Task
from nidome.roles.paths import Paths
from nidome.roles.units import Service

if TYPE_CHECKING:
    from nidome.agent.resources.unit import Unit

__all__ = ["CONTAINERD", "DNS_IMAGE", "SANDBOX_IMAGE", "USER_IMAGES", "cgroup_driver", "socket_path"]

_ROLE = "container-engine/containerd"
_TAGS = ("container-engine", "containerd")
_BINARIES = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd-shim-runc-v2",
    "ctr": "ctr",
    "runc": "runc",
    "crictl": "crictl",
}
_CONFIG = "/etc/containerd/config.toml"
_CNI_TEMPLATE = "/etc/cni/net.d/10-nidome.conflist.template"
USER_IMAGE = "image:"
_OPEN_FILES = 20000  # the hard limit that a machine without CAP_SYS_RESOURCE was seen to have


def cgroup_driver(context: HostContext) -> str:
    """Return the driver for kubelet and containerd: systemd where it owns cgroup2, else plain cgroupfs."""
    return "systemd" if context.facts["systemd"] and context.facts["cgroup"] == 2 else "cgroupfs"  # noqa: PLR2004 - cgroup2


def socket_path(context: HostContext) -> str:
    """Return containerd's socket."""
    return f"{context.spec.containerd_state_dir.value}/containerd.sock"


def _config(context: HostContext) -> str:
    spec, q = context.spec, json.dumps
    cri = "io.containerd.cri.v1"
    runtime = spec.containerd_default_runtime.value
    lines = [
        "version = 3",
        f"root = {q(spec.containerd_storage_dir.value)}",
        f"state = {q(spec.containerd_state_dir.value)}",
        f"oom_score = {spec.containerd_oom_score.value}",
        "",
        "[grpc]",
        f"  address = {q(socket_path(context))}",
        "",
        "[debug]",
        f"  level = {q(spec.containerd_debug_level.value)}",
        "",
        "[metrics]",
        f"  address = {q(spec.containerd_metrics_address.value)}",
        "",
        f"[plugins.'{cri}.images']",
        f"  snapshotter = {q(spec.containerd_snapshotter.value)}",
        f"  [plugins.'{cri}.images'.pinned_images]",
        f"    sandbox = {q(context.artifacts['image-pause'].reference)}",
        "",
        f"[plugins.'{cri}.runtime']",
        f"  max_container_log_line_size = {spec.containerd_max_container_log_line_size.value}",
        # Without CAP_SYS_RESOURCE no score may be lowered, and a container that asks for it would not start.
        f"  restrict_oom_score_adj = {q(not context.facts['cap_sys_resource'])}",
        f"  [plugins.'{cri}.runtime'.cni]",
        '    bin_dirs = ["/opt/cni/bin"]',
        '    conf_dir = "/etc/cni/net.d"',
        # Filled in with the node's pod network as soon as the node is given one.
        f"    conf_template = {q(_CNI_TEMPLATE)}",
        f"  [plugins.'{cri}.runtime'.containerd]",
        f"    default_runtime_name = {q(runtime)}",
        f"    [plugins.'{cri}.runtime'.containerd.runtimes.{runtime}]",
        '      runtime_type = "io.containerd.runc.v2"',
        f"      [plugins.'{cri}.runtime'.containerd.runtimes.{runtime}.options]",
        f"        BinaryName = {q(Paths(spec).binary('runc'))}",
        f"        SystemdCgroup = {q(cgroup_driver(context) == 'systemd')}",
        "",
    ]
    return "\n".join(lines)


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
    state = spec.containerd_state_dir.value
    return Service(
        "containerd",
        "containerd container runtime",
        [paths.binary("containerd"), "--config", _CONFIG],
        (_CONFIG, _CNI_TEMPLATE, paths.binary("containerd")),
        notify=True,
        settings=(
            "Delegate=yes",
            "KillMode=process",
            f"LimitNOFILE={limit}",
            "TasksMax=infinity",
            f"Environment=PATH={paths.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
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
    names = tuple(
        f"containerd_{n}"
        for n in (
            "storage_dir",
            "state_dir",
            "oom_score",
            "debug_level",
            "metrics_address",
            "snapshotter",
            "max_container_log_line_size",
            "default_runtime",
        )
    )
    return [
        Task(_ROLE, "Create containerd directories", directories, _TAGS, ("containerd_storage_dir",)),
        Task(_ROLE, "Install containerd binaries", _binaries(context), (*_TAGS, "download"), ("bin_dir",)),
        Task(_ROLE, "Install CNI plugins", _plugins(context), (*_TAGS, "download", "network")),
        Task(
            _ROLE,
            "Write CNI configuration template",
            (File(_CNI_TEMPLATE, _cni_template(context)),),
            (*_TAGS, "network"),
            ("kube_pods_subnet",),
        ),
        Task(
            _ROLE,
            "Write containerd configuration",
            (File(_CONFIG, _config(context)), _crictl(context)),
            _TAGS,
            names,
        ),
        Task(_ROLE, "Start containerd", (_unit(context),), _TAGS),
    ]


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


def _import(title: str, *names: str) -> Role:
    def tasks(context: HostContext) -> list[Task]:
        images = tuple(_image(context, name) for name in names)
        return [Task("download", title, images, ("download", "images"))]

    return Role("download", tasks, artifacts=lambda _: names)


def _user_images(context: HostContext) -> list[Task]:
    images = tuple(_image(context, name) for name in sorted(context.artifacts) if name.startswith(USER_IMAGE))
    return [Task("download", "Import images of your own", images, ("download", "images"))] if images else []


CONTAINERD = Role(
    _ROLE,
    _tasks,
    _handlers,
    lambda _: (*_BINARIES, "cni-bridge", "cni-host-local", "cni-loopback", "cni-portmap"),
)
# The sandbox image is needed by the first pod, CoreDNS's a moment later: unpacking it may take its time then.
SANDBOX_IMAGE = _import("Import the sandbox image", "image-pause")
DNS_IMAGE = _import("Import the CoreDNS image", "image-coredns")
# What `nidome artifacts image add` was given: no registry may be there to bring it.
USER_IMAGES = Role("download", _user_images)
