"""``nidome playbook`` as people who know ansible-playbook use it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nidome.cli.playbook_lists import render_lists
from nidome.declare.resolve import load
from nidome.engine.selection import Selection
from nidome.prove.ansiblelog import parse
from nidome.prove.records import exit_code, find, listing
from nidome.roles.listing import listing as listed
from nidome.roles.playbook import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[..., tuple[int, str, str]]

# As the description of the format has it; a parser that knows nothing of Nidome.
_PLAY = re.compile(r"^  play #(\d+) \((.+)\): (.*)\tTAGS: \[(.*)\]$", re.MULTILINE)
_TASK = re.compile(r"^      (.+ : .+)\tTAGS: \[(.*)\]$", re.MULTILINE)
PROGRAM = str(Path(sys.executable).with_name("nidome"))


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize("path", ["cluster.yml", "/opt/ks/kubespray/cluster.yml", "playbooks/cluster.yml"])
def test_plays_are_listed(nidome: Call, path: str) -> None:
    """--list-tasks gives the fifteen plays by number, wherever the playbook's file would be."""
    code, out, _ = nidome("playbook", path, "--list-tasks")
    assert code == 0
    assert out.startswith(
        f"\nplaybook: {path}\n\n  play #1 (all): Check Ansible version\tTAGS: []\n    tasks:\n"
    )
    plays = {name: int(number) for number, _, name, _ in _PLAY.findall(out)}
    assert len(plays) == 15
    assert plays["Install etcd"] == 8
    assert plays["Invoke kubeadm and install a CNI"] == 11
    assert plays["Install Kubernetes apps"] == 14
    tasks = dict(_TASK.findall(out))
    assert (
        tasks["container-engine/containerd : Write containerd configuration"]
        == "container-engine, containerd"
    )
    assert len(tasks) > 50


@pytest.mark.usefixtures("unreachable")
def test_only_the_chosen_tasks_are_listed(nidome: Call) -> None:
    """--tags and --skip-tags narrow the list; what always runs is in it."""
    _, out, _ = nidome(
        "playbook", "cluster.yml", "--list-tasks", "--tags", "containerd", "--skip-tags", "download"
    )
    tags = [set(found.split(", ")) for _, found in _TASK.findall(out)]
    assert tags
    assert all(mine & {"containerd", "always"} and "download" not in mine for mine in tags)


@pytest.mark.parametrize(("playbook", "plays"), [("facts.yml", 5), ("reset.yml", 6)])
@pytest.mark.usefixtures("unreachable")
def test_other_playbooks_are_listed(nidome: Call, playbook: str, plays: int) -> None:
    """facts.yml and reset.yml have as many plays as kubespray's."""
    code, out, _ = nidome("playbook", playbook, "--list-tasks")
    assert (code, len(_PLAY.findall(out))) == (0, plays)


def test_lists_are_what_ansible_prints(unreachable: Path, tmp_path: Path) -> None:
    """Hosts, tasks and tags are listed byte for byte as ansible-playbook lists the same plays."""
    plays = listed(CLUSTER, load(unreachable)[0], load(unreachable)[0].hosts)
    lines = []
    for play in plays:
        lines += [
            f"- name: {play.name}",
            f"  hosts: {play.pattern!r}",
            f"  tags: {list(play.tags)}",
            "  tasks:",
        ]
        lines += [f"  - {{name: {t.title!r}, set_fact: {{a: 1}}, tags: {list(t.tags)}}}" for t in play.tasks]
    (tmp_path / "cluster.yml").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "hosts.ini").write_text(
        "[kube_control_plane]\nnode1\n[kube_node]\nnode1\n[etcd]\nnode1\n[bastion]\n[calico_rr]\n"
        "[_kubespray_needs_etcd]\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n", encoding="utf-8",
    )  # fmt: skip
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "hosts.ini", "cluster.yml", "--list-hosts", "--list-tasks", "--list-tags"]
    for tags in ((), ("containerd",), ("etcd", "apps")):
        asked = [*command, *(word for tag in tags for word in ("--tags", tag))]
        environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            asked, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment
        )
        ours = render_lists("cluster.yml", plays, Selection(tags), hosts=True, tasks=True, tags=True)
        assert ours.splitlines() == done.stdout.splitlines()


