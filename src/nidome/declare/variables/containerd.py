"""containerd: where it keeps things, its runtimes, and the registries that it asks."""

from __future__ import annotations

from nidome.declare.kinds import BOOL, PATH, choice, integer, map_of, text
from nidome.declare.shapes import LISTENER, Part, one_or_more, records, url
from nidome.declare.variables.table import CONTAINERD, Variable

__all__ = ["TABLE"]

_REGISTRY = text("a registry such as docker.io or 10.0.0.2:5000", r"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_RUNTIME = text("the name of a runtime", r"[A-Za-z0-9][A-Za-z0-9_-]*")
_TYPE = text(
    "the type of a runtime such as io.containerd.runc.v2", r"io\.containerd(\.[a-z0-9_-]+)+\.v[0-9]+"
)
_EMPTY = text("'' (containerd 2 has no such setting any more)", "")
_ANY = text("one line of text", r".+")
_OPTIONS = map_of(r"[A-Za-z][A-Za-z0-9_]*", r".*", "a mapping of a runtime's options to values")
_ABILITY = choice("pull", "resolve", "push")

_MIRROR = {
    "host": Part(url("https", "http")),
    "capabilities": Part(one_or_more(_ABILITY), ("pull", "resolve")),
    "skip_verify": Part(BOOL, default=False),
    "override_path": Part(BOOL, default=False),
    "ca": Part(one_or_more(PATH), ()),
}
_MIRRORS = {
    "prefix": Part(_REGISTRY),
    "mirrors": Part(records("mirrors", _MIRROR)),
    "server": Part(url("https", "http"), ""),
}
_CREDENTIALS = {"registry": Part(_REGISTRY), "username": Part(_ANY), "password": Part(_ANY, secret=True)}
_RUNTIMES = {
    "name": Part(_RUNTIME),
    "type": Part(_TYPE),
    "engine": Part(_EMPTY, ""),
    "root": Part(_EMPTY, ""),
    "options": Part(_OPTIONS, {}),
}


_PLACES = (
    Variable(
        "containerd_storage_dir",
        PATH,
        "/var/lib/containerd",
        "Directory of images and snapshots.",
        CONTAINERD,
    ),
    Variable(
        "containerd_state_dir",
        PATH,
        "/run/containerd",
        "Directory of what does not survive a boot.",
        CONTAINERD,
    ),
    Variable("containerd_oom_score", integer(-999, 1000), 0, "containerd's OOM score.", CONTAINERD),
    Variable(
        "containerd_snapshotter",
        choice("overlayfs"),
        "overlayfs",
        "How image layers are stacked.",
        CONTAINERD,
    ),
    Variable(
        "containerd_debug_level",
        choice("trace", "debug", "info", "warn", "error", "fatal", "panic"),
        "info",
        "Verbosity of containerd.",
        CONTAINERD,
    ),
    Variable(
        "containerd_metrics_address",
        LISTENER,
        "",
        "Where containerd serves its metrics; '' is nowhere.",
        CONTAINERD,
    ),
    Variable(
        "containerd_max_container_log_line_size",
        integer(-1, 2**31 - 1),
        16384,
        "Longest line of a container's log in bytes; a longer one is split, -1 never splits.",
        CONTAINERD,
    ),
)

_USES = (
    Variable(
        "containerd_default_runtime",
        _RUNTIME,
        "runc",
        "Runtime of pods that ask for none: runc, or one of containerd_additional_runtimes.",
        CONTAINERD,
    ),
    Variable(
        "containerd_additional_runtimes",
        records("runtimes", _RUNTIMES),
        (),
        "Runtimes beside runc. Their shims must be on the hosts.",
        CONTAINERD,
    ),
    Variable(
        "containerd_registries_mirrors",
        records("registries", _MIRRORS),
        (),
        "Where the images of a registry come from.",
        CONTAINERD,
        difference="kubespray's default names docker.io's own server as its mirror, which is where "
        "containerd goes without one.",
    ),
    Variable(
        "containerd_registry_auth",
        records("credentials", _CREDENTIALS),
        (),
        "Names and passwords for registries.",
        CONTAINERD,
    ),
)

TABLE = (*_PLACES, *_USES)
