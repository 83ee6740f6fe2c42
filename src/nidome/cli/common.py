"""What several commands share: the inventory option, artifacts for a run, the sinks of a run."""

from __future__ import annotations

import os
import shlex
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome import __version__
from nidome.cli.again import declaring, retyped
from nidome.cli.stopping import stopped
from nidome.errors import NidomeError, UsageError
from nidome.events import Diagnostic, RunFinished, RunStarted, TaskFinished

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from nidome.artifacts.settings import Artifact, Settings
    from nidome.declare.resolve import Declaration
    from nidome.engine.run import Fetch
    from nidome.events import Event, Sink
    from nidome.model.findings import DeclarationWarning
    from nidome.model.spec import ClusterSpec, HostSpec

__all__ = [
    "DEFAULT_INVENTORY",
    "add_artifacts",
    "add_inventory",
    "add_run",
    "add_view",
    "administrator",
    "cluster_name",
    "declaration",
    "declared",
    "default_inventory",
    "explained",
    "fetcher",
    "host_named",
    "inventories",
    "missing_hint",
    "one_directory",
    "recorded",
    "scope",
    "settings",
    "warn",
    "warn_briefly",
    "words",
    "write_file",
]

DEFAULT_INVENTORY = Path("inventory/nidome")
_VARIABLES = ("NIDOME_INVENTORY", "ANSIBLE_INVENTORY")
"""What names the inventory where no ``-i`` does; the first that is set."""


def default_inventory() -> tuple[str, ...]:
    """Return the inventory that is meant where none is named: what the environment names, or ours."""
    return next((found for name in _VARIABLES if (found := _named_by(name))), (str(DEFAULT_INVENTORY),))


def _named_by(variable: str) -> tuple[str, ...]:
    """Return what an environment variable names: several files and directories, or one list of hosts."""
    text = os.environ.get(variable, "")
    parts = tuple(part for part in map(str.strip, text.split(",")) if part)
    if "," not in text or any("/" in part or _exists(part) for part in parts):
        return parts
    return (text,)