@pytest.mark.usefixtures("unreachable")
def test_a_syntax_check_does_nothing(nidome: Call) -> None:
    """--syntax-check reads everything, names the playbook, connects to nobody and leaves no record."""
    code, out, _ = nidome("playbook", "cluster.yml", "--syntax-check")
    assert (code, out) == (0, "\nplaybook: cluster.yml\n")
    assert listing() == []


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("cluster.yml", "-K"), "password-prompt"),
        (("cluster.yml", "-k"), "password-prompt"),
        (("cluster.yml", "-b", "--become-user", "kube"), "become-other"),
        (("cluster.yml", "-f", "0"), "forks"),
        (("cluster.yml", "-T", "0"), "timeout"),
        (("cluster.yml", "--step"), "step-unavailable"),
        (("cluster.yml", "--become-password-file", "/p"), "password-prompt"),
        (("cluster.yml", "--conn-pass-file", "/p"), "password-prompt"),
        (("cluster.yml", "facts.yml"), "playbook-many"),
        (("scale.yml",), "playbook-unavailable"),
        (("upgrade-cluster.yml",), "playbook-unavailable"),
        (("playbooks/remove_node.yml",), "playbook-unavailable"),
        (("recover-control-plane.yml",), "playbook-unavailable"),
        (("site.yml",), "playbook-unknown"),
        (("cluster.yml", "--limit", "node7", "--list-hosts"), "host-unknown"),
        (("reset.yml",), "confirmation-missing"),
        (("reset.yml", "-e", "reset_confirmation=no"), "reset-declined"),
        (("reset.yml", "-e", "reset_confirmation=yes", "--tags", "etcd"), "reset-partial"),
        (("cluster.yml", "-i", "/nowhere"), "inventory-missing"),
    ],
)
def test_what_cannot_be_had_is_refused(nidome: Call, words: tuple[str, ...], error: str) -> None:
    """What this release has not got, or nobody could mean, ends with 1, a code and the next step."""
    code, out, err = nidome("playbook", *words)
    assert (code, out) == (1, "")
    assert f"error[{error}]" in err
    assert "next:" in err


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize("words", [("cluster.yml",), ("cluster.yml", "--check"), ("facts.yml",)])
def test_a_host_out_of_reach_ends_with_4(nidome: Call, words: tuple[str, ...]) -> None:
    """A host out of reach is UNREACHABLE in output and recap, and the exit code is Ansible's."""
    code, out, _ = nidome("playbook", *words)
    assert code == 4
    assert "fatal: [node1]: UNREACHABLE! => {" in out
    assert parse(out).recap["node1"]["unreachable"] == 1
    record = find("last")
    assert (record.meta["playbook"], record.meta["status"]) == (words[0], "failed")


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize(
    "words", ["reset_confirmation=yes", "reset_confirmation='yes' x=1", "skip_confirmation=true"]
)
def test_a_reset_of_a_host_out_of_reach_ends_with_4(nidome: Call, words: str) -> None:
    """A reset that is confirmed as in kubespray asks nobody, and says whom it cannot reach."""
    code, out, _ = nidome("playbook", "reset.yml", "-e", words)
    assert code == 4
    assert parse(out).recap["node1"]["unreachable"] == 1


def test_the_inventory_wins_over_the_command_line(nidome: Call, unreachable: Path) -> None:
    """-u and --private-key say how to log in where the inventory says nothing, as in Ansible."""
    _, out, _ = nidome("playbook", "cluster.yml", "-u", "somebody", "--private-key", "/a/key")
    assert "-i /a/key" in out
    assert "somebody@127.0.0.1" in out
    with (unreachable / "host_vars" / "node1" / "mine.yml").open("a", encoding="utf-8") as file:
        file.write("ansible_user: anybody\n")
    _, out, _ = nidome("playbook", "cluster.yml", "-u", "somebody")
    assert "anybody@127.0.0.1" in out


