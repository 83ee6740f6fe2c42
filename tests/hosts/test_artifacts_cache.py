"""What takes root or a toolchain: full and read-only file systems, real builds, hosts that cannot build."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Settings, Store, obtain
from nidome.artifacts.lock import BUILD
from nidome.artifacts.settings import host_architecture
from nidome.errors import ArtifactError
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts
QUIET = Progress.silent()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory that is a file system of 256 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def files(path: Path) -> list[str]:
    """Return what is left in a cache besides locks."""
    found = (item for item in path.rglob("*") if item.is_file())
    return [item.name for item in found if item.parent.name != "locks"]


def test_disk_full(small: Path) -> None:
    """A cache without space is an error that says so, and nothing half-written stays."""
    store = Store(small)
    kept = store.add_bytes(bytes(50_000))
    with pytest.raises(ArtifactError) as caught:
        store.add_bytes(os.urandom(400_000))
    assert caught.value.code == "cache-full"
    assert "--cache-dir" in caught.value.hint
    assert files(small) == [kept]


def test_disk_full_while_building(small: Path) -> None:
    """A build into a cache without space is an error that says so, and leaves nothing."""
    with pytest.raises(ArtifactError) as caught:
        obtain(["pause"], versions={}, settings=settings(small), progress=QUIET)
    assert caught.value.code == "cache-full"
    assert files(small) == []


def test_read_only(small: Path) -> None:
    """A cache on a read-only file system can be read; writing to it is an error that names the place."""
    kept = Store(small).add_bytes(b"content")
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    assert Store(small).has(kept, 7)
    with pytest.raises(ArtifactError, match="Read-only file system") as caught:
        Store(small).add_bytes(b"more")
    assert (caught.value.code, caught.value.where.startswith(str(small))) == ("cache-unusable", True)


def settings(tmp_path: Path, **changes: Any) -> Settings:
    """Return settings that build into an empty cache."""
    given: dict[str, Any] = {"cache": tmp_path / "cache", "providers": ("build",)}
    return Settings(**{**given, **changes})


def lock_with_recipe(tmp_path: Path, main: str) -> Path:
    """Write a lock whose pause is of a recipe of the test's own: pause's go.mod, with another main.go."""
    recipe = tmp_path / "recipe"
    recipe.mkdir(exist_ok=True)
    shutil.copy(BUILD / "pause" / "3.10" / "go.mod", recipe)
    (recipe / "main.go").write_text(main)
    path = tmp_path / "lock.json"
    component = {
        "default": "9.9",
        "versions": {"9.9": {"recipe": "recipe"}},
        "build": {"main": str(recipe / "main.go")},
    }
    path.write_text(json.dumps({"components": {"pause": component}}))
    return path


PROGRAM = 'package main\n\nfunc main() { println("%s") }\n'


def test_build_and_rebuild(tmp_path: Path) -> None:
    """A binary is built once; when its recipe changes it is built again, and otherwise not."""
    lock = lock_with_recipe(tmp_path, PROGRAM % "one")
    first = obtain(["pause"], versions={}, settings=settings(tmp_path, lock=lock), progress=QUIET)["pause"]
    assert subprocess.run([first.path], check=True, capture_output=True).stderr == b"one\n"
    again = obtain(["pause"], versions={}, settings=settings(tmp_path, lock=lock), progress=QUIET)["pause"]
    assert again == first
    lock_with_recipe(tmp_path, PROGRAM % "two")
    second = obtain(["pause"], versions={}, settings=settings(tmp_path, lock=lock), progress=QUIET)["pause"]
    assert subprocess.run([second.path], check=True, capture_output=True).stderr == b"two\n"


def test_build_is_reproducible(tmp_path: Path) -> None:
    """Two builds in different directories give the same file, and the same image of it."""
    found = [
        obtain(["image-pause"], versions={}, settings=settings(tmp_path / name), progress=QUIET)
        for name in "ab"
    ]
    assert found[0]["image-pause"].sha256 == found[1]["image-pause"].sha256


def test_build_carries_licences(tmp_path: Path) -> None:
    """A built binary comes with the licence of what was linked in, Go's own for one without modules."""
    obtain(["pause"], versions={}, settings=settings(tmp_path), progress=QUIET)
    store = Store(tmp_path / "cache")
    (entry,) = store.entries().values()
    assert "The Go Authors" in store.blob(entry.licences).read_text()


