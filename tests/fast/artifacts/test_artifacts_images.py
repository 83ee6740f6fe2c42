from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Settings, obtain, user_images
from nidome.artifacts.images import add_user_image, make_image, normalise, remove_user_image
from nidome.artifacts.lock import ImageSpec, load_lock
from nidome.artifacts.store import EXECUTABLE, Entry, Store
from nidome.errors import ArtifactError
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = b"\x7fELF program" * 1000
NAME = "io.containerd.image.name"
REF = "org.opencontainers.image.ref.name"


def image(tmp_path: Path, name: str) -> tuple[ImageSpec, Path]:
    """Make an image of the lock from a given binary."""
    store = Store(tmp_path / "cache")
    spec = load_lock(Settings(cache=store.root, architecture="amd64")).spec(name, {})
    assert isinstance(spec, ImageSpec)
    with store.incoming(mode=EXECUTABLE) as writer:
        writer.write(PROGRAM)
    binary = Entry(
        spec.binary.name, spec.version, "amd64", "binary", writer.sha256, writer.size, "build", "r"
    )
    return spec, store.blob(make_image(spec, binary, store).sha256)


def members(path: Path) -> dict[str, bytes]:
    """Return the files of a tar."""
    with tarfile.open(path) as archive:
        return {i.name: f.read() for i in archive if (f := archive.extractfile(i)) is not None}


def digest(content: bytes) -> str:
    """Return the checksum as image layouts write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def tar(path: Path, files: Mapping[str, Any], mode: str = "w") -> Path:
    """Write an archive; values that are not bytes become JSON."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] # two modes, both fine
        for name, value in files.items():
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_deterministic(tmp_path: Path) -> None:
    """The same binary gives the same image archive, byte for byte."""
    first = image(tmp_path / "a", "image-coredns")[1].read_bytes()
    assert image(tmp_path / "b", "image-coredns")[1].read_bytes() == first


@pytest.mark.parametrize("name", ["image-pause", "image-coredns"])
def test_well_formed(tmp_path: Path, name: str) -> None:
    """Every descriptor of the layout has the digest and size of a blob that is there, down to the layer."""
    spec, path = image(tmp_path, name)
    files = members(path)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {NAME: spec.reference, REF: spec.reference}
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = blob(files, entry)
    config = blob(files, json.loads(manifest)["config"])
    layer = blob(files, json.loads(manifest)["layers"][0])
    assert json.loads(config)["rootfs"]["diff_ids"] == [digest(layer)]
    assert json.loads(config)["config"]["Entrypoint"] == [f"/{spec.binary.output}"]
    assert json.loads(config)["config"]["User"] == spec.user
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        (info,) = archive.getmembers()
        content = archive.extractfile(info)
        assert content is not None
        assert (info.name, info.mode, info.mtime, content.read()) == (spec.binary.output, 0o755, 0, PROGRAM)


def blob(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    """Return a descriptor's blob, which must be what it says."""
    content = files[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
    assert digest(content) == descriptor["digest"]
    assert len(content) == descriptor["size"]
    return content


def test_coredns_may_bind_port_53(tmp_path: Path) -> None:
    """CoreDNS runs as an ordinary user and has the capability for its port on the file."""
    _, path = image(tmp_path, "image-coredns")
    layer = next(content for name, content in members(path).items() if b"SCHILY.xattr" in content)
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        value = archive.getmembers()[0].pax_headers["SCHILY.xattr.security.capability"]
    assert value.encode("latin-1") == bytes.fromhex("0100000200040000" + "00" * 12)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("me/app:v1", "docker.io/me/app:v1"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:1", "localhost:5000/app:1"),
        ("example.com:443/a/b/c", "example.com:443/a/b/c:latest"),
        ("a@sha256:" + "0" * 64, "docker.io/library/a@sha256:" + "0" * 64),
        ("a:1@sha256:" + "0" * 64, "docker.io/library/a:1@sha256:" + "0" * 64),
    ],
)
def test_normalise(given: str, expected: str) -> None:
    """An image name becomes the full name that containerd uses; a full name stays as it is."""
    assert normalise(given) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    "name", ["", "UPPER", "a b", "a:", "a:b:c", "-a", "a//b", "exa mple.com/a", "a@md5:1"]
)
def test_not_a_name(name: str) -> None:
    """What is no image name is refused."""
    with pytest.raises(ArtifactError) as caught:
        normalise(name)
    assert caught.value.code == "image-name-invalid"


def add(tmp_path: Path, path: Path, name: str = "") -> tuple[list[Entry], dict[str, bytes]]:
    """Add a user's archive; return its entries and the files of what is in the cache."""
    store = Store(tmp_path / "cache")
    entries = add_user_image(path, store, "amd64", name)
    return entries, members(store.blob(entries[0].sha256))


OCI = {"oci-layout": {}, "blobs/sha256/aa": b"layer"}


def index(*annotations: dict[str, str] | None) -> dict[str, Any]:
    """Return an index with a manifest for each set of annotations."""
    manifests = [{"digest": "sha256:aa"} | ({"annotations": a} if a is not None else {}) for a in annotations]
    return {"schemaVersion": 2, "manifests": manifests}


def test_add_oci(tmp_path: Path) -> None:
    """A user's OCI archive gets its full name in the annotation that containerd reads; its layers stay."""
    path = tar(tmp_path / "i.tar", {**OCI, "index.json": index({REF: "me/app:v1"})})
    entries, files = add(tmp_path, path)
    assert [entry.reference for entry in entries] == ["docker.io/me/app:v1"]
    (manifest,) = json.loads(files["index.json"])["manifests"]
    assert manifest["annotations"][NAME] == "docker.io/me/app:v1"
    assert files["blobs/sha256/aa"] == b"layer"