def test_arguments_of_ssh_come_from_the_command_line(nidome: Call, unreachable: Path) -> None:
    """--ssh-common-args stands where the inventory names none, --ssh-extra-args and -T always."""
    words = (
        "playbook",
        "cluster.yml",
        "--ssh-common-args=-o Port=9",
        "--ssh-extra-args",
        "-o Compression=yes",
    )
    _, out, _ = nidome(*words, "-T", "3")
    assert "-o Port=9 -o Compression=yes -o ConnectTimeout=3 -o ConnectTimeout=10" in out
    with (unreachable / "host_vars" / "node1" / "mine.yml").open("a", encoding="utf-8") as file:
        file.write("ansible_ssh_common_args: -o TCPKeepAlive=no\n")
    _, out, _ = nidome(*words)
    assert "-o TCPKeepAlive=no -o Compression=yes -o ConnectTimeout=10" in out
    assert "Port=9" not in out


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (("--force-handlers",), "--force-handlers has no effect"),
        (("-M", "/modules"), "--module-path has no effect"),
        (("--sftp-extra-args=-f",), "--sftp-extra-args has no effect"),
        (("--flush-cache",), ""),
    ],
)
def test_what_changes_nothing_is_taken_and_told(nidome: Call, words: tuple[str, ...], warned: str) -> None:
    """Options of ansible-playbook that mean nothing here are taken, and a warning says why."""
    code, _, err = nidome("playbook", "cluster.yml", "--syntax-check", *words)
    assert code == 0
    assert warned in err
    assert bool(err) == bool(warned)


@pytest.mark.usefixtures("unreachable")
def test_blanks_between_tags(nidome: Call) -> None:
    """A blank after the comma of --tags is no part of a tag."""
    parted = nidome("playbook", "cluster.yml", "--list-tasks", "--tags", "etcd, containerd")
    assert parted == nidome("playbook", "cluster.yml", "--list-tasks", "--tags", "etcd,containerd")


@pytest.mark.usefixtures("unreachable")
def test_a_reset_is_listed(nidome: Call) -> None:
    """reset.yml --list-tasks names what a reset of such a cluster removes, in its order."""
    _, out, _ = nidome("playbook", "reset.yml", "--list-tasks")
    tasks = [name for name, _ in _TASK.findall(out)]
    assert tasks.index("reset : Stop and remove kube-apiserver") < tasks.index("reset : Stop and remove kine")
    assert tasks[-1] == "reset : Remove the ledger"
    assert len(tasks) > 12


def test_warnings_of_a_list(nidome: Call, unreachable: Path) -> None:
    """Warnings are [WARNING] lines beside lists too."""
    (unreachable / "group_vars" / "all" / "mine.yml").write_text("nonsense: 1\n", encoding="utf-8")
    _, _, err = nidome("playbook", "cluster.yml", "--list-tasks")
    assert re.match(r"\[WARNING\]: .*mine.yml:1: nonsense is not a variable", err)


def test_warnings_are_on_standard_error(nidome: Call, unreachable: Path) -> None:
    """What nobody reads in the declaration is a [WARNING] with its place, beside the output."""
    (unreachable / "group_vars" / "all" / "mine.yml").write_text("nonsense: 1\n", encoding="utf-8")
    _, out, err = nidome("playbook", "cluster.yml")
    assert re.match(r"\[WARNING\]: .*mine.yml:1: nonsense is not a variable", err)
    assert "nonsense" not in out


# In the background: real processes, since one of them leaves its terminal.


