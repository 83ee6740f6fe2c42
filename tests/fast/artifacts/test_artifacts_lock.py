from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Settings, default_cache, obtain
from nidome.artifacts.lock import BUILD, BinarySpec, ImageSpec, load_lock
from nidome.errors import ArtifactError, UsageError
from nidome.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

SUM = "a" * 64


def settings(tmp_path: Path, **changes: Any) -> Settings:
    """Return settings with an empty cache."""
    given: dict[str, Any] = {"cache": tmp_path / "cache", "architecture": "amd64"}
    return Settings(**{**given, **changes})


def user_lock(tmp_path: Path, data: Any) -> Path:
    """Write a user's lock file."""
    path = tmp_path / "my-lock.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_every_entry_is_whole(tmp_path: Path, architecture: str) -> None:
    """Every name, in every version, has a recipe; every pinned checksum is one; no template word is left."""
    lock = load_lock(settings(tmp_path, architecture=architecture))
    for component in lock.components():
        for version in lock.versions(component):
            for name in lock.names():
                spec = lock.spec(name, {component: version})
                binary = spec.binary if isinstance(spec, ImageSpec) else spec
                assert binary.recipe is not None
                assert binary.recipe.digest()
                assert not re.search(r"[{}]", repr((binary.download, binary.member, binary.recipe.ldflags)))
                if binary.download:
                    assert re.fullmatch(r"([0-9a-f]{64})?", binary.download.sha256)


@pytest.mark.parametrize("name", ["kubelet", "kubectl", "etcd", "containerd", "runc", "cni-bridge", "crictl"])
def test_pinned(tmp_path: Path, name: str) -> None:
    """What has a known release checksum is pinned, for both architectures and each by its own."""
    sums = set()
    for architecture in ("amd64", "arm64"):
        spec = load_lock(settings(tmp_path, architecture=architecture)).spec(name, {})
        assert isinstance(spec, BinarySpec)
        assert spec.download is not None
        sums.add(spec.download.sha256)
    assert len(sums) == 2
    assert "" not in sums


def test_recipes_are_in_the_package(tmp_path: Path) -> None:
    """Each go.mod names the version that the lock names, and each recipe has its sums."""
    lock = load_lock(settings(tmp_path))
    for component in lock.components():
        for version in lock.versions(component):
            go_mod = (BUILD / component / version / "go.mod").read_text()
            if component != "pause":  # of our own, without requirements
                assert re.search(rf" v{re.escape(version)}( |\n)", go_mod)
                assert (BUILD / component / version / "go.sum").stat().st_size > 0


def test_kubernetes_replaces_every_staging_module() -> None:
    """A Kubernetes build takes each staging module in the version that belongs to it."""
    for version in ("1.36.4", "1.35.8"):
        go_mod = (BUILD / "kubernetes" / version / "go.mod").read_text()
        replaced = re.findall(r"(k8s\.io/\S+) => (k8s\.io/\S+) (\S+)", go_mod)
        assert len(replaced) >= 30
        assert {(left == right, wanted) for left, right, wanted in replaced} == {(True, f"v0.{version[2:]}")}


def test_versions(tmp_path: Path) -> None:
    """A version is chosen by component or by name, with or without a leading v; the name wins."""
    lock = load_lock(settings(tmp_path))
    assert lock.spec("kubelet", {}).version == "1.36.4"
    assert lock.spec("kubelet", {"kubernetes": "v1.35.8"}).version == "1.35.8"
    assert lock.spec("kubelet", {"kubernetes": "1.36.4", "kubelet": "1.35.8"}).version == "1.35.8"


def test_images(tmp_path: Path) -> None:
    """Images have the references under which Kubernetes knows them."""
    lock = load_lock(settings(tmp_path))
    found = {name: lock.spec(name, {}) for name in ("image-pause", "image-coredns")}
    references = [spec.reference for spec in found.values() if isinstance(spec, ImageSpec)]
    assert references == ["registry.k8s.io/pause:3.10", "registry.k8s.io/coredns/coredns:v1.15.0"]


def test_unknown_name(tmp_path: Path) -> None:
    """A name that is not in the lock is an error before anything is fetched."""
    with pytest.raises(ArtifactError) as caught:
        obtain(["pause", "kubelt"], versions={}, settings=settings(tmp_path), progress=Progress.silent())
    assert (caught.value.code, caught.value.message) == ("artifact-unknown", "no artifact 'kubelt'")
    assert not (tmp_path / "cache").exists()


def test_unknown_version(tmp_path: Path) -> None:
    """A version that is not in the lock is an error which lists those that are."""
    with pytest.raises(ArtifactError) as caught:
        obtain(
            ["kubelet"],
            versions={"kubernetes": "1.12.0"},
            settings=settings(tmp_path),
            progress=Progress.silent(),
        )
    assert caught.value.code == "artifact-version-unknown"
    assert "1.36.4, 1.35.8" in caught.value.hint


