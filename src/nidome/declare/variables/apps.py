"""DNS and addons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.declare.kinds import BOOL, IP, choice, integer, list_of
from nidome.declare.variables.table import ADDONS, ALL, Computed, Variable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLE"]


def _spread(known: Mapping[str, Any]) -> int:
    hosts: int = known["hosts"]
    return min(2, hosts)


TABLE = (
    Variable(
        "dns_mode",
        choice("coredns", "manual", "none"),
        "coredns",
        "Who answers pods' questions for names: CoreDNS, manual_dns_server, or nobody of the cluster.",
    ),
    Variable("manual_dns_server", IP, None, "The server that pods ask with dns_mode: manual."),
    Variable(
        "dns_min_replicas",
        integer(1, 100),
        Computed("2, or 1 on a single host", _spread),
        "Replicas of CoreDNS.",
    ),
    Variable(
        "upstream_dns_servers",
        list_of(IP, "IPv4 addresses"),
        (),
        "Servers that CoreDNS asks for other names; [] is the host's own resolver.",
        ALL,
    ),
    Variable(
        "helm_enabled", BOOL, default=False, meaning="Whether the helm program is installed.", file=ADDONS
    ),
)
