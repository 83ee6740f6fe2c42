"""Images as OCI archives: made from a binary, byte for byte the same each time, or a user's own, renamed.

An archive holds one image layout in a plain tar. Its index carries the image's full name in the
annotation that containerd's importer reads, so that the CRI finds it under exactly that name.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from typing import IO, TYPE_CHECKING, Any, cast

from nidome.artifacts.store import CHUNK, Entry, Incoming
from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nidome.artifacts.lock import ImageSpec
    from nidome.artifacts.store import Store

__all__ = ["add_user_image", "make_image", "normalise"]

_NAME = "io.containerd.image.name"
_REF = "org.opencontainers.image.ref.name"
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_EPOCH = "1970-01-01T00:00:00Z"
_DIRECTORY = 0o755
_FILE = 0o644
# Linux file capabilities, version 2, little-endian: permitted and effective, bit 10 (bind to low ports).
_CAPABILITIES = {"net-bind-service": b"\x01\x00\x00\x02\x00\x04\x00\x00" + bytes(12)}
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@sha256:[0-9a-f]{64})?"
)
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?")


def normalise(name: str) -> str:
    """Return an image's full name: ``busybox`` is ``docker.io/library/busybox:latest``."""
    domain, slash, rest = name.partition("/")
    if not slash or not (set(".:") & set(domain) or domain == "localhost"):
        domain, rest = "docker.io", name
    if domain == "index.docker.io":
        domain = "docker.io"
    match = _REFERENCE.fullmatch(rest)
    if not match or not _DOMAIN.fullmatch(domain):
        raise ArtifactError(
            "image-name-invalid",
            f"'{name}' is not an image name",
            hint="write it as registry/path/name:tag",
        )
    path = match["path"]
    if domain == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return f"{domain}/{path}{':' + tag if tag else ''}{match['digest'] or ''}"


def make_image(spec: ImageSpec, binary: Entry, store: Store) -> Entry:
    """Make the archive of an image from its binary and return its entry."""
    content = store.blob(binary.sha256).read_bytes()
    with store.incoming() as writer:
        _write_archive(spec, content, writer)
    return Entry(
        name=spec.name,
        version=spec.version,
        architecture=spec.architecture,
        kind="image",
        sha256=writer.sha256,
        size=writer.size,
        provider=binary.provider,
        recipe=spec.digest(binary.sha256),
        reference=spec.reference,
        source=f"binary {binary.sha256}",
        licence=binary.licence,
        licences=binary.licences,
    )


def _write_archive(spec: ImageSpec, binary: bytes, writer: Incoming) -> None:
    layer = _layer(spec, binary)
    config = _json(_image_config(spec, layer))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
        }
    )
    entry = _descriptor(_MANIFEST, manifest) | {
        "platform": {"architecture": spec.architecture, "os": "linux"},
        "annotations": {_NAME: spec.reference, _REF: spec.reference},
    }
    index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]})
    files = {f"blobs/sha256/{_hex(blob)}": blob for blob in (config, layer, manifest)}
    files |= {"index.json": index, "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    _write_tar(files, writer)


def _write_tar(files: dict[str, bytes], writer: Incoming) -> None:
    with tarfile.open(
        fileobj=cast("IO[bytes]", _Sink(writer)), mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK
    ) as archive:
        for directory in ("blobs", "blobs/sha256"):
            archive.addfile(_directory(directory))
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(files[name]), _FILE
            archive.addfile(info, io.BytesIO(files[name]))


def _tar_into(writer: Incoming) -> tarfile.TarFile:
    sink = cast("IO[bytes]", _Sink(writer))
    return tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK)


class _Sink(io.RawIOBase):
    """What a streaming tar writes to."""

    def __init__(self, writer: Incoming) -> None:
        super().__init__()
        self._writer = writer

    def writable(self) -> bool:
        """Say yes: that is all it is for."""
        return True

    def write(self, data: Any) -> int:
        """Pass the bytes on."""
        self._writer.write(bytes(data))
        return len(data)


