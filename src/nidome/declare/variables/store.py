"""Where the API server keeps its objects."""

from __future__ import annotations

from nidome.declare.kinds import PATH, choice
from nidome.declare.variables.table import ETCD, OWN, Variable

__all__ = ["TABLE"]

TABLE = (
    Variable(
        "etcd_deployment_type",
        choice("host", "kine"),
        "host",
        "What stores the API's objects.",
        ETCD,
        pinned=True,
        difference="host is etcd as a systemd service, as in kubespray. kine, SQLite behind etcd's API, "
        "exists here only, for one control-plane host. docker and kubeadm are not supported.",
    ),
    Variable("etcd_data_dir", PATH, "/var/lib/etcd", "Directory of etcd's data.", ETCD),
    Variable("kine_data_dir", PATH, "/var/lib/kine", "Directory of kine's database.", ETCD, difference=OWN),
)
