"""``nidome artifacts``: list, fetch, verify and bundle what gets installed; add images."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.artifacts.settings import PROVIDERS, Artifact, Settings, default_cache, host_architecture
from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.artifacts.store import Entry

__all__ = ["configure", "run"]

_SHORT = 12
_SIZE_WIDTH = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands; each shares the options that say where artifacts come from."""
    where = _where_options()
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = commands.add_parser("list", parents=[where], help="show the lock and what the cache has")
    listing.add_argument("--json", action="store_true", help="as JSON, for programs")
    fetch = commands.add_parser("fetch", parents=[where], help="bring artifacts into the cache")
    fetch.add_argument("names", nargs="*", metavar="NAME", help="default: every name of the lock")
    check = commands.add_parser("verify", parents=[where], help="read the whole cache again")
    check.add_argument("--remove", action="store_true", help="take out what is damaged")
    bundle = commands.add_parser("bundle", parents=[where], help="write an air-gap bundle")
    bundle.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=".tar or .tar.gz")
    bundle.add_argument("names", nargs="*", metavar="NAME", help="default: every name of the lock")
    image = commands.add_parser("image", help="images of your own")
    images = image.add_subparsers(dest="image_action", required=True, metavar="ACTION")
    add = images.add_parser("add", parents=[where], help="add an OCI or docker image archive")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--name", default="", help="the image's name, where the archive does not say it")
    remove = images.add_parser("rm", parents=[where], help="take an image that you added out of the cache")
    remove.add_argument("image", metavar="NAME", help="the image's name, as `nidome artifacts list` has it")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 for success, 1 where ``verify`` finds something wrong."""
    return _ACTIONS[args.action](args)


def _where_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    group = options.add_argument_group("where from, where to")
    group.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help="the cache (default: $NIDOME_CACHE_DIR, ~/.cache/nidome)",
    )
    group.add_argument("--bundle", type=Path, metavar="PATH", help="an air-gap bundle, file or directory")
    group.add_argument(
        "--provider",
        action="append",
        choices=PROVIDERS,
        help=f"use only this one; may be repeated (default: {', '.join(PROVIDERS)}, in this order)",
    )
    group.add_argument(
        "--trust-server-sums",
        action="store_true",
        help="where no checksum is pinned, believe the one published beside the release",
    )
    group.add_argument("--lock", type=Path, metavar="FILE", help="lock entries of your own")
    group.add_argument("--arch", choices=("amd64", "arm64"), help="default: that of this machine")
    group.add_argument(
        "--base-url",
        action="append",
        default=[],
        metavar="SOURCE=URL",
        help="a mirror of a release server, such as github.com=https://mirror.example/github",
    )
    group.add_argument(
        "--use",
        action="append",
        default=[],
        metavar="COMPONENT=VERSION",
        help="another version than the default, such as kubernetes=1.35.8",
    )
    return options


def _settings(args: argparse.Namespace) -> Settings:
    bundle = args.bundle.resolve() if args.bundle else None
    return Settings(
        cache=args.cache_dir or default_cache(),
        bundle=bundle,
        providers=tuple(p for p in PROVIDERS if p in args.provider) if args.provider else PROVIDERS,
        trust_server_sums=args.trust_server_sums,
        architecture=args.arch or host_architecture(),
        lock=args.lock,
        base_urls=_pairs("--base-url", args.base_url),
    )


def _pairs(option: str, values: list[str]) -> dict[str, str]:
    for value in values:
        if not all(value.partition("=")):
            raise UsageError(
                "option-value",
                f"'{value}' is not of the form NAME=VALUE",
                where=option,
                hint="nidome artifacts fetch --help has an example",
            )
    return dict(value.split("=", 1) for value in values)


def _list(args: argparse.Namespace) -> int:
    from nidome.artifacts.lock import load_lock  # noqa: PLC0415 - not needed for --help
    from nidome.artifacts.obtain import cached, user_images  # noqa: PLC0415 - as above

    settings, versions = _settings(args), _pairs("--use", args.use)
    lock = load_lock(settings)
    have = cached(lock.names(), versions=versions, settings=settings)
    rows = [_row(lock.spec(name, versions), found) for name, found in have.items()]
    rows += [_user_row(artifact) for artifact in user_images(settings)]
    if args.json:
        print(json.dumps({"format": 1, "cache": str(settings.cache), "artifacts": rows}, indent=1))
    else:
        _print_rows(rows)
    return 0


def _row(spec: Any, found: Artifact | None) -> dict[str, Any]:
    row = {
        "name": spec.name,
        "version": spec.version,
        "architecture": spec.architecture,
        "kind": spec.kind,
        "component": spec.component,
        "reference": getattr(spec, "reference", ""),
        "cached": found is not None,
    }
    if found:
        row |= {
            "sha256": found.sha256,
            "size": found.size,
            "provider": found.provider,
            "path": str(found.path),
        }
    return row


def _user_row(artifact: Artifact) -> dict[str, Any]:
    return {**asdict(artifact), "path": str(artifact.path), "component": "", "cached": True}


def _print_rows(rows: list[dict[str, Any]]) -> None:
    from nidome.progress import size  # noqa: PLC0415 - not needed for --help

    name_width = max(len(row["name"]) for row in rows)
    version_width = max(len(row["version"]) for row in rows)
    for row in rows:
        state = "not cached"
        if row["cached"]:
            state = f"{size(row['size']):>{_SIZE_WIDTH}}  {row['provider']:<8}{row['sha256'][:_SHORT]}"
        line = f"{row['name']:<{name_width}}  {row['version']:<{version_width}}  {row['kind']:<6}  {state}"
        print(f"{line}  {row['reference']}".rstrip())


def _fetch(args: argparse.Namespace) -> int:
    for artifact in _obtain(args).values():
        print(f"{artifact.name} {artifact.version} {artifact.provider} {artifact.path}")
    return 0


def _obtain(args: argparse.Namespace) -> dict[str, Artifact]:
    from nidome.artifacts.lock import load_lock  # noqa: PLC0415 - not needed for --help
    from nidome.artifacts.obtain import obtain, take_user_images  # noqa: PLC0415 - as above
    from nidome.progress import Progress  # noqa: PLC0415 - as above

    settings, progress = _settings(args), Progress()
    if settings.bundle and not args.names:
        take_user_images(settings, progress)
    names = args.names or load_lock(settings).names()
    return obtain(names, versions=_pairs("--use", args.use), settings=settings, progress=progress)


def _verify(args: argparse.Namespace) -> int:
    from nidome.artifacts.store import Store  # noqa: PLC0415 - not needed for --help
    from nidome.artifacts.verify import remove_damaged, verify  # noqa: PLC0415 - as above
    from nidome.progress import Progress  # noqa: PLC0415 - as above

    store = Store(_settings(args).cache)
    count, findings = verify(store, Progress())
    for finding in findings:
        entry = finding.entry
        print(f"{finding.problem}: {entry.name} {entry.version} ({entry.architecture}) {entry.sha256}")
    if findings and args.remove:
        remove_damaged(store, findings)
        print("removed; `nidome artifacts fetch` brings them again")
    elif findings:
        print("`nidome artifacts verify --remove` takes them out, then fetch again", file=sys.stderr)
    else:
        print(f"{count} artifacts, all as recorded")
    return 1 if findings else 0


def _bundle(args: argparse.Namespace) -> int:
    from nidome.artifacts.bundle import write_bundle  # noqa: PLC0415 - not needed for --help
    from nidome.artifacts.obtain import user_images  # noqa: PLC0415 - as above
    from nidome.artifacts.store import Store  # noqa: PLC0415 - as above
    from nidome.progress import Progress, size  # noqa: PLC0415 - as above

    settings = _settings(args)
    store = Store(settings.cache)
    artifacts = list(_obtain(args).values())
    if not args.names:
        artifacts += user_images(settings)
    entries = [_entry(store, artifact, settings) for artifact in artifacts]
    written = write_bundle(entries, store, args.output, Progress())
    print(f"{args.output}: {len(entries)} artifacts, {size(written)}")
    return 0


def _entry(store: Any, artifact: Artifact, settings: Settings) -> Entry:
    entry: Entry = store.entries()[artifact.name, artifact.version, settings.architecture]
    return entry


def _image(args: argparse.Namespace) -> int:
    from nidome.artifacts.images import add_user_image, remove_user_image  # noqa: PLC0415 - not for --help
    from nidome.artifacts.store import Store  # noqa: PLC0415 - as above

    settings = _settings(args)
    store, architecture = Store(settings.cache), settings.architecture
    if args.image_action == "rm":
        print(f"removed {remove_user_image(args.image, store, architecture).reference}")
        return 0
    for entry in add_user_image(args.file, store, architecture, args.name):
        print(f"{entry.reference} {entry.sha256}")
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "bundle": _bundle,
    "fetch": _fetch,
    "image": _image,
    "list": _list,
    "verify": _verify,
}
