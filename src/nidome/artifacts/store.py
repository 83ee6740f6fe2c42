"""The content-addressed cache, and the index that says what is in it.

    <root>/blobs/sha256/<hex>   binaries (mode 0755), image archives and licence texts
    <root>/index.json           (name, version, architecture) -> checksum, size, provider, recipe
    <root>/lock.json            a user's own lock entries, if any
    <root>/partial, <root>/locks, <root>/temporary

A blob appears whole or not at all; the index is replaced as a whole under a file lock, so that any
number of processes can share a cache.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Entry", "Incoming", "Key", "Store", "cache_errors", "write_all"]

Key = tuple[str, str, str]
CHUNK = 1 << 20
_FORMAT = 1
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
EXECUTABLE = 0o755
PLAIN = 0o644


@dataclass(frozen=True)
class Entry:
    """What the index says of one artifact.

    ``recipe`` is a checksum of what it was made from (build), the release file's checksum (release), or
    the binary's and the format's (image). ``sums`` is ``pinned`` or ``server`` for a release.
    ``licences`` is the checksum of a text with the licences of what is in it, "" if none came along.
    """

    name: str
    version: str
    architecture: str
    kind: str
    sha256: str
    size: int
    provider: str
    recipe: str
    reference: str = ""
    source: str = ""
    sums: str = ""
    licence: str = ""
    licences: str = ""

    @property
    def key(self) -> Key:
        """Return what the index finds it by."""
        return (self.name, self.version, self.architecture)


@contextmanager
def cache_errors(root: Path) -> Iterator[None]:
    """Turn what the file system of the cache refuses into errors a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ArtifactError(
                "cache-full",
                "no space is left for the artifact cache",
                where=str(root),
                hint="free some space, or choose another place with --cache-dir or NIDOME_CACHE_DIR",
            ) from error
        raise ArtifactError(
            "cache-unusable",
            f"the artifact cache cannot be used: {error.strerror or error}",
            where=str(error.filename or root),
            hint="choose another place with --cache-dir or NIDOME_CACHE_DIR",
        ) from error


def write_all(descriptor: int, chunk: bytes) -> None:
    """Write all bytes, however many the system takes at a time."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class Store:
    """A cache directory. Nothing is created before something is put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = root / "blobs" / "sha256"

    def blob(self, sha256: str) -> Path:
        """Return the path a blob has or would have."""
        return self.blobs / sha256

    def has(self, sha256: str, size: int) -> bool:
        """Say whether a blob of that size is there. Does not read it; ``verify`` does."""
        with cache_errors(self.root):
            try:
                return (self.blobs / sha256).stat().st_size == size
            except FileNotFoundError:
                return False

    @contextmanager
    def incoming(self, *, mode: int = PLAIN) -> Iterator[Incoming]:
        """Yield a writer whose content becomes a blob when the block ends without an error."""
        with cache_errors(self.root):
            descriptor, name = tempfile.mkstemp(dir=self._directory("temporary"))
        writer = Incoming(self.root, descriptor)
        try:
            yield writer
            self._commit(writer, name, mode)
        except BaseException:
            os.unlink(name)  # noqa: PTH108 - a plain path from mkstemp
            raise
        finally:
            os.close(descriptor)

    def _commit(self, writer: Incoming, name: str, mode: int) -> None:
        with cache_errors(self.root):
            # On the disk before it has its name: a blob is whole even after a power cut.
            os.fsync(writer.descriptor)
            os.fchmod(writer.descriptor, mode)
            self.blobs.mkdir(parents=True, exist_ok=True)
            os.replace(name, self.blob(writer.sha256))  # noqa: PTH105 - a plain path from mkstemp

    def add_bytes(self, content: bytes) -> str:
        """Put bytes into the cache and return their checksum."""
        with self.incoming() as writer:
            writer.write(content)
        return writer.sha256

    def add_file(self, path: Path, *, mode: int = PLAIN) -> tuple[str, int]:
        """Put a copy of a file into the cache; return its checksum and size."""
        with self.incoming(mode=mode) as writer, path.open("rb") as source:
            while chunk := source.read(CHUNK):
                writer.write(chunk)
        return writer.sha256, writer.size

    def entries(self) -> dict[Key, Entry]:
        """Return what the index has; an index that cannot be read is an error, not an empty one."""
        path = self.root / "index.json"
        with cache_errors(self.root):
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                return {}
        try:
            return _parse_index(json.loads(raw))
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(
                "cache-index-invalid",
                "the cache's index is not what it must be",
                where=str(path),
                hint=f"remove {path}; what is needed is fetched again",
            ) from error

    def record(self, entries: Iterable[Entry]) -> None:
        """Add or replace entries of the index."""
        new = {entry.key: entry for entry in entries}
        with self.exclusive("index"):
            self._write({**self.entries(), **new})

    def forget(self, keys: Iterable[Key]) -> None:
        """Remove entries of the index; blobs stay."""
        gone = set(keys)
        with self.exclusive("index"):
            self._write({key: entry for key, entry in self.entries().items() if key not in gone})

    @contextmanager
    def exclusive(self, what: str) -> Iterator[None]:
        """Hold a lock that one process at a time has; it goes with the process."""
        with cache_errors(self.root):
            path = self._directory("locks") / what
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PLAIN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def partial(self, url: str) -> Path:
        """Return where the beginning of a download is kept, to be resumed."""
        return self._directory("partial") / hashlib.sha256(url.encode()).hexdigest()

    def partials(self) -> list[Path]:
        """Return the downloads that were begun."""
        return list(self._directory("partial").iterdir())

    def temporary(self) -> Path:
        """Return a directory for work on the cache's own file system."""
        return self._directory("temporary")

    def _directory(self, name: str) -> Path:
        path = self.root / name
        with cache_errors(self.root):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def _write(self, entries: dict[Key, Entry]) -> None:
        rows = [asdict(entries[key]) for key in sorted(entries)]
        content = json.dumps({"format": _FORMAT, "artifacts": rows}, indent=1).encode()
        with cache_errors(self.root):
            descriptor, name = tempfile.mkstemp(dir=self._directory("temporary"))
            try:
                with os.fdopen(descriptor, "wb") as target:
                    target.write(content)
                    target.flush()
                    os.fsync(target.fileno())
                os.chmod(name, PLAIN)  # noqa: PTH101 - a plain path from mkstemp
                os.replace(name, self.root / "index.json")  # noqa: PTH105 - as above
            except BaseException:
                os.unlink(name)  # noqa: PTH108 - as above
                raise


class Incoming:
    """A file being written, with its checksum and size so far."""

    def __init__(self, root: Path, descriptor: int) -> None:
        self._root = root
        self.descriptor = descriptor
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, chunk: bytes) -> None:
        """Append bytes; large pieces are best, there is no buffer."""
        self._digest.update(chunk)
        self.size += len(chunk)
        with cache_errors(self._root):
            write_all(self.descriptor, chunk)

    @property
    def sha256(self) -> str:
        """Return the checksum of what was written so far."""
        return self._digest.hexdigest()


def _parse_index(data: dict[str, Any]) -> dict[Key, Entry]:
    if data["format"] != _FORMAT:
        raise ValueError
    entries = (Entry(**row) for row in data["artifacts"])
    return {entry.key: entry for entry in entries}