def _start(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.usefixtures("unreachable")
def test_a_run_in_the_background_is_followed() -> None:
    """--detach returns at once; attach shows the whole output and ends with the run's exit code."""
    begun = _start("playbook", "cluster.yml", "--detach")
    assert begun.returncode == 0, begun.stderr
    run = re.search(r"nidome runs attach (\S+)", begun.stdout)
    assert run
    followed = _start("runs", "attach", run[1])
    assert followed.returncode == 4
    assert followed.stdout.startswith("\nPLAY [Check Ansible version] ***")
    assert parse(followed.stdout).recap["node1"]["unreachable"] == 1
    again = _start("runs", "log", run[1])
    assert (again.returncode, again.stdout) == (0, followed.stdout)


@pytest.mark.usefixtures("unreachable")
def test_an_apply_in_the_background_is_followed() -> None:
    """`nidome apply --detach` is followed in the same way, and ends with apply's own exit code."""
    begun = _start("apply", "--detach")
    assert begun.returncode == 0, begun.stderr
    followed = _start("runs", "attach")
    assert followed.returncode == 1
    assert "error[host-unreachable]" in followed.stdout


@pytest.fixture
def slow(inventory: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file to write to when the connection to the host, until then under way, may fail."""
    gate = place / "gate"
    program = place / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\nexit 255\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    file = inventory / "host_vars" / "node1" / "mine.yml"
    file.parent.mkdir(parents=True)
    file.write_text("ansible_host: 127.0.0.1\nip: 10.0.0.9\n", encoding="utf-8")
    return gate


def test_a_run_in_the_background_outlives_its_terminal(slow: Path) -> None:
    """When the session that started it is hung up, a detached run goes on to its end."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{PROGRAM} playbook cluster.yml --detach; kill -HUP 0; sleep 60"],
        start_new_session=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert shell.wait(60) == -signal.SIGHUP
    record = find("last")
    assert record.meta["status"] == "running"
    assert os.getsid(record.meta["pid"]) != shell.pid
    assert not os.isatty(os.open(f"/proc/{record.meta['pid']}/fd/0", os.O_RDONLY))
    slow.touch()
    assert _start("runs", "attach").returncode == 4
    assert find("last").meta["status"] == "failed"


def test_looking_on_can_be_ended(slow: Path) -> None:
    """Ctrl-C in attach ends only the looking on."""
    assert _start("playbook", "cluster.yml", "--detach").returncode == 0
    looking = subprocess.Popen([PROGRAM, "runs", "attach"], stderr=subprocess.PIPE, text=True)
    _wait_for_follower(looking.pid)
    looking.send_signal(signal.SIGINT)
    _, err = looking.communicate(timeout=60)
    assert looking.returncode == 130
    assert "the run goes on" in err
    assert find("last").meta["status"] == "running"
    slow.touch()
    assert _start("runs", "attach").returncode == 4


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_run_that_a_signal_ends(slow: Path, number: int, code: int, word: str) -> None:
    """Ctrl-C and SIGTERM end a playbook with its recap, a word and the next step; the record is aborted."""
    running = subprocess.Popen(
        [PROGRAM, "playbook", "cluster.yml", "-e", "kube_log_level=3"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any(record.meta["status"] == "running" for record in listing()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    slow.touch()
    assert running.returncode == code
    assert re.search(r"^PLAY RECAP \*+\nnode1 +: ok=0 ", out, re.MULTILINE)
    assert f"error[{word}]" in err
    assert "next:  what is done stays done; it goes on with: nidome playbook cluster.yml -e" in err
    assert "kube_log_level=3" not in err
    record = find("last")
    assert (record.meta["status"], record.meta["error"]["code"]) == ("aborted", word)
    assert exit_code(record.meta) == code


def _wait_for_follower(pid: int) -> None:
    """Wait until a program follows: it has the kept output open."""
    deadline = time.monotonic() + 60
    while not any("output.log" in name for name in _open_files(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _open_files(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            yield str(link.readlink())


@pytest.mark.usefixtures("unreachable")
def test_a_run_that_cannot_begin_says_so() -> None:
    """What is wrong before a detached run begins is told by the command itself, not in the background."""
    done = _start("playbook", "cluster.yml", "--detach", "-e", "kube_proxy_mode=none")
    assert done.returncode == 1
    assert "error[" in done.stderr
    assert listing() == []


@pytest.mark.parametrize("limit", ["", ",", "!", "["])
def test_an_empty_limit_is_not_every_host(
    limit: str, unreachable: Path, nidome: Callable[..., tuple[int, str, str]]
) -> None:
    """A limit that says nothing, such as an empty shell variable, ends a reset before any host is asked."""
    del unreachable
    code, _, err = nidome("playbook", "reset.yml", "-e", "reset_confirmation=yes", f"--limit={limit}")
    assert code == 1
    assert err.startswith("error[limit-pattern]")
