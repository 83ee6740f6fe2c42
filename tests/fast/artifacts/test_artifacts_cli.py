from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nidome.artifacts.store import EXECUTABLE, Entry, Store
from nidome.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = Entry("", "", "amd64", "binary", "", 0, "bundle", "", licence="Apache-2.0")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache with an etcd and a kubelet that came in a bundle."""
    store = Store(tmp_path / "cache")
    for name, version in (("etcd", "3.6.14"), ("kubelet", "1.36.4")):
        with store.incoming(mode=EXECUTABLE) as writer:
            writer.write(name.encode())
        store.record([replace(ENTRY, name=name, version=version, sha256=writer.sha256, size=writer.size)])
    return store.root


def nidome(cache: Path, *words: str) -> int:
    """Run ``nidome artifacts`` on that cache, for amd64 and with nothing but bundles allowed."""
    action = words[:2] if words[0] == "image" else words[:1]
    rest = words[len(action) :]
    common = ("--cache-dir", str(cache), "--arch", "amd64", "--provider", "bundle")
    return main(["artifacts", *action, *common, *rest])


def test_list_json(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``list --json`` has every name of the lock once, and for what is cached its checksum and path."""
    assert nidome(cache, "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["format"], listed["cache"]) == (1, str(cache))
    rows = {row["name"]: row for row in listed["artifacts"]}
    assert len(rows) == len(listed["artifacts"]) == 25
    assert {name for name, row in rows.items() if row["cached"]} == {"etcd", "kubelet"}
    assert rows["etcd"]["path"] == str(cache / "blobs" / "sha256" / rows["etcd"]["sha256"])
    assert rows["image-pause"]["reference"] == "registry.k8s.io/pause:3.10"


def test_list(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``list`` has a line for each name, with what is cached and what is not."""
    assert nidome(cache, "list") == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "bundle" in lines["etcd"]
    assert lines["runc"].endswith("not cached")


def test_list_of_another_version(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--use`` chooses another version of a component."""
    assert nidome(cache, "list", "--json", "--use", "kubernetes=1.35.8") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["artifacts"]}
    assert (rows["kubelet"]["version"], rows["kubelet"]["cached"]) == ("1.35.8", False)


def test_fetch(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``fetch NAME`` prints where each artifact is."""
    assert nidome(cache, "fetch", "etcd") == 0
    name, version, provider, path = capsys.readouterr().out.split()
    assert (name, version, provider) == ("etcd", "3.6.14", "bundle")
    assert path.startswith(str(cache))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fetch", "kubelt"), "artifact-unknown"),
        (("fetch", "etcd", "--use", "etcd=1.0"), "artifact-version-unknown"),
        (("fetch", "etcd", "--use", "etcd"), "option-value"),
        (("fetch", "runc"), "artifact-unavailable"),
        (("fetch", "runc", "--bundle", "nowhere.tar"), "bundle-invalid"),
        (("list", "--lock", "nowhere.json"), "lock-invalid"),
        (("bundle", "-o", "x.zip", "etcd"), "bundle-name"),
        (("bundle", "-o", "/nowhere/x.tar", "etcd"), "bundle-unwritable"),
        (("image", "add", "nowhere.tar"), "image-unreadable"),
    ],
)
def test_errors(cache: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str) -> None:
    """Bad input ends with 1 and an error with a stable code, never with a traceback."""
    assert nidome(cache, *words) == 1
    assert f"error[{code}]" in capsys.readouterr().err


def test_verify(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``verify`` ends with 1 when a byte has changed; ``--remove`` takes it out, after which all is well."""
    assert nidome(cache, "verify") == 0
    assert "2 artifacts, all as recorded" in capsys.readouterr().out
    blob = next(path for path in (cache / "blobs" / "sha256").iterdir() if path.read_bytes() == b"etcd")
    blob.write_bytes(b"etcD")
    assert nidome(cache, "verify") == 1
    assert capsys.readouterr().out.startswith("damaged: etcd 3.6.14 (amd64)")
    assert nidome(cache, "verify", "--remove") == 1
    assert nidome(cache, "verify") == 0


def test_bundle_and_install(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``bundle -o FILE`` and ``fetch --bundle FILE`` bring artifacts and own images to another machine."""
    image = tmp_path / "image.tar"
    with tarfile.open(image, "w") as archive:
        content = json.dumps([{"RepoTags": ["mine:1"]}]).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    assert nidome(cache, "image", "add", str(image)) == 0
    bundle = tmp_path / "b.tar"
    assert nidome(cache, "bundle", "-o", str(bundle), "etcd", "image:docker.io/library/mine:1") == 0
    capsys.readouterr()
    other = tmp_path / "other"
    assert nidome(other, "fetch", "--bundle", str(bundle), "etcd", "image:docker.io/library/mine:1") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert nidome(other, "list") == 0
    assert "docker.io/library/mine:1" in capsys.readouterr().out


def test_cached_path_is_light(cache: Path) -> None:
    """Where everything is cached, no provider, no HTTP, no tar and no thread pool is imported."""
    code = f"""
import sys
from pathlib import Path
from nidome.artifacts import Settings, obtain
from nidome.progress import Progress
settings = Settings(cache=Path({str(cache)!r}), architecture="amd64")
obtain(["etcd", "kubelet"], versions={{}}, settings=settings, progress=Progress())
heavy = {{"rich", "urllib.request", "http.client", "tarfile", "concurrent.futures", "subprocess", "yaml"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