def test_build_for_another_architecture(tmp_path: Path) -> None:
    """What has no C code is built for the other architecture as well."""
    found = obtain(["pause"], versions={}, settings=settings(tmp_path, architecture="arm64"), progress=QUIET)
    elf = found["pause"].path.read_bytes()[:20]
    assert (elf[:4], int.from_bytes(elf[18:20], "little")) == (b"\x7fELF", 183)  # EM_AARCH64


def test_c_for_another_architecture(tmp_path: Path) -> None:
    """Runc has C code and is not built for another architecture: the error says what to do instead."""
    foreign = {"amd64": "arm64", "arm64": "amd64"}[host_architecture()]
    with pytest.raises(ArtifactError) as caught:
        obtain(["runc"], versions={}, settings=settings(tmp_path, architecture=foreign), progress=QUIET)
    assert caught.value.code == "build-cross-c"


INTERRUPTED = """
import sys
from pathlib import Path
from nidome.artifacts import Settings, obtain
from nidome.progress import Progress
settings = Settings(cache=Path(sys.argv[1]), providers=("build",))
obtain(["cni-bridge"], versions={}, settings=settings, progress=Progress.silent())
"""


def test_interrupted_build(tmp_path: Path) -> None:
    """A build that is interrupted ends Go too, leaves nothing half-made, and the next run completes it."""
    environment = {**os.environ, "GOCACHE": str(tmp_path / "gocache"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "cache")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("cache/temporary/*/go-build*/b*/importcfg")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
    assert process.returncode != 0
    assert list(tmp_path.glob("**/go-build*")) == []
    assert files(tmp_path / "cache") == []
    assert "cni-bridge" in obtain(["cni-bridge"], versions={}, settings=settings(tmp_path), progress=QUIET)


def test_build_failure(tmp_path: Path) -> None:
    """A build that fails is an error with the compiler's words, and nothing is kept."""
    lock = lock_with_recipe(tmp_path, "package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(ArtifactError, match="undefined: undefined") as caught:
        obtain(["pause"], versions={}, settings=settings(tmp_path, lock=lock), progress=QUIET)
    assert caught.value.code == "build-failed"
    assert files(tmp_path / "cache") == []
    assert list((tmp_path / "cache" / "temporary").iterdir()) == []


def test_other_names_of_one_binary(tmp_path: Path) -> None:
    """Another name of a multi-call binary that is there costs no build, not even a Go toolchain."""
    cache = settings(tmp_path)
    source = Store(Settings().cache)
    kubelet = obtain(["kubelet"], versions={}, settings=Settings(), progress=QUIET)["kubelet"]
    store = Store(cache.cache)
    entry = source.entries()["kubelet", kubelet.version, cache.architecture]
    for sha256 in (entry.sha256, entry.licences):
        store.add_file(source.blob(sha256), mode=0o755)
    store.record([entry])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        found = obtain(["kubectl", "kube-proxy"], versions={}, settings=cache, progress=QUIET)
    assert {artifact.sha256 for artifact in found.values()} == {kubelet.sha256}


def program(directory: Path, name: str, script: str) -> None:
    """Put a program into a directory."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("tools", "code", "words"),
    [
        ({}, "go-missing", "needs Go"),
        (
            {"go": "echo 'go: invalid GOTOOLCHAIN' >&2; exit 1"},
            "go-toolchain",
            "go1.26.8",
        ),
        ({"go": "exit 0"}, "build-packages-missing", "gcc, pkg-config"),
        ({"go": "exit 0", "gcc": "exit 0", "pkg-config": "exit 1"}, "build-packages-missing", "libseccomp"),
    ],
)
def test_host_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, str], code: str, words: str
) -> None:
    """What a build needs of the host is checked before the first build, and named with how to get it."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "sh").symlink_to("/bin/sh")
    for name, script in tools.items():
        program(directory, name, script)
    monkeypatch.setenv("PATH", str(directory))
    with pytest.raises(ArtifactError) as caught:
        obtain(["pause", "runc"], versions={}, settings=settings(tmp_path), progress=QUIET)
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.hint
    assert Store(tmp_path / "cache").entries() == {}


def test_no_module_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a module mirror and an empty module cache the error says which modules are missing."""
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    with pytest.raises(ArtifactError, match="module lookup disabled") as caught:
        obtain(["cni-bridge"], versions={}, settings=settings(tmp_path), progress=QUIET)
    assert caught.value.code == "module-download-failed"
