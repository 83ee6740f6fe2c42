"""The records of the kubespray lab page, recomputed from three logs and what the live cluster says.

The page has people write them by hand: what stands in the output of the first run, of the second, and of the
run with a tag. Pure: logs and answers come in, file contents go out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.errors import StateError
from nidome.roles.playbook import CLUSTER, KUBESPRAY

if TYPE_CHECKING:
    from nidome.prove.ansiblelog import PlaybookLog

__all__ = ["Live", "NamedLog", "build_of", "lab_records"]

_RESTART = "container-engine/containerd : Containerd | restart containerd"
_HINT = "nidome playbook -i INVENTORY cluster.yml, until it ends with failed=0"


@dataclass(frozen=True)
class NamedLog:
    """A log with the name by which errors call it: a file, or a run."""

    name: str
    log: PlaybookLog


@dataclass(frozen=True)
class Live:
    """What the cluster says now: the UID of its Node, and the API server's ``gitVersion``."""

    node_uid: str
    server_version: str


def lab_records(
    first: NamedLog, second: NamedLog, tagged: NamedLog, *, host: str, live: Live
) -> dict[str, str]:
    """Return the page's files by name.

    Raises StateError where a log has no such host or no times, and where its run failed.
    """
    for each in (first, second, tagged):
        _require_good(each, host)
    one, two = _counts(first, host), _counts(second, host)
    documents: dict[str, dict[str, Any]] = {
        "plan.json": _plan(),
        "run1.json": {**one, "slowest_task": first.log.slowest[0][0], "node_uid": live.node_uid},
        "run2.json": two,
        "report.json": {
            "kubespray": KUBESPRAY,
            "server_version": live.server_version,
            "first_run_sec": one["elapsed_sec"],
            "second_run_sec": two["elapsed_sec"],
            "first_changed": one["changed"],
            "second_changed": two["changed"],
            "tags_run_changed": tagged.log.recap[host]["changed"],
            "containerd_restarted": _restarted(tagged.log, host),
        },
    }
    files = {name: json.dumps(document, indent=2) + "\n" for name, document in documents.items()}
    return {**files, "changed.txt": "".join(f"{name}\n" for name in second.log.changed(host))}


def _plan() -> dict[str, int]:
    numbers = {play.name: number for number, play in enumerate(CLUSTER, 1)}
    return {
        "play_count": len(CLUSTER),
        "etcd_play": numbers["Install etcd"],
        "cni_play": numbers["Invoke kubeadm and install a CNI"],
        "apps_play": numbers["Install Kubernetes apps"],
    }


def _counts(named: NamedLog, host: str) -> dict[str, int]:
    """Return a run's counters, and its time in whole seconds that have passed."""
    counts = named.log.recap[host]
    return {name: counts[name] for name in ("ok", "changed", "failed")} | {
        "elapsed_sec": int(named.log.elapsed or 0)
    }


def _restarted(log: PlaybookLog, host: str) -> bool:
    return any(task.handler and task.name == _RESTART and task.changed_on(host) for task in log.tasks())


def _require_good(named: NamedLog, host: str) -> None:
    log = named.log
    if host not in log.recap:
        raise StateError(
            "report-host-missing",
            f"{host} is not in its PLAY RECAP",
            where=named.name,
            hint=f"hosts there: {', '.join(log.recap) or 'none'}; choose one with --host",
        )
    if log.elapsed is None or not log.slowest:
        raise StateError(
            "report-no-times",
            "it has no TASKS RECAP",
            where=named.name,
            hint="let ansible-playbook use the profile_tasks callback, or take Nidome's output",
        )
    bad = {n: c for n, c in log.recap[host].items() if n in ("failed", "unreachable") and c}
    if bad:
        told = ", ".join(f"{name}={count}" for name, count in bad.items())
        raise StateError("report-run-failed", f"the run failed: {told}", where=named.name, hint=_HINT)


def build_of(changes: list[dict[str, Any]]) -> bool:
    """Tell whether a run with these changes made the cluster: it created the API server's service."""
    return any(c["action"] == "create" and c["resource"] == "Unit:kube-apiserver.service" for c in changes)
