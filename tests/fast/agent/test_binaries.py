from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from nidome.agent.host import Host
from nidome.agent.resources import binary
from nidome.agent.resources.binary import Binary
from nidome.engine.diff import compare
from nidome.errors import ResourceError

CONTENT = b"\x7fELF a program"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def stocked(host: Host) -> Host:
    """Return a host that was sent the artifact, some time ago."""
    blobs = Path(host.state) / "blobs"
    blobs.mkdir()
    (blobs / DIGEST).write_bytes(CONTENT)
    return host


def _wanted(tmp_path: Path, name: str = "program") -> Binary:
    return Binary(str(tmp_path / name), DIGEST)


def _differs(resource: Binary, host: Host) -> bool:
    return not compare(resource, binary.observe([resource], host)[0]).settled


def _age(path: str) -> None:
    """Wait until the kernel's clock has moved on since the file was touched."""
    stamp = os.stat(path).st_ctime_ns
    probe = Path(path).parent / "probe"
    while True:
        probe.write_text("")
        if probe.stat().st_ctime_ns - stamp > 20_000_000:
            probe.unlink()
            return


def test_names_of_one_program_are_one_file(tmp_path: Path, stocked: Host) -> None:
    """Several names of one multi-call program are hard links: it takes its space once."""
    names = [_wanted(tmp_path, n) for n in ("kubelet", "kube-proxy", "kubectl")]
    for wanted in names:
        binary.apply(wanted, stocked)
    assert not any(_differs(w, stocked) for w in names)
    assert len({os.stat(w.path).st_ino for w in names}) == 1
    assert os.stat(names[0].path).st_mode & 0o777 == 0o755
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".")]


def test_replacing_one_name_leaves_the_others(tmp_path: Path, stocked: Host) -> None:
    """Another version under one name does not change the program that the other names run."""
    names = [_wanted(tmp_path, n) for n in ("a", "b")]
    for wanted in names:
        binary.apply(wanted, stocked)
    newer = b"newer"
    digest = hashlib.sha256(newer).hexdigest()
    (Path(stocked.state) / "blobs" / digest).write_bytes(newer)
    binary.apply(Binary(names[0].path, digest), stocked)
    assert Path(names[0].path).read_bytes() == newer
    assert Path(names[1].path).read_bytes() == CONTENT


def test_a_corrupt_artifact_is_refused(tmp_path: Path, stocked: Host) -> None:
    """An artifact whose hash is wrong is not installed, and is dropped so that it is sent again."""
    blob = Path(stocked.state) / "blobs" / DIGEST
    blob.write_bytes(b"truncated")
    with pytest.raises(ResourceError) as raised:
        binary.apply(_wanted(tmp_path), stocked)
    assert raised.value.code == "artifact-corrupt"
    assert not (tmp_path / "program").exists()
    assert sorted(os.listdir(tmp_path)) == ["state"]
    assert stocked.blob(DIGEST) is None


def test_an_artifact_that_was_not_sent_is_an_error(tmp_path: Path, host: Host) -> None:
    """Without its artifact a program is an error with a code, and what is at its path stays."""
    (tmp_path / "program").write_bytes(b"theirs")
    with pytest.raises(ResourceError) as raised:
        binary.apply(_wanted(tmp_path), host)
    assert raised.value.code == "artifact-not-sent"
    assert (tmp_path / "program").read_bytes() == b"theirs"


def test_a_changed_twin_is_not_linked(tmp_path: Path, stocked: Host) -> None:
    """A further name is not linked to a file that somebody changed since it was looked at."""
    first, second = _wanted(tmp_path, "a"), _wanted(tmp_path, "b")
    binary.apply(first, stocked)
    Path(first.path).write_bytes(b"changed meanwhile")
    binary.apply(second, stocked)
    assert Path(second.path).read_bytes() == CONTENT
    assert not _differs(second, stocked)


