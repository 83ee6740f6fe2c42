"""The provider ``bundle``: an air-gap archive or directory, and how one is written.

    nidome-bundle.json            what is in it, with checksums
    blobs/sha256/<hex>            binaries, image archives, licence texts
    licences/<component>-<version>.txt  the licences of what is in it, for people

Entries are in a fixed order with fixed times: the same content gives the same file.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from nidome.artifacts.store import CHUNK, EXECUTABLE, PLAIN, Entry
from nidome.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nidome.artifacts.lock import Spec
    from nidome.artifacts.store import Key, Store
    from nidome.progress import Progress

__all__ = ["fetch", "user_images", "write_bundle"]

_MANIFEST = "nidome-bundle.json"
_FORMAT = 1
_SUM = re.compile(r"[0-9a-f]{64}")
_LICENCES = Path(__file__).parent / "texts"
_COMPRESSIONS = {".tar": "", ".tgz": "gzip", ".tar.gz": "gzip"}


def fetch(
    specs: Sequence[Spec], store: Store, path: Path, progress: Progress
) -> tuple[list[Entry], dict[str, str]]:
    """Take what the bundle has; return it, and for each other name the reason."""
    with _opened(path) as bundle:
        entries = bundle.entries()
        found = [entries[key] for key in map(_key, specs) if key in entries]
        reasons = {spec.name: f"not in {path}" for spec in specs if _key(spec) not in entries}
        _take(bundle, found, store, path, progress)
    taken = [replace(entry, provider="bundle", source=str(path.resolve())) for entry in found]
    if taken:
        store.record(taken)
    return taken, reasons


def user_images(path: Path, store: Store, progress: Progress) -> list[Entry]:
    """Take the images that the bundle's maker had added of their own."""
    with _opened(path) as bundle:
        found = [entry for entry in bundle.entries().values() if entry.provider == "user"]
        _take(bundle, found, store, path, progress)
    if found:
        store.record(found)
    return found


def _key(spec: Spec) -> Key:
    return (spec.name, spec.version, spec.architecture)


def _take(bundle: _Bundle, found: Sequence[Entry], store: Store, path: Path, progress: Progress) -> None:
    wanted = {entry.sha256: (entry.size, entry.kind) for entry in found}
    wanted |= {entry.licences: (0, "text") for entry in found if entry.licences}
    total = sum(size for size, _ in wanted.values())
    with progress.item(f"unpack {path.name}", total=total) as item:
        for sha256, (size, kind) in wanted.items():
            if not (size and store.has(sha256, size)):
                _take_blob(bundle, sha256, store, EXECUTABLE if kind == "binary" else PLAIN, path)
            item.advance(size)


def _take_blob(bundle: _Bundle, sha256: str, store: Store, mode: int, path: Path) -> None:
    with bundle.open(f"blobs/sha256/{sha256}") as source, store.incoming(mode=mode) as writer:
        try:
            while chunk := source.read(CHUNK):
                writer.write(chunk)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise _invalid(path, f"blob {sha256} cannot be read: {error}") from error
        if writer.sha256 != sha256:
            raise ArtifactError(
                "checksum-mismatch",
                f"a blob of the bundle has sha256 {writer.sha256}, not {sha256}; nothing of it was kept",
                where=str(path),
                hint="copy the bundle again, or make it anew with `nidome artifacts bundle`",
            )


class _Bundle:
    """An open bundle: a function that opens a member by its path."""

    def __init__(self, path: Path, opener: Callable[[str], IO[bytes]]) -> None:
        self._path = path
        self.open = opener

    def entries(self) -> dict[Key, Entry]:
        """Return what the bundle's manifest lists."""
        try:
            with self.open(_MANIFEST) as file:
                data = json.load(file)
            if data["format"] != _FORMAT:
                raise _invalid(self._path, f"format {data['format']}; this release reads {_FORMAT}")
            found = [Entry(**_checked(row)) for row in data["artifacts"]]
        except (ValueError, TypeError, KeyError) as error:
            raise _invalid(self._path, f"{_MANIFEST} is not what it must be: {error}") from error
        return {entry.key: entry for entry in found}


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """Refuse what would lead out of a cache's directory: blobs are named by checksums and nothing else."""
    for key, value in row.items():
        if not isinstance(value, int if key == "size" else str):
            raise TypeError(f"{key} of {row.get('name')} is of the wrong type")
    if not _SUM.fullmatch(row["sha256"]) or not _SUM.fullmatch(row.get("licences") or row["sha256"]):
        raise ValueError(f"{row['name']} has no checksum")
    return row


