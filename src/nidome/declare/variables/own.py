"""Variables of Nidome's own."""

from __future__ import annotations

from nidome.declare.kinds import integer, list_of, text
from nidome.declare.variables.table import ALL, OWN, Variable

__all__ = ["TABLE"]

_CHECK = text("the name of a preflight check", r"[a-z][a-z0-9-]*")

TABLE = (
    Variable(
        "ignore_preflight_errors",
        list_of(_CHECK, "names of preflight checks"),
        (),
        "Preflight checks that may fail.",
        ALL,
        difference=OWN,
    ),
    Variable(
        "nidome_certificate_days",
        integer(1, 36500),
        365,
        "Days that a certificate is valid.",
        ALL,
        difference=OWN,
    ),
    Variable(
        "nidome_ca_days",
        integer(1, 36500),
        3650,
        "Days that a certificate authority is valid.",
        ALL,
        difference=OWN,
    ),
)
