"""The provider ``build``: binaries from Go modules, with requirements and toolchain pinned in the package.

For machines that reach a module mirror but no release server. The builds run one after another, because
Go uses every core by itself; what the next one needs is downloaded meanwhile.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.artifacts.licences import gather
from nidome.artifacts.settings import host_architecture
from nidome.artifacts.store import EXECUTABLE, Entry
from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from nidome.artifacts.lock import BinarySpec, Recipe
    from nidome.artifacts.settings import Settings
    from nidome.artifacts.store import Store
    from nidome.progress import Item, Progress

__all__ = ["fetch"]

_TAIL = 15
_NO_SPACE = "no space left on device"
# Settings of a person's own that would change what comes out. GOFLAGS is set and not only removed,
# because an empty one would let that of `go env -w` through.
_UNSET = ("GOEXPERIMENT", "GODEBUG", "GO111MODULE", "GOROOT")


@dataclass(frozen=True)
class _Work:
    """One component to build, in a directory of its own."""

    recipe: Recipe
    specs: tuple[BinarySpec, ...]
    directory: Path
    environment: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.recipe.component} {self.recipe.version}"

    @property
    def flags(self) -> list[str]:
        flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", " ".join(self.recipe.ldflags)]
        return [*flags, "-tags", ",".join(self.recipe.tags)] if self.recipe.tags else flags

    @property
    def packages(self) -> dict[str, str]:
        wanted = {spec.output for spec in self.specs}
        return {output: package for output, package in self.recipe.packages if output in wanted}


def fetch(
    specs: Sequence[BinarySpec], store: Store, settings: Settings, progress: Progress
) -> tuple[list[Entry], dict[str, str]]:
    """Build what has a recipe; return it, and for each other name the reason.

    Each component is in the index as soon as it is built. Raises where a build cannot be done or fails.
    """
    reasons = {s.name: f"no build recipe for {s.component} {s.version}" for s in specs if not s.recipe}
    buildable = [spec for spec in specs if spec.recipe]
    built = _built_already(buildable, store)
    missing = [spec for spec in buildable if spec.name not in {entry.name for entry in built}]
    if missing:
        built += _build_all(missing, store, settings, progress)
    return built, reasons


def _built_already(specs: Sequence[BinarySpec], store: Store) -> list[Entry]:
    """Find other names of a file that is there: one multi-call binary serves several."""
    known = {
        (entry.recipe, entry.source, entry.architecture): entry
        for entry in store.entries().values()
        if entry.provider == "build" and store.has(entry.sha256, entry.size)
    }
    found = []
    for spec in specs:
        digest = spec.recipe.digest() if spec.recipe else ""
        entry = known.get((digest, _source(spec), spec.architecture))
        if entry:
            found.append(replace(entry, name=spec.name))
    if found:
        store.record(found)
    return found


def _source(spec: BinarySpec) -> str:
    return f"build:{spec.component}/{spec.output}"


def _build_all(
    specs: Sequence[BinarySpec], store: Store, settings: Settings, progress: Progress
) -> list[Entry]:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only paid for by a build

    recipes = list({spec.component: spec.recipe for spec in specs if spec.recipe}.values())
    environment = _environment(settings.architecture)
    _check_host(recipes, settings, environment)
    entries: list[Entry] = []
    # What Go has in its own temporary directory goes with ours, also when it is ended half-way.
    with _scratch(store) as scratch, ThreadPoolExecutor(1) as ahead:
        environment["GOTMPDIR"] = scratch
        work = [_prepare(recipe, specs, Path(scratch), environment) for recipe in recipes]
        downloads: list[Future[int]] = [ahead.submit(_download, one, progress) for one in work]
        try:
            for one, download in zip(work, downloads, strict=True):
                entries += _build(one, download.result(), store, progress)
        finally:
            ahead.shutdown(cancel_futures=True)
    return entries


def _scratch(store: Store) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=store.temporary(), ignore_cleanup_errors=True)


def _environment(architecture: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    environment.update(GOOS="linux", GOARCH=architecture, GOWORK="off", GOFLAGS="-mod=readonly")
    environment.update(GOAMD64="v1", GOARM64="v8.0")
    return environment


def _check_host(recipes: Sequence[Recipe], settings: Settings, environment: dict[str, str]) -> None:
    """Find out before the first build what the last one would miss."""
    toolchain = recipes[0].toolchain
    environment["GOTOOLCHAIN"] = toolchain
    if not shutil.which("go"):
        raise ArtifactError(
            "go-missing",
            "building needs Go, which is not installed",
            hint=f"install {toolchain} (or any Go from 1.21 on, which gets it), or use --bundle",
        )
    try:
        _run(["go", "version"], Path("/"), environment)
    except _Failed as error:
        raise ArtifactError(
            "go-toolchain",
            f"building needs {toolchain}, which this machine's Go cannot provide: {error.tail(3)}",
            hint=f"install {toolchain}; Go from 1.21 on downloads it where a module mirror can be reached",
        ) from error
    native = [recipe for recipe in recipes if recipe.cgo]
    if native and settings.architecture != host_architecture():
        raise ArtifactError(
            "build-cross-c",
            f"{native[0].component} has C code and can be built for {settings.architecture} only there",
            hint="use the release or a bundle for it",
        )
    for recipe in native:
        _check_c(recipe)


def _check_c(recipe: Recipe) -> None:
    compiler = os.environ.get("CC", "gcc").split()[0]
    missing = [tool for tool in (compiler, "pkg-config") if not shutil.which(tool)]
    if not missing:
        missing = [
            f"{library} (development files)"
            for library in recipe.libraries
            if subprocess.run(["pkg-config", "--exists", library], check=False).returncode
        ]
    if missing:
        raise ArtifactError(
            "build-packages-missing",
            f"building {recipe.component} needs {', '.join(missing)}",
            hint="Debian: apt-get install gcc libc6-dev pkg-config libseccomp-dev",
        )


def _prepare(
    recipe: Recipe, specs: Sequence[BinarySpec], scratch: Path, environment: Mapping[str, str]
) -> _Work:
    directory = scratch / recipe.component
    directory.mkdir()
    for name, path in recipe.files().items():
        shutil.copyfile(path, directory / name)
    return _Work(
        recipe=recipe,
        specs=tuple(spec for spec in specs if spec.component == recipe.component),
        directory=directory,
        environment={**environment, "CGO_ENABLED": "1" if recipe.cgo else "0"},
    )


def _download(work: _Work, progress: Progress) -> int:
    """Bring a build's modules here; return how many packages there are to compile."""
    with progress.item(f"download modules of {work.title}", unit="modules") as item:
        try:
            _run(["go", "mod", "download", "-x"], work.directory, work.environment, item)
            packages = ["go", "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *work.flags]
            stale = _output([*packages, *work.packages.values()], work)
        except _Failed as error:
            _require_space(error, work)
            raise ArtifactError(
                "module-download-failed",
                f"the Go modules of {work.title} cannot be had: {error.tail()}",
                hint="`go env GOPROXY` says which mirror is used; or use --bundle",
            ) from error
    return len(stale.split())


def _build(work: _Work, packages: int, store: Store, progress: Progress) -> list[Entry]:
    output = work.directory / "out"
    output.mkdir()
    digest = work.recipe.digest()
    with progress.item(f"build {work.title}", total=packages, unit="packages") as item:
        for name, package in work.packages.items():
            item.update(note=name)
            command = ["go", "build", "-v", *work.flags, "-o", str(output / name), package]
            try:
                _run(command, work.directory, work.environment, item)
            except _Failed as error:
                _require_space(error, work)
                raise ArtifactError(
                    "build-failed",
                    f"{name} {work.recipe.version} cannot be built: {error.tail()}",
                    hint="other providers: --provider release, or --bundle",
                ) from error
    text = gather(output, work.packages, work.environment, work.recipe.documented)
    entries = _keep(work, output, digest, store.add_bytes(text), store)
    store.record(entries)
    return entries


def _require_space(error: _Failed, work: _Work) -> None:
    if _NO_SPACE in error.tail():
        raise ArtifactError(
            "cache-full",
            f"no space is left for building {work.title}: {error.tail(1)}",
            where=str(work.directory),
            hint="the artifact cache, `go env GOCACHE` and `go env GOMODCACHE` need some GiB each",
        ) from error


def _keep(work: _Work, output: Path, digest: str, licences: str, store: Store) -> list[Entry]:
    blobs = {name: store.add_file(output / name, mode=EXECUTABLE) for name in work.packages}
    return [
        Entry(
            name=spec.name,
            version=spec.version,
            architecture=spec.architecture,
            kind="binary",
            sha256=blobs[spec.output][0],
            size=blobs[spec.output][1],
            provider="build",
            recipe=digest,
            source=_source(spec),
            licence=spec.licence,
            licences=licences,
        )
        for spec in work.specs
    ]


class _Failed(Exception):  # noqa: N818 - becomes an ArtifactError where it is known what was attempted
    """A command ended with an error."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def tail(self, count: int = _TAIL) -> str:
        """Return the last lines of what it said."""
        return "\n".join(list(self._lines)[-count:]).strip() or "no output"


def _run(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], item: Item | None = None
) -> None:
    """Run a command; each line that is a single word is a step done, all others are kept for an error."""
    kept: deque[str] = deque(maxlen=100)
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    )
    with process:
        try:
            for line in _lines(process):
                if item and _is_step(line):
                    item.advance()
                elif not line.startswith("# get "):
                    kept.append(line)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # Go and the compilers it has started
            raise
    if process.returncode:
        raise _Failed(kept)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None  # noqa: S101 - a pipe was asked for
    for line in process.stderr:
        yield line.rstrip("\n")


def _is_step(line: str) -> bool:
    """Recognise a compiled package of ``go build -v`` or a fetched archive of ``go mod download -x``."""
    return line.startswith("# get ") and ".zip: " in line if " " in line else bool(line)


def _output(command: Sequence[str], work: _Work) -> str:
    result = subprocess.run(
        command,
        cwd=work.directory,
        env=dict(work.environment),
        capture_output=True,
        check=False,
        text=True,
    )
    if result.returncode:
        raise _Failed(result.stderr.splitlines())
    return result.stdout
