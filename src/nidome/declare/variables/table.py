"""What is said of a supported variable, and where the writer of inventories puts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nidome.declare.kinds import Kind, secret_texts, text, typed
from nidome.errors import DeclarationError
from nidome.provenance import Sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.declare.groups import Entry

__all__ = ["ADDONS", "ALL", "CONTAINERD", "DURATION", "ETCD", "NAME", "OWN", "Computed", "Variable"]

ALL = "group_vars/all/all.yml"
CONTAINERD = "group_vars/all/containerd.yml"
ETCD = "group_vars/all/etcd.yml"
ADDONS = "group_vars/k8s_cluster/addons.yml"
OWN = "Not a variable of kubespray."
"""The difference of a variable that is Nidome's own."""

NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of a DNS label."""

DURATION = text("a duration such as 1h0m0s", r"([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+", "duration")


class Computed(NamedTuple):
    """A default that follows from other values: said in words, and as a function of the values known so far.

    ``follows`` names the variable whose origin the value takes over ("" when it follows from the inventory).
    """

    words: str
    value: Callable[[Mapping[str, Any]], Any]
    follows: str = ""


class Variable(NamedTuple):
    """A supported variable. ``file`` is where the writer puts it; ``pinned`` ones are always written out."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    file: str = "group_vars/k8s_cluster/k8s-cluster.yml"
    scope: Literal["cluster", "host"] = "cluster"
    field: str = ""
    difference: str = ""
    pinned: bool = False

    @property
    def model_field(self) -> str:
        """Return the field of ClusterSpec or HostSpec that holds the value."""
        return self.field or self.name

    def read(self, entry: Entry) -> Sourced[Any]:
        """Return the typed value of a rendered entry with its origin; DeclarationError where it is wrong."""
        try:
            value = typed(self.kind, entry.node, self.name)
        except DeclarationError as error:
            if entry.uses is not None:
                error.message += (
                    f" (the value is a template that uses {', '.join(entry.uses) or 'no variable'})"
                )
                error.hint = f"correct the template, or what it uses; docs/variables.md describes {self.name}"
            raise
        secrets = secret_texts(entry.node)
        if secrets and isinstance(value, str):
            secrets = (*secrets, value)
        return Sourced(value, entry.origin, entry.uses or (), secrets)