def _layer(spec: ImageSpec, binary: bytes) -> bytes:
    """Return a tar with the binary at the root and nothing else. Times are 0, owners are root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(spec.binary.output)
        info.size, info.mode = len(binary), _DIRECTORY
        if spec.capabilities:
            value = _CAPABILITIES[spec.capabilities].decode("latin-1")
            info.pax_headers = {"SCHILY.xattr.security.capability": value}
        archive.addfile(info, io.BytesIO(binary))
    return buffer.getvalue()


def _image_config(spec: ImageSpec, layer: bytes) -> dict[str, Any]:
    entrypoint = [f"/{spec.binary.output}"]
    return {
        "architecture": spec.architecture,
        "os": "linux",
        "created": _EPOCH,
        "config": {
            "User": spec.user,
            "Entrypoint": entrypoint,
            "WorkingDir": "/",
            "Env": ["PATH=/"],
            "Labels": {"org.opencontainers.image.licenses": spec.binary.licence},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_hex(layer)}"]},
        "history": [{"created": _EPOCH, "created_by": f"nidome: {spec.binary.name} {spec.version}"}],
    }


def _directory(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, _DIRECTORY
    return info


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{_hex(content)}", "size": len(content)}


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add_user_image(path: Path, store: Store, architecture: str, name: str = "") -> list[Entry]:
    """Put a user's OCI or docker archive into the cache under its full name, or under ``name``.

    An archive with several images gives one entry for each name; they share the archive. The archive is
    copied file by file, with the names in its index made full; compressed archives become plain ones.
    """
    _require_file(path)
    try:
        with tarfile.open(path) as archive:
            documents = _documents(archive)
            renamed, references = _rename(documents, normalise(name) if name else "", str(path))
            with store.incoming() as writer:
                _copy(archive, renamed, writer)
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        # tarfile says what each way of reading it said, a line for each.
        raise _not_an_image(path, str(error).partition("\n")[0].rstrip(":")) from error
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    entries = [_user_entry(reference, architecture, writer, path) for reference in references]
    store.record(entries)
    return entries


def remove_user_image(name: str, store: Store, architecture: str) -> Entry:
    """Take a user's image out of the cache, and its archive where no other name shares it."""
    reference = normalise(name)
    entries = store.entries()
    users = {
        e.reference: e for e in entries.values() if (e.provider, e.architecture) == ("user", architecture)
    }
    entry = users.get(reference)
    if entry is None:
        raise ArtifactError(
            "image-unknown",
            f"no image {reference} was added",
            where=name,
            hint=f"added: {', '.join(sorted(users)) or 'none'}",
        )
    store.forget([entry.key])
    if not any(e.sha256 == entry.sha256 for e in store.entries().values()):
        store.blob(entry.sha256).unlink(missing_ok=True)
    return entry


def _require_file(path: Path) -> None:
    """Refuse what cannot be read twice, such as a pipe: the names in an archive are needed first."""
    if not path.exists():
        raise _unreadable(path, "there is no such file")
    if not path.is_file():
        raise _unreadable(path, "it is no file")


def _unreadable(path: Path, why: str) -> ArtifactError:
    return ArtifactError("image-unreadable", why, where=str(path), hint="name the file of an image archive")


def _not_an_image(path: Path, why: str) -> ArtifactError:
    return ArtifactError(
        "image-archive-invalid",
        f"not an OCI or docker image archive: {why}",
        where=str(path),
        hint="make one with `docker save`, `ctr images export` or `skopeo copy … oci-archive:FILE`",
    )


def _user_entry(reference: str, architecture: str, writer: Incoming, path: Path) -> Entry:
    return Entry(
        name=f"image:{reference}",
        version=reference.rpartition(":")[2],
        architecture=architecture,
        kind="image",
        sha256=writer.sha256,
        size=writer.size,
        provider="user",
        recipe="",
        reference=reference,
        source=str(path.resolve()),
    )


def _documents(archive: tarfile.TarFile) -> dict[str, Any]:
    """Return the parsed documents that name images: ``index.json`` and docker's ``manifest.json``."""
    documents = {}
    for info in archive:
        if info.name.removeprefix("./") in {"index.json", "manifest.json"} and info.isfile():
            content = archive.extractfile(info)
            documents[info.name] = json.loads(content.read()) if content else None
    if not documents:
        raise ValueError("it has neither index.json nor manifest.json")
    return documents


def _rename(documents: dict[str, Any], name: str, where: str) -> tuple[dict[str, bytes], list[str]]:
    references: dict[str, None] = {}
    for document in documents.values():
        targets = _targets(document)
        if name and len(targets) > 1:
            raise ArtifactError(
                "image-name-ambiguous",
                f"the archive has {len(targets)} images; --name fits only one",
                where=where,
                hint="leave --name out, or save the images one by one",
            )
        for target in targets:
            references.update(dict.fromkeys(target.rename(name)))
    if not references:
        raise ArtifactError(
            "image-name-missing", "the archive does not say the image's name", where=where, hint="--name NAME"
        )
    return {path: _json(document) for path, document in documents.items()}, list(references)


class _IndexName:
    """One manifest of an OCI index."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._annotations = manifest.setdefault("annotations", {})

    def rename(self, name: str) -> list[str]:
        """Write the full name; a reference without a path is only a tag and names nothing by itself."""
        ref = self._annotations.get(_REF, "")
        found = name or self._annotations.get(_NAME) or (ref if {":", "/"} & set(ref) else "")
        if not found:
            return []
        full = normalise(found)
        self._annotations[_NAME] = full
        return [full]


class _DockerName:
    """One image of docker's manifest."""

    def __init__(self, image: dict[str, Any]) -> None:
        self._image = image

    def rename(self, name: str) -> list[str]:
        """Write the full names."""
        tags = [name] if name else (self._image.get("RepoTags") or [])
        self._image["RepoTags"] = [normalise(tag) for tag in tags]
        return list(self._image["RepoTags"])


def _targets(document: Any) -> Sequence[_IndexName | _DockerName]:
    if isinstance(document, dict):
        return [_IndexName(manifest) for manifest in document["manifests"]]
    return [_DockerName(image) for image in document]


def _copy(archive: tarfile.TarFile, replaced: dict[str, bytes], writer: Incoming) -> None:
    with tarfile.open(
        fileobj=cast("IO[bytes]", _Sink(writer)), mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK
    ) as target:
        for info in archive:
            if info.name in replaced:
                info.size = len(replaced[info.name])
                target.addfile(info, io.BytesIO(replaced[info.name]))
            else:
                target.addfile(info, archive.extractfile(info) if info.isfile() else None)