def test_hashes_are_kept_for_the_next_run(
    tmp_path: Path, stocked: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run does not hash again what was not touched, not even under a second hard-linked name."""
    names = [_wanted(tmp_path, n) for n in ("a", "b")]
    for wanted in names:
        binary.apply(wanted, stocked)
    stocked.close()
    following = Host(stocked.state)
    monkeypatch.setattr("nidome.agent.host.sha256_file", lambda path: pytest.fail(f"{path} was hashed again"))
    assert not any(_differs(w, following) for w in names)


@pytest.mark.parametrize("same_inode", [True, False])
def test_a_touched_file_is_hashed_again(tmp_path: Path, stocked: Host, *, same_inode: bool) -> None:
    """A program exchanged for one of the same size, with its old time put back, is found out at once."""
    wanted = _wanted(tmp_path)
    binary.apply(wanted, stocked)
    stocked.close()
    _age(wanted.path)
    status = os.stat(wanted.path)
    if not same_inode:
        os.unlink(wanted.path)
    Path(wanted.path).write_bytes(bytes(len(CONTENT)))
    os.utime(wanted.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    Path(wanted.path).chmod(0o755)
    assert os.stat(wanted.path).st_size == status.st_size
    assert _differs(wanted, Host(stocked.state))


def test_a_hash_learned_too_early_is_not_kept(tmp_path: Path, host: Host) -> None:
    """A file hashed in the tick in which it was written is hashed again: a second write may look the same."""
    path = tmp_path / "fresh"
    path.write_bytes(b"one")
    learned: list[str] = []
    host.learned("first", str(path), learned.append)
    host.learned("first", str(path), learned.append)
    _age(str(path))
    for _ in range(2):
        host.learned("second", str(path), learned.append)
    assert len(learned) in (2, 3)
    assert learned[-1] == str(path)


def test_verifying_trusts_no_kept_hash(tmp_path: Path, stocked: Host) -> None:
    """A forgetful look hashes every file, whatever an earlier run has noted about it."""
    wanted = _wanted(tmp_path)
    binary.apply(wanted, stocked)
    known = stocked._knowledge()
    known[f"sha256:{wanted.path}"][1] = "0" * 64
    stocked._learned = True
    stocked.close()
    assert _differs(wanted, Host(stocked.state))
    assert not _differs(wanted, Host(stocked.state, forgetful=True))


@pytest.mark.parametrize("damage", ["", "{", "[]", "null"])
def test_a_damaged_cache_costs_only_time(tmp_path: Path, stocked: Host, damage: str) -> None:
    """A damaged cache of hashes is passed over."""
    binary.apply(_wanted(tmp_path), stocked)
    (Path(stocked.state) / "known.json").write_text(damage)
    assert not _differs(_wanted(tmp_path), Host(stocked.state))


@pytest.mark.parametrize("link", [True, False])
def test_a_program_that_was_there_is_given_back(tmp_path: Path, stocked: Host, *, link: bool) -> None:
    """Removing a program puts back the one that stood at its path before, a link as a link."""
    path = tmp_path / "program"
    if link:
        path.symlink_to("elsewhere")
    else:
        path.write_bytes(b"theirs")
        path.chmod(0o711)
    wanted = _wanted(tmp_path)
    binary.apply(wanted, stocked)
    binary.apply(wanted, Host(stocked.state))
    binary.remove(stocked.ledger.entries[wanted.id], stocked)
    if link:
        assert os.readlink(path) == "elsewhere"
    else:
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"theirs", 0o711)


def test_a_removed_program_is_gone(tmp_path: Path, stocked: Host) -> None:
    """Removing a program that Nidome installed leaves its other names and nothing of its own."""
    names = [_wanted(tmp_path, n) for n in ("a", "b")]
    for wanted in names:
        binary.apply(wanted, stocked)
    binary.remove(stocked.ledger.entries[names[0].id], stocked)
    binary.remove(stocked.ledger.entries[names[0].id], stocked)
    assert not Path(names[0].path).exists()
    assert Path(names[1].path).read_bytes() == CONTENT


@pytest.mark.usefixtures("promptly")
def test_a_pipe_in_a_programs_place_is_replaced(tmp_path: Path, stocked: Host) -> None:
    """A pipe in the place of a program is seen as a difference, replaced, and not put back by a reset."""
    wanted = _wanted(tmp_path)
    os.mkfifo(wanted.path)
    assert _differs(wanted, stocked)
    binary.apply(wanted, stocked)
    assert Path(wanted.path).read_bytes() == CONTENT
    binary.remove(stocked.ledger.entries[wanted.id], stocked)
    assert not Path(wanted.path).exists()
