"""``nidome kubeconfig``: the administrator's kubeconfig, complete in itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nidome.cli import common
from nidome.errors import UsageError

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]

_OURS = "# The administrator's access to the cluster, written by `nidome kubeconfig`. Keep it secret.\n"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    common.add_inventory(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it to FILE, mode 0600")
    parser.add_argument("-f", "--force", action="store_true", help="replace FILE whatever it holds")


def _require_replaceable(path: Path) -> None:
    """Raise UsageError where the file is somebody's own: it may hold the access to other clusters."""
    try:
        with path.open(encoding="utf-8", errors="replace") as source:
            beginning = source.read(len(_OURS))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            "file-unwritable", f"cannot write: {error.strerror}", where=str(path), hint="name another file"
        ) from None
    if beginning != _OURS:
        raise UsageError(
            "kubeconfig-exists",
            "the file was not written by `nidome kubeconfig`, and may give access to other clusters",
            where=str(path),
            hint="name another file, or replace it with --force",
        )


def run(args: argparse.Namespace) -> int:
    """Print or write the kubeconfig."""
    spec, warnings = common.declared(args)
    common.warn_briefly(warnings, args)
    if args.output and not args.force:
        _require_replaceable(args.output)
    text = _OURS + common.administrator(spec)
    if args.output:
        common.write_file(args.output, text, mode=0o600)
        print(f"written: {args.output}  (use it with: export KUBECONFIG={args.output.absolute()})")
    else:
        print(text, end="")
    return 0