def test_unknown_user_image(tmp_path: Path) -> None:
    """An image that nobody added is an error which names the command that adds it."""
    with pytest.raises(ArtifactError) as caught:
        obtain(
            ["image:docker.io/library/a:1"],
            versions={},
            settings=settings(tmp_path),
            progress=Progress.silent(),
        )
    assert caught.value.hint == "nidome artifacts image add FILE"


def test_unknown_provider(tmp_path: Path) -> None:
    """A provider that does not exist is refused with the list of those that do."""
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, providers=("registry",))
    assert caught.value.code == "provider-unknown"


def test_users_version(tmp_path: Path) -> None:
    """A user's file adds a patch release and may make it the default; everything else stays."""
    data = {
        "components": {
            "kubernetes": {
                "default": "1.36.9",
                "versions": {"1.36.9": {"sha256": {"kubelet": {"amd64": SUM}}}},
            }
        }
    }
    lock = load_lock(settings(tmp_path, lock=user_lock(tmp_path, data)))
    spec = lock.spec("kubelet", {})
    assert isinstance(spec, BinarySpec)
    assert spec.download is not None
    assert (spec.version, spec.download.sha256, spec.recipe) == ("1.36.9", SUM, None)
    assert spec.download.url == "https://dl.k8s.io/release/v1.36.9/bin/linux/amd64/kubelet"
    assert lock.versions("kubernetes") == ["1.36.9", "1.36.4", "1.35.8"]
    assert lock.spec("etcd", {}).version == "3.6.14"


def test_lock_in_the_cache(tmp_path: Path) -> None:
    """Entries in the cache directory's lock.json hold without an option."""
    chosen = settings(tmp_path)
    chosen.cache.mkdir()
    (chosen.cache / "lock.json").write_text(json.dumps({"components": {"kubernetes": {"default": "1.35.8"}}}))
    assert load_lock(chosen).spec("kubelet", {}).version == "1.35.8"


def test_users_recipe(tmp_path: Path) -> None:
    """A recipe's path in a user's file is relative to that file."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "go.mod").write_text("module mine\n")
    data = {"components": {"runc": {"versions": {"1.4.9": {"recipe": "mine"}}}}}
    spec = load_lock(settings(tmp_path, lock=user_lock(tmp_path, data))).spec("runc", {"runc": "1.4.9"})
    assert isinstance(spec, BinarySpec)
    assert spec.recipe is not None
    assert spec.recipe.directory == tmp_path / "mine"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "cannot be read as JSON"),
        ([], "must be an object"),
        ({"componets": {}}, "keys among components"),
        ({"format": 7}, "format 7 is not known"),
        ({"components": []}, "'components' must be an object"),
        ({"components": {"kubernets": {}}}, "no component 'kubernets'"),
        ({"components": {"etcd": []}}, "components.etcd must be an object"),
        ({"components": {"etcd": {"versions": {"v3.6.15": {}}}}}, "without 'v'"),
        ({"components": {"etcd": {"versions": {"3.6.15": {"sha256": []}}}}}, "sha256 must be an object"),
        ({"components": {"etcd": {"versions": {"3.6.15": {"sha256": {"etdc": {}}}}}}}, "downloads are etcd"),
        (
            {"components": {"etcd": {"versions": {"3.6.15": {"sha256": {"etcd": {"amd64": "AB"}}}}}}},
            "64 lower-case hexadecimal digits",
        ),
        ({"components": {"etcd": {"versions": {"3.6.15": {"recipe": "nowhere"}}}}}, "has no go.mod"),
        ({"components": {"etcd": {"default": "9.9.9"}}}, "default 9.9.9 is not among the versions"),
        ({"sources": {"github.com": 1}}, "sources"),
    ],
)
def test_users_lock_invalid(tmp_path: Path, data: Any, message: str) -> None:
    """A mistake in a user's lock file is an error that names the file and the place in it."""
    path = user_lock(tmp_path, data)
    with pytest.raises(ArtifactError, match=re.escape(message)) as caught:
        load_lock(settings(tmp_path, lock=path))
    assert (caught.value.code, caught.value.where) == ("lock-invalid", str(path))


def test_users_lock_missing(tmp_path: Path) -> None:
    """A lock file that does not exist is an error, not the default."""
    with pytest.raises(ArtifactError, match="No such file"):
        load_lock(settings(tmp_path, lock=tmp_path / "nowhere.json"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NIDOME_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/nidome"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/u"}, "/home/u/.cache/nidome"),
        ({"HOME": "/home/u"}, "/home/u/.cache/nidome"),
    ],
)
def test_default_cache(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    """The cache is where NIDOME_CACHE_DIR says, else under XDG_CACHE_HOME, else under ~/.cache."""
    for name in ("NIDOME_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(default_cache()) == expected
