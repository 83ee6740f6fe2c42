"""``nidome status``: components, versions, restarts, since when, and whether the cluster is Ready."""

from __future__ import annotations

import calendar
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from nidome.cli import common
from nidome.cli.tables import ago, duration, stamp, table
from nidome.progress import Progress

if TYPE_CHECKING:
    import argparse

    from nidome.engine.status import ClusterStatus, Component, HostStatus

__all__ = ["configure", "render", "run"]

_HEAD = ("COMPONENT", "VERSION", "STATE", "RESTARTS", "SINCE")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Show the cluster; return 0 when everything is up, 1 otherwise."""
    from nidome.engine.status import cluster_status  # noqa: PLC0415 - not needed for --help
    from nidome.prove.records import last_of  # noqa: PLC0415 - as above

    spec, warnings = common.declared(args)
    common.warn_briefly(warnings, args)
    with Progress().item("asking the hosts", total=len(spec.hosts), unit="hosts") as item:
        status = cluster_status(spec, item.advance)
    last = last_of(common.cluster_name(spec))
    if args.json:
        print(json.dumps({**status.to_json(), "last_run": last.meta if last else None}, indent=1))
    else:
        print(render(status, last.meta if last else None, time.time()))
        for host in status.hosts:
            if host.error:
                print(common.explained(host.error).render(), file=sys.stderr)
    return 0 if status.up else 1


def render(status: ClusterStatus, last: dict[str, Any] | None, now: float) -> str:
    """Return the status for people; ``now`` is in seconds since the epoch."""
    word = "up" if status.up else "NOT UP"
    parts = [f"{status.cluster}: Kubernetes {status.version}, store {status.store}: {word}"]
    parts += [_host(host, now) for host in status.hosts]
    parts.append(_last(last))
    return "\n\n".join(parts)


def _host(host: HostStatus, now: float) -> str:
    name = f"{host.host} ({host.address})"
    if host.error:
        return f"{name}: cannot be asked"
    if not host.components:
        return f"{name}: nothing is installed (nidome apply)"
    lines = [name, table(_HEAD, [_row(c, now) for c in host.components], indent="  ")]
    lines += [f"  {c.component}: NO: {c.unhealthy}" for c in host.components if c.unhealthy]
    lines += [f"  {c.condition}: {'ok' if c.holds else 'NO: ' + c.detail}" for c in host.conditions]
    return "\n".join(lines)


def _row(component: Component, now: float) -> tuple[str, ...]:
    since = component.since
    if since:
        began = calendar.timegm(time.strptime(since, "%Y-%m-%dT%H:%M:%SZ"))
        since = f"{stamp(began)} ({ago(now - began)})"
    restarts = str(component.restarts)
    return (component.component, component.version or "-", _state(component), restarts, since or "-")


def _state(component: Component) -> str:
    if not component.running:
        return f"{component.state} ({component.substate}, {component.result})"
    return component.substate if component.steady else "keeps ending"


def _last(meta: dict[str, Any] | None) -> str:
    if meta is None:
        return "no run of this cluster is recorded here"
    counts = ", ".join(
        f"{host}: changed={c['changed']}, failed={c['failed']}" for host, c in meta.get("recap", {}).items()
    )
    words = [meta["status"], duration(meta.get("seconds")), counts]
    return f"last run {meta['run']}: {', '.join(w for w in words if w)}  (nidome runs show {meta['run']})"
