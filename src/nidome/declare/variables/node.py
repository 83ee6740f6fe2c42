"""The kubelet: how much of a node pods may have, and its arguments."""

from __future__ import annotations

from nidome.declare.kinds import BOOL, integer, list_of, text
from nidome.declare.shapes import QUANTITY, THRESHOLDS
from nidome.declare.variables.table import Variable

__all__ = ["TABLE"]

_FLAG = text("a flag such as --name=value", r"--[a-z][A-Za-z0-9-]*(=.*)?")
_RESERVED = (
    ("cpu", "Processor time"),
    ("memory", "Memory"),
    ("ephemeral_storage", "Disk space"),
    ("pid", "Process numbers"),
)
_AMOUNTS = {
    "kube": ("100m", "256Mi", "500Mi", "1000"),
    "system": ("500m", "512Mi", "500Mi", "1000"),
}
_WHOM = {"kube": "Kubernetes' own components", "system": "the host's other services"}


def _reserved(scope: str) -> tuple[Variable, ...]:
    """Return the switch of a reservation, and how much of each resource it is."""
    switch = Variable(
        f"{scope}_reserved",
        BOOL,
        default=False,
        meaning=f"Whether a part of each node is kept from pods, for {_WHOM[scope]}.",
        difference="Pods get what is left; no cgroup holds the components to their part, so "
        f"{scope}_reserved_cgroups is not supported.",
    )
    amounts = zip(_RESERVED, _AMOUNTS[scope], strict=True)
    parts = (
        Variable(f"{scope}_{name}_reserved", QUANTITY, amount, f"{word} of that part.")
        for (name, word), amount in amounts
    )
    return (switch, *parts)


TABLE = (
    Variable("kubelet_max_pods", integer(1, 65535), 110, "Most pods on a node."),
    Variable(
        "kubelet_rotate_certificates",
        BOOL,
        default=True,
        meaning="Whether the kubelet renews its client certificate.",
    ),
    Variable(
        "kubelet_rotate_server_certificates",
        BOOL,
        default=True,
        meaning="Whether the kubelet asks the cluster's CA for its serving certificate and renews it.",
        difference="kubespray's default is false, which leaves the kubelet with a self-signed certificate.",
    ),
    Variable("kubelet_logfiles_max_nr", integer(2, 100000), 5, "Log files that are kept of a container."),
    Variable("kubelet_logfiles_max_size", QUANTITY, "10Mi", "Size at which a container's log is put aside."),
    *_reserved("kube"),
    *_reserved("system"),
    Variable(
        "eviction_hard",
        THRESHOLDS,
        {},
        "Signals at which the kubelet evicts pods; {} is the kubelet's own choice.",
    ),
    Variable("kubelet_custom_flags", list_of(_FLAG, "flags"), (), "More arguments of the kubelet."),
)
