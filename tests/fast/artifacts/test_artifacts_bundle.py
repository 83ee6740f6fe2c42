from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Artifact, Settings, obtain, user_images
from nidome.artifacts.bundle import write_bundle
from nidome.artifacts.obtain import take_user_images
from nidome.artifacts.store import EXECUTABLE, Entry, Store
from nidome.errors import ArtifactError, UsageError
from nidome.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

QUIET = Progress.silent()
ENTRY = Entry("", "", "amd64", "binary", "", 0, "build", "recipe", licence="Apache-2.0")
NAMES = ["kubelet", "kubectl", "etcd", "image-pause"]


def made(store: Store) -> list[Entry]:
    """Fill a cache as a build would have: two names share one file, one image, licence texts."""
    licences = store.add_bytes(b"the terms of everything linked in")
    with store.incoming(mode=EXECUTABLE) as kubernetes:
        kubernetes.write(b"kubernetes")
    with store.incoming(mode=EXECUTABLE) as etcd:
        etcd.write(b"etcd")
    image = store.add_bytes(b"image")
    kubelet = replace(
        ENTRY, name="kubelet", version="1.36.4", sha256=kubernetes.sha256, size=10, licences=licences
    )
    entries = [
        kubelet,
        replace(kubelet, name="kubectl"),
        replace(ENTRY, name="etcd", version="3.6.14", sha256=etcd.sha256, size=4),
        replace(
            ENTRY,
            name="image-pause",
            version="3.10",
            kind="image",
            sha256=image,
            size=5,
            reference="registry.k8s.io/pause:3.10",
        ),
        replace(
            ENTRY,
            name="image:docker.io/library/mine:1",
            version="1",
            kind="image",
            sha256=image,
            size=5,
            provider="user",
            reference="docker.io/library/mine:1",
        ),
    ]
    store.record(entries)
    return entries


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Write a bundle with four artifacts and a user's image."""
    store = Store(tmp_path / "maker")
    path = tmp_path / "bundle.tar"
    write_bundle(made(store), store, path, QUIET)
    return path


def install(tmp_path: Path, bundle: Path, names: list[str] = NAMES, **changes: Any) -> dict[str, Artifact]:
    """Obtain from the bundle with every other provider blocked."""
    given: dict[str, Any] = {
        "cache": tmp_path / "user",
        "bundle": bundle,
        "providers": ("bundle",),
        "architecture": "amd64",
    }
    return obtain(names, versions={}, settings=Settings(**{**given, **changes}), progress=QUIET)


def repacked(bundle: Path, target: Path) -> Path:
    """Unpack a bundle into a directory."""
    with tarfile.open(bundle) as archive:
        archive.extractall(target, filter="data")
    return target


def test_round_trip(tmp_path: Path, bundle: Path) -> None:
    """What one machine put into a bundle another gets out of it, with no other source."""
    found = install(tmp_path, bundle)
    assert {name: artifact.path.read_bytes() for name, artifact in found.items()} == {
        "kubelet": b"kubernetes",
        "kubectl": b"kubernetes",
        "etcd": b"etcd",
        "image-pause": b"image",
    }
    assert {artifact.provider for artifact in found.values()} == {"bundle"}
    assert found["kubelet"].path.stat().st_mode & 0o777 == 0o755
    assert found["image-pause"].reference == "registry.k8s.io/pause:3.10"


def test_no_bundle_the_second_time(tmp_path: Path, bundle: Path) -> None:
    """Once installed, the bundle itself is no longer needed."""
    first = install(tmp_path, bundle)
    bundle.unlink()
    assert install(tmp_path, bundle) == first


def test_directory(tmp_path: Path, bundle: Path) -> None:
    """An unpacked bundle serves as well as the file."""
    assert set(install(tmp_path, repacked(bundle, tmp_path / "unpacked"))) == set(NAMES)


