from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nidome.agent import system
from nidome.errors import ResourceError

KILLED = """
import sys, time
sys.path.insert(0, {source!r})
from nidome.agent.system import replaced
with replaced({path!r}, 0o600) as out:
    out.write(b"half")
    out.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def _kill_while_writing(path: Path) -> None:
    source = str(Path(system.__file__).parents[2])
    program = KILLED.format(source=source, path=str(path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.kill()


def test_kill_leaves_the_old_content(tmp_path: Path) -> None:
    """A kill -9 while a file is written leaves the old file whole, and the next write succeeds."""
    path = tmp_path / "file"
    path.write_text("old")
    _kill_while_writing(path)
    assert path.read_text() == "old"
    system.write_whole(str(path), b"new", 0o644)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_sweep_removes_what_a_kill_left(tmp_path: Path) -> None:
    """A file under construction that a kill -9 left is swept, and nothing else."""
    path = tmp_path / "file"
    (tmp_path / "other.tmp").write_text("somebody's")
    _kill_while_writing(path)
    assert len(os.listdir(tmp_path)) == 2
    system.sweep([str(tmp_path), str(tmp_path / "missing")])
    assert os.listdir(tmp_path) == ["other.tmp"]


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """An error while a file is written leaves neither the new file nor a half one."""

    def fail() -> None:
        with system.replaced(str(tmp_path / "file"), 0o644) as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.listdir(tmp_path) == []


def test_content_never_has_a_wider_mode(tmp_path: Path) -> None:
    """A secret has its mode before its content: no other user can read it at any moment."""
    old = os.umask(0)
    try:
        with system.replaced(str(tmp_path / "key"), 0o600) as out:
            assert os.fstat(out.fileno()).st_mode & 0o777 == 0o600
            out.write(b"secret")
    finally:
        os.umask(old)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_unknown_owner_is_an_error(tmp_path: Path) -> None:
    """A file for a user that the host does not have is an error with a code, and nothing is written."""
    with pytest.raises(ResourceError) as raised, system.replaced(str(tmp_path / "f"), 0o644, "no-such-user"):
        pass
    assert raised.value.code == "owner-unknown"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no-such-program-at-all"], "program-missing"),
        (["sh", "-c", "echo why >&2; exit 3"], "program-failed"),
        (["sleep", "60"], "program-timeout"),
    ],
)
def test_programs_fail_with_a_code(arguments: list[str], code: str) -> None:
    """A program of the host that is missing, fails or hangs is an error with its own code."""
    with pytest.raises(ResourceError) as raised:
        system.run(arguments, timeout=0.2)
    assert raised.value.code == code
    assert (code != "program-failed") or "exited 3: why" in raised.value.message


@pytest.fixture
def run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that stands for the host's /run."""
    monkeypatch.setattr(system, "RUN", str(tmp_path))
    return tmp_path


def test_keys_under_construction_are_swept(run_directory: Path) -> None:
    """Keys that a killed agent had in the making are removed by the next one, those of a living one stay."""
    program = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(system.__file__).parents[2])!r})\n"
        "from nidome.agent import system\n"
        f"system.RUN = {str(run_directory)!r}\n"
        "with system.work_directory() as work:\n"
        "    print(work, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        work = Path(process.stdout.readline().strip())
        assert work.stat().st_mode & 0o777 == 0o700
        system.sweep_work()
        assert work.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    (run_directory / "nidome-work-of-somebody").mkdir()
    system.sweep_work()
    assert os.listdir(run_directory) == ["nidome-work-of-somebody"]


def test_work_directory_is_gone_afterwards(run_directory: Path) -> None:
    """The directory for keys under construction is removed even when making them fails."""
    with pytest.raises(TimeoutError), system.work_directory():
        raise TimeoutError(time.monotonic())
    assert os.listdir(run_directory) == []


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda _: None, "absent"),
        (lambda p: (p.write_text(""), p.chmod(0o4751)), "4751 root:root"),
        (lambda p: p.symlink_to("/etc/hostname"), "a link to /etc/hostname"),
        (lambda p: p.mkdir(), "no file"),
        (os.mkfifo, "no file"),
    ],
)
def test_what_a_path_is_called(tmp_path: Path, prepare: Any, said: str) -> None:
    """A plain file is called by its mode and owner, and everything else by what it is."""
    prepare(tmp_path / "path")
    assert system.state_of(str(tmp_path / "path")) == said


@pytest.mark.usefixtures("promptly")
@pytest.mark.parametrize("make", [os.mkfifo, lambda p: os.mknod(p, 0o600 | stat.S_IFSOCK)])
def test_what_is_no_file_reads_as_empty(tmp_path: Path, make: Any) -> None:
    """A pipe or a socket in a file's place reads as empty at once, and has the hash of nothing."""
    make(tmp_path / "path")
    assert system.read_text(str(tmp_path / "path")) == ""
    assert system.sha256_file(str(tmp_path / "path")) == hashlib.sha256(b"").hexdigest()


def test_a_cgroup_that_goes_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup that is removed between opening and reading it reads as one that is not there."""
    root = next(p for p in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if p.is_dir())
    cgroup = root / f"nidome-test-{os.getpid()}"
    cgroup.mkdir()
    opened = system.open_file(str(cgroup / "cgroup.procs"))
    cgroup.rmdir()
    monkeypatch.setattr(system, "open_file", lambda _: opened)
    assert system.read_text(str(cgroup / "cgroup.procs")) is None