def add_inventory(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a declaration."""
    parser.add_argument(
        "-i",
        "--inventory",
        action="append",
        metavar="INVENTORY",
        help="inventory file, program or directory, or hosts: 'host1,host2,'; may be given several times, "
        "later ones win (default: NIDOME_INVENTORY, else ANSIBLE_INVENTORY, else "
        f"{DEFAULT_INVENTORY}; commas part several)",
    )
    parser.add_argument(
        "-e",
        "--extra-vars",
        action="append",
        default=[],
        metavar="VARS",
        help="variables that win over every file: NAME=VALUE, a YAML or JSON mapping, or @FILE",
    )
    parser.add_argument("--strict", action="store_true", help="a variable that nobody reads is an error")
    parser.add_argument(
        "--allow-pipe-lookup",
        action="store_true",
        help="let templates of the inventory run commands on this machine: lookup('pipe', …)",
    )
    _add_vault(parser)


def _add_vault(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vault-id",
        action="append",
        default=[],
        metavar="LABEL@SOURCE",
        help="a vault password: file or prompt",
    )
    parser.add_argument(
        "--vault-password-file",
        "--vault-pass-file",
        action="append",
        default=[],
        metavar="FILE",
        help="file or program with the vault password (default: ANSIBLE_VAULT_PASSWORD_FILE)",
    )
    parser.add_argument(
        "-J",
        "--ask-vault-pass",
        "--ask-vault-password",
        action="store_true",
        help="ask for the vault password",
    )


def inventories(args: argparse.Namespace) -> tuple[str, ...]:
    """Return what ``-i`` names, in order."""
    return tuple(args.inventory or default_inventory())


def one_directory(args: argparse.Namespace, *, files: bool = False) -> Path:
    """Return the one directory that ``-i`` names, or file with ``files``, for a command that writes."""
    given = inventories(args)
    path = Path(given[0])
    if len(given) > 1 or (path.is_file() and not files):
        raise UsageError(
            "inventory-directory",
            "this command keeps its inventory in one directory",
            where=f"-i {' -i '.join(given)}",
            hint=f"for example: -i {DEFAULT_INVENTORY}",
        )
    return path


def add_artifacts(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where artifacts come from."""
    parser.add_argument(
        "--cache-dir",
        type=Path,
        help="artifact cache (default: NIDOME_CACHE_DIR, else the user's cache directory)",
    )
    parser.add_argument("--bundle", type=Path, help="take artifacts from this bundle, a file or a directory")
    parser.add_argument(
        "--trust-server-sums",
        action="store_true",
        help="trust checksums published beside a release where none is pinned",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run."""
    parser.add_argument(
        "-t", "--tags", action="append", default=[], help="only tasks with these tags (comma-separated)"
    )
    parser.add_argument("--skip-tags", action="append", default=[], help="no tasks with these tags")
    parser.add_argument("-l", "--limit", action="append", default=[], help="only these hosts")
    parser.add_argument(
        "--ignore-preflight-errors",
        action="append",
        default=[],
        metavar="NAME",
        help="go on although this check fails",
    )
    parser.add_argument(
        "--take-over", action="store_true", help="own object fields that somebody else set by hand"
    )
    add_view(parser)


def add_view(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a run is shown."""
    parser.add_argument(
        "--view",
        choices=("plain", "json", "rich", "ansible"),
        help="how the run is shown (default: rich on a terminal)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show tasks that changed nothing too")


def scope(args: argparse.Namespace) -> dict[str, Any]:
    """Return how the options narrow a run, for its record; empty for a whole one."""
    given = {
        "tags": list(words(args.tags)),
        "skip_tags": list(words(args.skip_tags)),
        "limit": list(words(args.limit)),
        "start_at_task": getattr(args, "start_at_task", ""),
        "check": getattr(args, "check", False),
    }
    return {name: value for name, value in given.items() if value}


def words(values: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a repeatable, comma-separated option."""
    return tuple(word for value in values for word in map(str.strip, value.split(",")) if word)


def declared(args: argparse.Namespace) -> tuple[ClusterSpec, list[DeclarationWarning]]:
    """Read the inventory that the options name."""
    read = declaration(args)
    return read.spec, read.warnings


def declaration(args: argparse.Namespace) -> Declaration:
    """Read the inventory that the options name, and keep it."""
    from nidome.declare.extravars import read_extra_vars  # noqa: PLC0415 - only what reads YAML pays for it
    from nidome.declare.passwords import make_vault  # noqa: PLC0415 - as above
    from nidome.declare.resolve import declare  # noqa: PLC0415 - as above
    from nidome.declare.sources import given  # noqa: PLC0415 - as above

    named = inventories(args)
    for name, path in given(named):
        if path is not None and not (name.strip() and _exists(name)):
            raise UsageError(
                "inventory-missing",
                f"there is no inventory at {name.strip() or repr(name)}",
                where="-i",
                hint=missing_hint(args, name),
            )
    vault = make_vault(
        args.vault_id,
        args.vault_password_file,
        ask=args.ask_vault_pass,
        from_environment=os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE", ""),
    )
    return declare(
        named,
        extra_vars=read_extra_vars(args.extra_vars, vault),
        strict=args.strict,
        allow_pipe=args.allow_pipe_lookup,
        vault=vault,
    )


def missing_hint(args: argparse.Namespace, name: str) -> str:
    """Return how to find the inventory that was named, or to get one where none was."""
    variable = next((v for v in _VARIABLES if _named_by(v)), "")
    if not args.inventory and not variable:
        return "nidome up makes a cluster and its inventory; or name yours with -i"
    what = f"{variable} names it; " if not args.inventory else ""
    if Path(name).is_absolute():
        return f"{what}look for it: ls {shlex.quote(str(Path(name).parent))}"
    return f"{what}a relative name counts from the working directory, {Path.cwd()}"


def settings(args: argparse.Namespace) -> Settings:
    """Return where artifacts are looked for."""
    from nidome.artifacts.settings import Settings, default_cache  # noqa: PLC0415 - not needed for --help

    return Settings(
        cache=args.cache_dir or default_cache(), bundle=args.bundle, trust_server_sums=args.trust_server_sums
    )


def fetcher(chosen: Settings, spec: ClusterSpec) -> Fetch:
    """Return the function that gets artifacts for a cluster."""

    def fetch(names: Sequence[str]) -> Mapping[str, Artifact]:
        from nidome.artifacts.obtain import obtain, take_user_images, user_images  # noqa: PLC0415 - as below
        from nidome.progress import Progress  # noqa: PLC0415 - not needed for --help

        progress = Progress()
        versions = {"kubernetes": spec.kube_version.value}
        found = obtain(names, versions=versions, settings=chosen, progress=progress)
        take_user_images(chosen, progress)
        return {**found, **{f"image:{a.reference}": a for a in user_images(chosen)}}

    return fetch


def write_file(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file whole or not at all; nobody ever sees it with more rights than ``mode``."""
    temporary = path.parent / f".{path.name}.tmp"
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsageError(
            "file-unwritable",
            f"cannot write: {error.strerror}",
            where=str(path),
            hint="name a file in a directory of yours",
        ) from None


def _exists(name: str) -> bool:
    """Tell whether there is a file; a name that none can have (too long) is that of none."""
    try:
        return Path(name).exists()
    except OSError:
        return False


def cluster_name(spec: ClusterSpec) -> str:
    """Return the name under which a cluster's runs are recorded: its inventory, from wherever one looks."""
    parts = (spec.source,) if _exists(spec.source) else spec.source.split(", ")
    return ", ".join(part if "," in part else str(Path(part).absolute()) for part in parts)


def administrator(spec: ClusterSpec) -> str:
    """Return the administrator's kubeconfig, asked of the host that answers for the cluster."""
    from nidome.engine.credentials import admin_kubeconfig  # noqa: PLC0415 - not needed for --help
    from nidome.progress import Progress  # noqa: PLC0415 - as above

    host = spec.control_plane[0]
    with Progress().item(f"{host.name}: asking for the administrator's credentials"):
        return admin_kubeconfig(spec, host)


def host_named(spec: ClusterSpec, name: str) -> HostSpec:
    """Return the host that ``--host`` names."""
    found = next((host for host in spec.hosts if host.name == name), None)
    if found is None:
        raise UsageError(
            "host-unknown",
            f"no host '{name}' in the inventory",
            where="--host",
            hint="hosts: " + ", ".join(host.name for host in spec.hosts),
        )
    return found


def explained(error: NidomeError) -> NidomeError:
    """Return the error of a host that is not reached with what to do where it is a disposable one, off."""
    if error.code == "host-unreachable":
        from nidome import machines  # noqa: PLC0415 - only an error pays for it

        off = {m.name for m in machines.listing() if not m.running}
        if error.where in off:
            error.hint = f"it is a disposable host that is off: nidome machines start {error.where}"
    return error


def warn_briefly(warnings: Sequence[DeclarationWarning], args: argparse.Namespace) -> None:
    """Say that there are warnings, where a command is about something else; with --strict, show them."""
    if not warnings or args.strict:
        warn(warnings)
        return
    from nidome.model.findings import brief  # noqa: PLC0415 - not needed for --help

    print(brief(warnings, shlex.join(["nidome", "plan", *declaring(args)])).render(), file=sys.stderr)


def warn(warnings: Sequence[DeclarationWarning], sink: Sink | None = None) -> None:
    """Show what a declaration's reader had to say."""
    from nidome.model.findings import grouped  # noqa: PLC0415 - not needed for --help

    for warning in grouped(warnings):
        if sink is None:
            print(warning.render(), file=sys.stderr)
        else:
            sink(Diagnostic("warning", warning.code, warning.message, warning.where, warning.hint))


@contextmanager
def recorded(
    spec: ClusterSpec,
    show: Sink,
    command: Sequence[str],
    *,
    run: str = "",
    playbook: str = "",
    scope: Mapping[str, Any] | None = None,
) -> Iterator[Sink]:
    """Give a sink that shows and records a run; an error or a signal that ends the run is recorded too.

    ``run`` is its name ("": a new one), ``playbook`` what is run, ``scope`` how it is narrowed.
    """
    from nidome.declare.extravars import without_values  # noqa: PLC0415 - not needed for --help
    from nidome.engine.apply import Recap  # noqa: PLC0415 - as above
    from nidome.engine.masking import masked  # noqa: PLC0415 - as above
    from nidome.prove.records import Recorder, new_run_id  # noqa: PLC0415 - as above

    run = run or new_run_id()
    recorder = Recorder(run)

    recaps = {host.name: Recap() for host in spec.hosts}
    began = time.monotonic()

    def sink(event: Event) -> None:
        if isinstance(event, TaskFinished) and event.host in recaps:
            recaps[event.host].add(event.status)
        recorder(event)
        show(event)

    try:
        sink(
            RunStarted(
                run,
                __version__,
                without_values(command),
                cluster_name(spec),
                tuple(h.name for h in spec.hosts),
                spec.digest,
                playbook=playbook,
                scope=dict(scope or {}),
            )
        )
        yield sink
    except NidomeError as error:
        recorder.abort(masked(error.to_json(), spec.secrets))
        raise
    except KeyboardInterrupt as stop:
        ended = stopped(stop, f"what is done stays done; it goes on with: {retyped(command[1:])}")
        recorder.abort(ended.to_json())
        # So that a log of it has an end too. The record's status stays what it is.
        counts = {name: recap.to_json() for name, recap in recaps.items()}
        sink(RunFinished(counts, time.monotonic() - began, {}, ok=False))
        raise ended from None
    except BaseException as error:
        # Whatever ends the run, its record must not look as if it had been killed.
        told = {"code": "system", "message": f"{type(error).__name__}: {error}"}
        recorder.abort(masked(told, spec.secrets))
        raise
    finally:
        recorder.close()
        if recorder.lost:
            hint = "free space, or point NIDOME_STATE_DIR elsewhere"
            show(Diagnostic("warning", "record-torn", recorder.lost, str(recorder.path), hint))
