"""``nidome logs``: the journal of a component, from the host it runs on."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.errors import TransportError, UsageError
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = ["configure", "run"]

_LINES = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    parser.add_argument("component", metavar="COMPONENT", help="such as kubelet or kube-apiserver")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines are written")
    parser.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=_LINES,
        metavar="N",
        help="the last N lines (default: %(default)s)",
    )
    parser.add_argument("--host", help="from this host (default: the first one that has the component)")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of lines")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Become the ssh (or journalctl) that shows the journal."""
    from nidome.engine.transport import remote_command  # noqa: PLC0415 - not needed for --help

    spec, warnings = common.declared(args)
    common.warn_briefly(warnings, args)
    hosts = [common.host_named(spec, args.host)] if args.host else spec.hosts
    host, unit = _find(spec, args.component, hosts)
    words = ["journalctl", "--no-pager", "--unit", unit, "--lines", str(args.lines)]
    command = remote_command(host, [*words, *(["--follow"] if args.follow else [])])
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - an argument list without a shell is the safe form
    except FileNotFoundError:
        raise TransportError(
            "program-missing",
            f"'{command[0]}' is not on this machine",
            where=host.name,
            hint="install it, for ssh: openssh-client",
        ) from None


def _find(spec: ClusterSpec, component: str, hosts: Sequence[HostSpec]) -> tuple[HostSpec, str]:
    """Return the first host that has the component, and its unit there."""
    from nidome.engine.status import units  # noqa: PLC0415 - not needed for --help

    known: dict[str, None] = {}
    for host in hosts:
        with Progress().item(f"{host.name}: asking for its components"):
            names = units(host)
        known.update(dict.fromkeys(name.rpartition(".")[0] for name in names))
        unit = component if component.endswith(".service") else f"{component}.service"
        if unit in names:
            return host, unit
    raise UsageError(
        "component-unknown",
        f"no component '{component}'" if known else "nothing is installed: there are no components",
        where=", ".join(host.name for host in hosts),
        hint=f"components: {', '.join(known)}"
        if known
        else f"nidome apply -i {spec.source.replace(', ', ' -i ')}",
    )
