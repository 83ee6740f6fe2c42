from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from nidome.artifacts.store import EXECUTABLE, Entry, Incoming, Store
from nidome.artifacts.verify import remove_damaged, verify
from nidome.errors import ArtifactError
from nidome.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = Entry("name", "1.0", "amd64", "binary", "0" * 64, 1, "build", "recipe")
ROUNDS = 40


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty cache."""
    return Store(tmp_path / "cache")


def filled(store: Store, name: str, content: bytes) -> Entry:
    """Put content into the cache and the index."""
    entry = replace(ENTRY, name=name, sha256=store.add_bytes(content), size=len(content))
    store.record([entry])
    return entry


def test_blob(store: Store) -> None:
    """A blob lies under its checksum with the mode that was asked for."""
    with store.incoming(mode=EXECUTABLE) as writer:
        writer.write(b"pro")
        writer.write(b"gram")
    assert writer.sha256 == hashlib.sha256(b"program").hexdigest()
    assert store.blob(writer.sha256).read_bytes() == b"program"
    assert store.blob(writer.sha256).stat().st_mode & 0o777 == 0o755
    assert store.has(writer.sha256, 7)
    assert not store.has(writer.sha256, 8)


def _write_half(writer: Incoming) -> None:
    writer.write(b"half")
    raise KeyboardInterrupt


def test_blob_interrupted(store: Store) -> None:
    """A write that does not come to its end leaves no blob and no temporary file."""
    with pytest.raises(KeyboardInterrupt), store.incoming() as writer:
        _write_half(writer)
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_looking_creates_nothing(store: Store) -> None:
    """A cache that is only looked at is not created."""
    assert store.entries() == {}
    assert not store.has("0" * 64, 1)
    assert not store.root.exists()


def test_index(store: Store) -> None:
    """Entries are found by name, version and architecture; a later one takes the place of an earlier."""
    store.record([ENTRY, replace(ENTRY, architecture="arm64")])
    store.record([replace(ENTRY, size=2)])
    assert {key: entry.size for key, entry in store.entries().items()} == {
        ("name", "1.0", "amd64"): 2,
        ("name", "1.0", "arm64"): 1,
    }
    store.forget([ENTRY.key])
    assert list(store.entries()) == [("name", "1.0", "arm64")]


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from nidome.artifacts.store import Entry, Store
root, prefix, rounds = sys.argv[1:]
entry = Entry("name", "1.0", "amd64", "binary", "0" * 64, 1, "build", "recipe")
print("ready", flush=True)
sys.stdin.read()
for number in range(int(rounds)):
    Store(Path(root)).record([replace(entry, name=f"{prefix}{number}")])
"""


def test_two_processes(store: Store) -> None:
    """Two processes that write the index at the same time lose nothing of each other."""
    command = [sys.executable, "-c", WRITER, str(store.root)]
    with (
        subprocess.Popen([*command, "a", str(ROUNDS)], stdin=PIPE, stdout=PIPE) as one,
        subprocess.Popen([*command, "b", str(ROUNDS)], stdin=PIPE, stdout=PIPE) as two,
    ):
        for process in (one, two):
            assert process.stdout is not None
            process.stdout.readline()
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.close()
    assert (one.returncode, two.returncode) == (0, 0)
    assert {name for name, _, _ in store.entries()} == {f"{p}{n}" for p in "ab" for n in range(ROUNDS)}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"format": 2, "artifacts": []}', b'{"format": 1, "artifacts": [{}]}']
)
def test_index_invalid(store: Store, content: bytes) -> None:
    """An index that cannot be understood is an error which says what to do, not an empty cache."""
    store.root.mkdir()
    (store.root / "index.json").write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        store.entries()
    assert caught.value.code == "cache-index-invalid"
    assert str(store.root / "index.json") in caught.value.hint


def test_cache_is_a_file(tmp_path: Path) -> None:
    """A cache directory that cannot be made is an error which names the option for another."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError) as caught:
        Store(tmp_path / "file" / "cache").add_bytes(b"x")
    assert caught.value.code == "cache-unusable"
    assert "--cache-dir" in caught.value.hint


def test_verify(store: Store) -> None:
    """A cache in order verifies; its artifacts are counted."""
    filled(store, "a", b"content")
    filled(store, "b", b"other")
    assert verify(store, Progress.silent()) == (2, [])


def test_verify_finds_a_flipped_byte(store: Store) -> None:
    """A single changed byte is found, in every artifact that shares the file; its size gives no sign."""
    first = filled(store, "a", b"content")
    second = filled(store, "b", b"content")
    filled(store, "c", b"other")
    blob = store.blob(first.sha256)
    blob.write_bytes(b"cOntent")
    assert store.has(first.sha256, first.size)
    _, findings = verify(store, Progress.silent())
    assert [(finding.entry, finding.problem) for finding in findings] == [
        (first, "damaged"),
        (second, "damaged"),
    ]


def test_verify_finds_what_is_missing(store: Store) -> None:
    """A removed blob is found, and so is a removed licence text."""
    licences = store.add_bytes(b"terms")
    entry = replace(filled(store, "a", b"content"), licences=licences)
    store.record([entry])
    store.blob(licences).unlink()
    assert [finding.problem for finding in verify(store, Progress.silent())[1]] == ["missing"]


def test_remove_damaged(store: Store) -> None:
    """What is taken out as damaged is gone from index and cache; everything else stays."""
    bad, good = filled(store, "bad", b"content"), filled(store, "good", b"other")
    store.blob(bad.sha256).write_bytes(b"changed")
    remove_damaged(store, verify(store, Progress.silent())[1])
    assert list(store.entries().values()) == [good]
    assert [path.name for path in store.blobs.iterdir()] == [good.sha256]
    assert verify(store, Progress.silent()) == (1, [])


def test_index_is_replaced_as_a_whole(store: Store) -> None:
    """A reader's index is the old or the new one: the file is renamed into place, never written over."""
    store.record([ENTRY])
    index = store.root / "index.json"
    before = index.stat().st_ino
    store.record([replace(ENTRY, name="other")])
    assert index.stat().st_ino != before
    assert len(json.loads(index.read_text())["artifacts"]) == 2
