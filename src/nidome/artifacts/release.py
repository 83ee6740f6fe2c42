"""The provider ``release``: official downloads, checked against pinned checksums."""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
from typing import TYPE_CHECKING

from nidome.artifacts.download import Servers, Unavailable
from nidome.artifacts.store import CHUNK, EXECUTABLE, Entry
from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nidome.artifacts.lock import BinarySpec, Download
    from nidome.artifacts.settings import Settings
    from nidome.artifacts.store import Store
    from nidome.progress import Progress

__all__ = ["fetch"]

_PARALLEL = 4
_SUM_LINE = re.compile(r"^([0-9a-f]{64})(?:\s+\*?(\S+))?\s*$", re.MULTILINE)
_LICENCE_NAMES = {"LICENSE", "LICENSE.txt", "COPYING", "NOTICE"}


def fetch(
    specs: Sequence[BinarySpec], store: Store, settings: Settings, progress: Progress
) -> tuple[list[Entry], dict[str, str]]:
    """Download what can be downloaded; return it, and for each other name the reason.

    A checksum that does not match raises; what was right is in the cache and in the index by then.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only paid for by a download

    servers = Servers(settings.reach_timeout, settings.stall_timeout, settings.retry_pause)
    groups = _by_address(specs)
    reasons = {spec.name: "not part of any release" for spec in specs if spec.download is None}
    entries: list[Entry] = []
    failures: list[ArtifactError] = []
    with ThreadPoolExecutor(_PARALLEL) as pool:
        jobs = {
            pool.submit(_get, group, servers, store, settings, progress): group for group in groups.values()
        }
        for job, group in jobs.items():
            try:
                entries += job.result()
            except Unavailable as reason:
                reasons.update({spec.name: str(reason) for spec in group})
            except ArtifactError as error:
                failures.append(error)
    if entries:
        store.record(entries)
    if failures:
        raise failures[0]
    return entries, reasons


def _by_address(specs: Sequence[BinarySpec]) -> Mapping[str, list[BinarySpec]]:
    groups: dict[str, list[BinarySpec]] = {}
    for spec in specs:
        if spec.download:
            groups.setdefault(spec.download.url, []).append(spec)
    return groups


def _get(
    group: list[BinarySpec], servers: Servers, store: Store, settings: Settings, progress: Progress
) -> list[Entry]:
    download = group[0].download
    assert download is not None  # noqa: S101 - groups are made of specs that have one
    expected, origin = _expected(download, servers, settings)
    target = store.partial(download.url)
    with progress.item(f"download {download.filename} ({group[0].version})") as item:
        resumed = servers.download(download.source, download.url, target, item)
        if resumed and _sha256(target) != expected:
            # The beginning was of another file, or damaged: once more from the start.
            target.unlink()
            servers.download(download.source, download.url, target, item)
    try:
        _check(target, expected, download)
        found = _unpack(group, target, store)
    finally:
        target.unlink(missing_ok=True)
    licences = store.add_bytes(found.licences) if found.licences else ""
    return [
        Entry(
            name=spec.name,
            version=spec.version,
            architecture=spec.architecture,
            kind="binary",
            sha256=found.blobs[spec.name][0],
            size=found.blobs[spec.name][1],
            provider="release",
            recipe=expected,
            source=download.url,
            sums=origin,
            licence=spec.licence,
            licences=licences,
        )
        for spec in group
    ]


def _expected(download: Download, servers: Servers, settings: Settings) -> tuple[str, str]:
    if download.sha256:
        return download.sha256, "pinned"
    if not settings.trust_server_sums:
        raise Unavailable(
            f"no checksum of {download.filename} is known; "
            "--trust-server-sums takes the one published beside it"
        )
    text = servers.small(download.source, download.sums_url).decode(errors="replace")
    found = _published_sum(text, download.filename)
    if not found:
        raise Unavailable(f"{download.sums_url} has no checksum of {download.filename}")
    return found, "server"


def _published_sum(text: str, filename: str) -> str:
    """Return the sum of a file from ``HEX`` alone or from lines ``HEX  NAME``."""
    matches = _SUM_LINE.findall(text)
    if len(matches) == 1 and not matches[0][1]:
        return str(matches[0][0])
    return next((str(value) for value, name in matches if posixpath.basename(name) == filename), "")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path, expected: str, download: Download) -> None:
    actual = _sha256(path)
    if actual != expected:
        raise ArtifactError(
            "checksum-mismatch",
            f"{download.filename} has sha256 {actual}, not {expected}; nothing of it was kept",
            where=download.url,
            hint="do not use this server before it is clear why; --provider build builds from source",
        )


class _Found:
    """What came out of a download: blobs by artifact name, and the licence texts beside them."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[str, int]] = {}
        self.licences = b""


def _unpack(group: list[BinarySpec], path: Path, store: Store) -> _Found:
    found = _Found()
    plain = [spec for spec in group if not spec.member]
    for spec in plain:
        found.blobs[spec.name] = store.add_file(path, mode=EXECUTABLE)
    if len(plain) < len(group):
        _unpack_archive({spec.member: spec for spec in group}, path, store, found)
    for spec in group:
        if spec.name not in found.blobs:
            raise ArtifactError(
                "archive-member-missing",
                f"the archive has no {spec.member}",
                where=spec.name,
                hint="fetch it from the release's own server, or by another --provider",
            )
    return found


def _unpack_archive(members: dict[str, BinarySpec], path: Path, store: Store, found: _Found) -> None:
    try:
        with tarfile.open(path) as archive:
            for info in archive:
                name = posixpath.normpath(info.name)
                content = archive.extractfile(info) if info.isfile() else None
                if content is None:
                    continue
                if posixpath.basename(name) in _LICENCE_NAMES:
                    found.licences += content.read()
                elif name in members:
                    with store.incoming(mode=EXECUTABLE) as writer:
                        while chunk := content.read(CHUNK):
                            writer.write(chunk)
                    found.blobs[members[name].name] = (writer.sha256, writer.size)
    except (tarfile.TarError, EOFError) as error:
        raise ArtifactError(
            "archive-invalid",
            f"not a tar archive: {error}",
            where=str(path),
            hint="fetch it from the release's own server, or by another --provider",
        ) from error
