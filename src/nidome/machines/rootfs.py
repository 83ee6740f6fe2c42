"""The root file systems that hosts share, made once and cached."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import MachineError
from nidome.machines.commands import run
from nidome.machines.places import cache_root, locked, make_readable_directories, readable_errors, remove_tree
from nidome.machines.recipe import FILES, Recipe, build_command
from nidome.machines.sources import carried_apt_options, source_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nidome.progress import Item, Progress


__all__ = ["ensure", "recipe_for"]

_APT = Path("/etc/apt")
_BUILDING = ".building-"

# What mmdebstrap says when a part of its work begins, in order.
_PHASES = (
    "running apt-get update",
    "downloading packages",
    "extracting archives",
    "installing essential packages",
    "installing remaining packages",
    "cleaning package lists",
)


def recipe_for(release: str) -> Recipe:
    """Return the recipe for ``release`` (``debian:12``) on this machine, with its own package sources."""
    recipe = Recipe(release)
    files = [_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
    return Recipe(
        release,
        sources=tuple(source_lines(texts, recipe.codename)),
        apt_options=tuple(carried_apt_options(run(["apt-config", "dump"]))),
    )


def ensure(release: str, progress: Progress) -> Path:
    """Return the directory of a root file system of ``release``, made now if it isn't cached.

    Raises MachineError ``rootfs-failed``, with the reason that mmdebstrap or apt gave.
    """
    recipe = recipe_for(release)
    home = cache_root() / "rootfs"
    ready = home / recipe.directory
    if ready.is_dir():
        return ready
    with readable_errors(home):
        home.mkdir(parents=True, exist_ok=True)
        with progress.item(f"root file system of {release}", total=len(_PHASES), unit="phases") as item:
            item.update(note="waiting for another nidome that makes one")
            with locked(home):
                if not ready.is_dir():
                    _build(recipe, home, item)
    return ready


def _build(recipe: Recipe, home: Path, item: Item) -> None:
    """Make ``recipe`` beside its final place, then move it there. The caller holds the lock of ``home``."""
    for leftover in home.glob(f"{_BUILDING}*"):
        remove_tree(leftover)
    temporary = home / f"{_BUILDING}{recipe.directory}"
    try:
        make_readable_directories(temporary / "tmp")
        _debootstrap(recipe, temporary, item)
        _finish(recipe, temporary / "root")
        (temporary / "root").rename(home / recipe.directory)
    finally:
        if temporary.is_dir():
            remove_tree(temporary)


def _debootstrap(recipe: Recipe, temporary: Path, item: Item) -> None:
    process = subprocess.Popen(
        build_command(recipe, str(temporary / "root")),
        env={**os.environ, "TMPDIR": str(temporary / "tmp"), "LC_ALL": "C.UTF-8"},
        umask=0o022,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C reaches us alone; the finally below ends the build
    )
    said: list[str] = []
    try:
        _write_sources(process, recipe)
        said.extend(_follow(process, item))
    finally:
        if process.poll() is None:
            process.kill()
        if process.stdout is not None:
            process.stdout.read()  # ends when the last process of the build has
        process.wait()
    if process.returncode:
        raise _failed(recipe, said)


def _write_sources(process: subprocess.Popen[str], recipe: Recipe) -> None:
    stdin = process.stdin
    if stdin is not None:
        stdin.write("".join(f"{line}\n" for line in recipe.sources))
        stdin.close()


def _follow(process: subprocess.Popen[str], item: Item) -> Iterator[str]:
    """Yield the lines of the build, telling ``item`` of each phase."""
    for line in process.stdout or ():
        phase = next((i for i, words in enumerate(_PHASES) if words in line), None)
        if phase is not None:
            item.update(done=phase, note=_PHASES[phase])
        yield line.rstrip()


def _failed(recipe: Recipe, said: list[str]) -> MachineError:
    text = "\n".join(said)
    if "No space left on device" in text:
        return MachineError(
            "disk-full",
            f"no space is left for the root file system of {recipe.os}",
            where=str(cache_root()),
            hint="free 500 MB, or move the cache: NIDOME_CACHE_DIR=DIR",
        )
    reasons = [line for line in said if line.startswith(("E:", "W: Failed", "Err:"))] or said[-1:]
    return MachineError(
        "rootfs-failed",
        f"the root file system of {recipe.os} could not be made: {' '.join(reasons[:3])}",
        where=", ".join(recipe.sources) or "mmdebstrap's own sources",
        hint="apt-get update must work on this machine; then try again",
    )


def _finish(recipe: Recipe, root: Path) -> None:
    """Turn a fresh Debian into the root file system that hosts share."""
    for name in recipe.removed:
        (root / name).unlink(missing_ok=True)
    units = root / "etc/systemd/system"
    for unit in recipe.masked:
        _mask(units / unit)
    # Kernel settings outside of the network namespace belong to the machine: a host's boot must not
    # set them to Debian's defaults. What is declared in /etc/sysctl.d still applies.
    for file in (root / "usr/lib/sysctl.d").glob("*.conf"):
        _mask(root / "etc/sysctl.d" / file.name)
    for name, (text, mode) in FILES.items():
        path = root / name
        make_readable_directories(path.parent)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)


def _mask(path: Path) -> None:
    make_readable_directories(path.parent)
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/null")
