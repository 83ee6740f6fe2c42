"""Every supported variable, declared once, by topic: name, type, default, meaning, field of the model.

Names and defaults are kubespray's; where a default or the supported choices differ, ``difference`` says so,
and ``docs/variables.md`` is generated from these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nidome.declare.variables import apps, cluster, containerd, control_plane, hosts, node, own, store
from nidome.declare.variables.cluster import KUBE_VERSIONS
from nidome.declare.variables.table import Computed, Variable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BY_NAME", "KUBE_VERSIONS", "VARIABLES", "Computed", "Variable"]

_TOPICS = (cluster, control_plane, node, apps, store, containerd, own, hosts)

VARIABLES: tuple[Variable, ...] = tuple(variable for topic in _TOPICS for variable in topic.TABLE)
"""In an order in which every computed default comes after what it follows from."""

BY_NAME: Mapping[str, Variable] = {variable.name: variable for variable in VARIABLES}