@contextmanager
def _opened(path: Path) -> Iterator[_Bundle]:
    if path.is_dir():
        yield _Bundle(path, lambda name: _open_file(path, name))
        return
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - closed by the block below
    except (OSError, tarfile.TarError, EOFError) as error:
        raise _invalid(path, f"cannot be opened: {error}") from error
    with archive:
        yield _Bundle(path, lambda name: _open_member(archive, path, name))


def _open_file(root: Path, name: str) -> IO[bytes]:
    try:
        return (root / name).open("rb")
    except OSError as error:
        raise _invalid(root, f"{name} cannot be read: {error.strerror}") from error


def _open_member(archive: tarfile.TarFile, path: Path, name: str) -> IO[bytes]:
    try:
        file = archive.extractfile(name)
    except (KeyError, tarfile.TarError, EOFError, OSError) as error:
        raise _invalid(path, f"{name} cannot be read: {error}") from error
    if file is None:
        raise _invalid(path, f"{name} is not a file")
    return file


def _invalid(path: Path, message: str) -> ArtifactError:
    return ArtifactError(
        "bundle-invalid", message, where=str(path), hint="`nidome artifacts bundle -o FILE` makes one"
    )


def write_bundle(entries: Sequence[Entry], store: Store, target: Path, progress: Progress) -> int:
    """Write a bundle with these entries, whole or not at all; return its size in bytes."""
    mode = next((mode for suffix, mode in _COMPRESSIONS.items() if target.name.endswith(suffix)), None)
    if mode is None:
        raise UsageError(
            "bundle-name",
            f"'{target.name}' does not say the format",
            hint=f"end the name in {', '.join(_COMPRESSIONS)}",
        )
    _require_whole(entries, store)
    total = sum({entry.sha256: entry.size for entry in entries}.values())
    with (
        progress.item(f"write {target.name}", total=total) as item,
        _replacing(target) as file,
        _archive(file, mode) as archive,
    ):
        for name, size, source in _members(sorted(entries, key=lambda e: e.key), store):
            with source() as content:
                archive.addfile(_info(name, size), content)
            item.advance(size)
    return target.stat().st_size


def _require_whole(entries: Sequence[Entry], store: Store) -> None:
    for entry in entries:
        licences = store.blob(entry.licences).exists() if entry.licences else True
        if not (licences and store.has(entry.sha256, entry.size)):
            raise ArtifactError(
                "cache-changed",
                f"{entry.name} {entry.version} is not whole in the cache",
                where=str(store.root),
                hint="`nidome artifacts verify --remove`, then fetch again",
            )


@contextmanager
def _archive(file: IO[bytes], compression: str) -> Iterator[tarfile.TarFile]:
    """Open a tar for writing; compression without a file name and time, which would differ each time."""
    with ExitStack() as stack:
        if compression:
            packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
            file = cast("IO[bytes]", stack.enter_context(packed))
        yield stack.enter_context(tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT))


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            os.chmod(name, PLAIN)  # noqa: PTH101 - a plain path from mkstemp
            os.replace(name, target)  # noqa: PTH105 - as above
        except BaseException:
            os.unlink(name)  # noqa: PTH108 - as above
            raise
    except OSError as error:
        raise ArtifactError(
            "bundle-unwritable", error.strerror or str(error), where=str(target), hint="choose another FILE"
        ) from error


Member = tuple[str, int, "Callable[[], IO[bytes]]"]


def _members(entries: Sequence[Entry], store: Store) -> Iterator[Member]:
    manifest = json.dumps(
        {"format": _FORMAT, "artifacts": [_portable(entry) for entry in entries]}, indent=1
    ).encode()
    yield _MANIFEST, len(manifest), lambda: io.BytesIO(manifest)
    for name, text in sorted(_licence_texts(entries, store).items()):
        yield f"licences/{name}", len(text), lambda text=text: io.BytesIO(text)  # type: ignore[misc] # a default binds the loop's value
    blobs = {entry.sha256 for entry in entries} | {entry.licences for entry in entries if entry.licences}
    for sha256 in sorted(blobs):
        path = store.blob(sha256)
        yield f"blobs/sha256/{sha256}", path.stat().st_size, lambda path=path: path.open("rb")  # type: ignore[misc] # as above


def _portable(entry: Entry) -> dict[str, Any]:
    """Leave out paths of the machine that made it."""
    return asdict(replace(entry, source="") if entry.provider in {"user", "bundle"} else entry)


def _licence_texts(entries: Sequence[Entry], store: Store) -> dict[str, bytes]:
    texts = {}
    for entry in entries:
        if entry.licences:
            texts[f"{entry.name}-{entry.version}.txt"] = store.blob(entry.licences).read_bytes()
        elif entry.licence:
            texts[f"{entry.licence}.txt"] = (_LICENCES / f"{entry.licence}.txt").read_bytes()
    return texts


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, PLAIN
    return info