def test_add_docker(tmp_path: Path) -> None:
    """A docker archive is taken with each of its tags, made full."""
    manifest = [{"Config": "c.json", "RepoTags": ["busybox:1", "registry.local:5000/b:2"], "Layers": []}]
    entries, files = add(tmp_path, tar(tmp_path / "i.tar", {"manifest.json": manifest}))
    expected = ["docker.io/library/busybox:1", "registry.local:5000/b:2"]
    assert [entry.reference for entry in entries] == expected
    assert json.loads(files["manifest.json"])[0]["RepoTags"] == expected
    assert entries[0].sha256 == entries[1].sha256


def test_add_both_formats(tmp_path: Path) -> None:
    """An archive that is both, as docker writes them today, gives each name once."""
    files = {
        **OCI,
        "index.json": index({NAME: "docker.io/library/a:1", REF: "1"}),
        "manifest.json": [{"RepoTags": ["a:1"]}],
    }
    entries, _ = add(tmp_path, tar(tmp_path / "i.tar", files))
    assert [entry.reference for entry in entries] == ["docker.io/library/a:1"]


def test_add_compressed(tmp_path: Path) -> None:
    """A compressed archive is kept uncompressed."""
    path = tar(tmp_path / "i.tar.gz", {**OCI, "index.json": index({NAME: "a:1"})}, "w:gz")
    entries, _ = add(tmp_path, path)
    assert Store(tmp_path / "cache").blob(entries[0].sha256).read_bytes()[:2] != b"\x1f\x8b"


def test_add_with_a_name(tmp_path: Path) -> None:
    """An archive without a name gets the one that is given; one that has a name gets another."""
    for before in (None, {REF: "latest"}, {NAME: "docker.io/library/old:1"}):
        path = tar(tmp_path / "i.tar", {**OCI, "index.json": index(before)})
        entries, files = add(tmp_path, path, "new:2")
        assert [entry.reference for entry in entries] == ["docker.io/library/new:2"]
        assert json.loads(files["index.json"])["manifests"][0]["annotations"][NAME] == entries[0].reference


def test_add_nameless(tmp_path: Path) -> None:
    """An archive that does not say its name is refused with the option that does."""
    with pytest.raises(ArtifactError) as caught:
        add(tmp_path, tar(tmp_path / "i.tar", {**OCI, "index.json": index({REF: "latest"})}))
    assert (caught.value.code, caught.value.hint) == ("image-name-missing", "--name NAME")


def test_add_one_name_for_two(tmp_path: Path) -> None:
    """One name for an archive with two images is refused."""
    path = tar(tmp_path / "i.tar", {**OCI, "index.json": index({NAME: "a:1"}, {NAME: "b:1"})})
    with pytest.raises(ArtifactError) as caught:
        add(tmp_path, path, "c:1")
    assert caught.value.code == "image-name-ambiguous"


@pytest.mark.parametrize(
    "files",
    [
        {"other": b""},
        {"index.json": b"{"},
        {"index.json": {}},
        {"index.json": {"manifests": ["x"]}},
        {"manifest.json": [1]},
        {"index.json": 5},
    ],
)
def test_add_not_an_image(tmp_path: Path, files: dict[str, Any]) -> None:
    """A tar that is no image archive is refused, whatever is wrong with it, and nothing is kept."""
    with pytest.raises(ArtifactError) as caught:
        add(tmp_path, tar(tmp_path / "i.tar", files))
    assert (caught.value.code, caught.value.where) == ("image-archive-invalid", str(tmp_path / "i.tar"))
    assert Store(tmp_path / "cache").entries() == {}


def test_add_not_a_tar(tmp_path: Path) -> None:
    """A file that is no tar is refused, and so are one that does not exist, a pipe and a directory."""
    (tmp_path / "x").write_bytes(b"nothing")
    os.mkfifo(tmp_path / "pipe")
    for name, code in (
        ("x", "image-archive-invalid"),
        ("nowhere", "image-unreadable"),
        ("pipe", "image-unreadable"),
        (".", "image-unreadable"),
    ):
        with pytest.raises(ArtifactError) as caught:
            add(tmp_path, tmp_path / name)
        assert caught.value.code == code


def test_added_image_is_obtained(tmp_path: Path) -> None:
    """An added image is listed and is obtained by its full name."""
    path = tar(tmp_path / "i.tar", {**OCI, "index.json": index({NAME: "a:1"})})
    add(tmp_path, path)
    settings = Settings(cache=tmp_path / "cache", architecture="amd64")
    (listed,) = user_images(settings)
    name = "image:docker.io/library/a:1"
    assert listed.name == name
    found = obtain([name], versions={}, settings=settings, progress=Progress.silent())
    assert found == {name: listed}


def test_removed_image_is_gone(tmp_path: Path) -> None:
    """A removed image is no longer listed, and its archive goes with the last name that shares it."""
    add(tmp_path, tar(tmp_path / "i.tar", {**OCI, "index.json": index({NAME: "a:1"}, {NAME: "b:1"})}))
    store = Store(tmp_path / "cache")
    for name, left in (("a:1", 1), ("docker.io/library/b:1", 0)):
        remove_user_image(name, store, "amd64")
        assert len(list(store.blobs.iterdir())) == left
        assert len(store.entries()) == left
    with pytest.raises(ArtifactError) as caught:
        remove_user_image("a:1", store, "amd64")
    assert caught.value.code == "image-unknown"