def test_compressed(tmp_path: Path) -> None:
    """A bundle whose name ends in .tar.gz is compressed, and reads as well."""
    store = Store(tmp_path / "maker")
    write_bundle(made(store), store, tmp_path / "b.tar.gz", QUIET)
    assert (tmp_path / "b.tar.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert set(install(tmp_path, tmp_path / "b.tar.gz")) == set(NAMES)


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_deterministic(tmp_path: Path, name: str) -> None:
    """The same content gives the same bundle, byte for byte, in whatever order it was asked for."""
    store = Store(tmp_path / "maker")
    entries = made(store)
    contents = []
    for order in (entries, entries[::-1]):
        write_bundle(order, store, tmp_path / name, QUIET)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_licences(bundle: Path) -> None:
    """A bundle has a readable licence text for everything in it, the licence's own where none came along."""
    with tarfile.open(bundle) as archive:
        names = {name for name in archive.getnames() if name.startswith("licences/")}
        kubelet = archive.extractfile("licences/kubelet-1.36.4.txt")
        apache = archive.extractfile("licences/Apache-2.0.txt")
        assert kubelet is not None
        assert apache is not None
        assert kubelet.read() == b"the terms of everything linked in"
        assert b"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in apache.read()
    assert names == {f"licences/{n}.txt" for n in ("Apache-2.0", "kubectl-1.36.4", "kubelet-1.36.4")}


def test_user_images_travel(tmp_path: Path, bundle: Path) -> None:
    """Images that the bundle's maker had added come along and are listed."""
    settings = Settings(cache=tmp_path / "user", bundle=bundle, architecture="amd64")
    take_user_images(settings, QUIET)
    assert [image.reference for image in user_images(settings)] == ["docker.io/library/mine:1"]
    name = "image:docker.io/library/mine:1"
    assert install(tmp_path, bundle, [name])[name].path.read_bytes() == b"image"


def test_not_in_the_bundle(tmp_path: Path, bundle: Path) -> None:
    """What the bundle lacks is an error that names it and the bundle; the rest is in the cache by then."""
    with pytest.raises(ArtifactError, match=r"runc 1\.4\.3") as caught:
        install(tmp_path, bundle, ["etcd", "runc"])
    assert caught.value.code == "artifact-unavailable"
    assert str(bundle) in caught.value.message
    assert [key[0] for key in Store(tmp_path / "user").entries()] == ["etcd"]


def test_other_architecture(tmp_path: Path, bundle: Path) -> None:
    """A bundle for one architecture has nothing for the other."""
    with pytest.raises(ArtifactError, match=r"etcd 3\.6\.14 \(arm64\)"):
        install(tmp_path, bundle, ["etcd"], architecture="arm64")


def test_damaged(tmp_path: Path, bundle: Path) -> None:
    """A flipped byte in a bundle is an error, and nothing of that file is kept."""
    directory = repacked(bundle, tmp_path / "unpacked")
    for blob in (directory / "blobs" / "sha256").iterdir():
        if blob.read_bytes() == b"etcd":
            blob.write_bytes(b"etcD")
    with pytest.raises(ArtifactError) as caught:
        install(tmp_path, directory, ["etcd"])
    assert caught.value.code == "checksum-mismatch"
    assert Store(tmp_path / "user").entries() == {}
    blobs = tmp_path / "user" / "blobs" / "sha256"
    assert not blobs.exists() or list(blobs.iterdir()) == []


def test_truncated(tmp_path: Path, bundle: Path) -> None:
    """A bundle that was not copied to its end is an error, not a traceback."""
    content = bundle.read_bytes()
    for length in (0, 600, len(content) // 2):
        bundle.write_bytes(content[:length])
        with pytest.raises(ArtifactError) as caught:
            install(tmp_path, bundle)
        assert caught.value.code == "bundle-invalid"


@pytest.mark.parametrize(
    "manifest", ["{", "[]", '{"format": 9}', '{"format": 1, "artifacts": [{"name": 1}]}']
)
def test_manifest_invalid(tmp_path: Path, bundle: Path, manifest: str) -> None:
    """A bundle whose list of contents cannot be understood is an error that names the bundle."""
    directory = repacked(bundle, tmp_path / "unpacked")
    (directory / "nidome-bundle.json").write_text(manifest)
    with pytest.raises(ArtifactError) as caught:
        install(tmp_path, directory)
    assert (caught.value.code, caught.value.where) == ("bundle-invalid", str(directory))


def test_bundle_cannot_reach_outside(tmp_path: Path, bundle: Path) -> None:
    """A manifest that names a path instead of a checksum is refused."""
    directory = repacked(bundle, tmp_path / "unpacked")
    manifest = json.loads((directory / "nidome-bundle.json").read_text())
    for row in manifest["artifacts"]:
        row["sha256"] = "../../../../etc/passwd"
    (directory / "nidome-bundle.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError) as caught:
        install(tmp_path, directory)
    assert caught.value.code == "bundle-invalid"
    assert "has no checksum" in caught.value.message


def test_missing_bundle(tmp_path: Path) -> None:
    """A bundle that does not exist is an error."""
    with pytest.raises(ArtifactError, match="No such file"):
        install(tmp_path, tmp_path / "nowhere.tar")


def test_name_says_the_format(tmp_path: Path) -> None:
    """A bundle's file name must say its format."""
    with pytest.raises(UsageError) as caught:
        write_bundle([], Store(tmp_path), tmp_path / "bundle.zip", QUIET)
    assert caught.value.code == "bundle-name"


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """A bundle that cannot be written to its end does not exist, and an older one stays as it was."""
    store = Store(tmp_path / "maker")
    entries = made(store)
    store.blob(entries[0].sha256).unlink()
    directory = tmp_path / "out"
    directory.mkdir()
    (directory / "b.tar").write_bytes(b"older")
    with pytest.raises(ArtifactError) as caught:
        write_bundle(entries, store, directory / "b.tar", QUIET)
    assert caught.value.code == "cache-changed"
    assert [(path.name, path.read_bytes()) for path in directory.iterdir()] == [("b.tar", b"older")]
