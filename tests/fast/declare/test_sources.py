"""What may stand in place of a file, what is bounded, and what several sources and old names mean."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare import files
from nidome.declare.extravars import read_extra_vars
from nidome.declare.files import read_bytes
from nidome.declare.inventory import read_inventory
from nidome.declare.passwords import make_vault
from nidome.declare.resolve import load
from nidome.errors import DeclarationError, NidomeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Make = Callable[[Mapping[str, str]], Path]


@pytest.fixture(autouse=True)
def guard() -> Iterator[None]:
    """End a test that waits for ever."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        # A socket's path may have 107 bytes only.
        before = Path.cwd()
        os.chdir(path.parent)
        bound.bind(path.name)
        os.chdir(before)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


_IRREGULAR: dict[str, Callable[[Path], None]] = {
    "a pipe": _fifo,
    "a socket": _socket,
    "a device": _device,
    "a directory": Path.mkdir,
}


@pytest.mark.parametrize("kind", _IRREGULAR)
def test_what_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    """A pipe, a socket, a device and a directory are refused by kind, and none of them is waited for."""
    path = tmp_path / "x"
    _IRREGULAR[kind](path)
    with pytest.raises(DeclarationError) as caught:
        read_bytes(path)
    assert (caught.value.code, caught.value.where) == ("file-irregular", str(path))
    assert kind in caught.value.message


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
@pytest.mark.parametrize("name", ["hosts.yaml", "group_vars/all.yml", "host_vars/node1.yml"])
def test_an_inventory_does_not_wait_for_what_is_no_file(name: str, kind: str, inventory: Make) -> None:
    """In place of an inventory or a file of variables, what is no regular file is refused with its place."""
    root = inventory({"group_vars/x": "", "host_vars/x": ""})
    path = root / name
    path.unlink(missing_ok=True)
    _IRREGULAR[kind](path)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(root / "hosts.yaml")
    assert (caught.value.code, caught.value.where) == ("file-irregular", str(path))


def test_what_is_no_file_in_a_directory_of_inventories_is_named(inventory: Make) -> None:
    """A pipe beside inventories or in a folder of variables is left out, with a warning."""
    root = inventory({"group_vars/all/a.yml": "x: 1\n"})
    for name in ("zz", "group_vars/all/pipe.yml"):
        os.mkfifo(root / name)
    named = {w.where for w in read_inventory(root).warnings if w.code == "file-not-read"}
    assert named == {str(root / "zz"), str(root / "group_vars/all/pipe.yml")}


def _write_later(path: Path, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=lambda: path.write_bytes(data), daemon=True)
    thread.start()
    return thread


def test_a_pipe_is_read_where_people_use_one(tmp_path: Path) -> None:
    """Extra variables and a vault password may come from a pipe, a named one or a process substitution."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = _write_later(path, b"a: 1\n")
    assert read_extra_vars([f"@{path}"])["a"].node.value == 1
    writer.join()
    ours, theirs = os.pipe()
    os.write(theirs, b"a: [2]\n")
    os.close(theirs)
    assert read_extra_vars([f"@/dev/fd/{ours}"])["a"].node.value == [2]
    os.close(ours)


def test_a_pipe_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes to, or that is never closed, is given up after a while."""
    monkeypatch.setattr(files, "PIPE_SECONDS", 0.2)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for held in (False, True):
        writer = os.open(path, os.O_RDWR) if held else -1
        if held:
            os.write(writer, b"a: 1\n")
        with pytest.raises(DeclarationError) as caught:
            read_extra_vars([f"@{path}"])
        assert (caught.value.code, caught.value.where) == ("pipe-timeout", str(path))
        if held:
            os.close(writer)


def test_a_pipe_of_more_than_can_be_read_is_refused() -> None:
    """An endless pipe is refused once it has given more than a file may hold."""
    ours, theirs = os.pipe()
    thread = threading.Thread(target=_flood, args=(theirs,), daemon=True)
    thread.start()
    with pytest.raises(DeclarationError) as caught:
        read_extra_vars([f"@/dev/fd/{ours}"])
    assert caught.value.code == "file-too-large"
    os.close(ours)
    thread.join()


def _flood(handle: int) -> None:
    try:
        while True:
            os.write(handle, b"#" * 65536)
    except BrokenPipeError:
        os.close(handle)


_ENCODED = {
    "latin-1": ("caf\u00e9: 1\n".encode("latin-1"), "not UTF-8"),
    "utf-16": ("a: 1\n".encode("utf-16"), "not UTF-8"),
    "utf-16 without a mark": ("a: 1\n".encode("utf-16-le"), "NUL"),
    "nul": (b"a: 1\nb: \0\n", "NUL"),
}


@pytest.mark.parametrize("encoding", _ENCODED)
@pytest.mark.parametrize("name", ["hosts.ini", "hosts.yaml", "group_vars/all.yml", "host_vars/node1.yml"])
def test_what_is_no_text_is_refused_with_its_line(name: str, encoding: str, inventory: Make) -> None:
    """Other encodings and binary files are refused with file and line, wherever they stand."""
    root = inventory({"group_vars/x": "", "host_vars/x": ""})
    data, said = _ENCODED[encoding]
    (root / name).write_bytes(data)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(root)
    assert caught.value.code == "not-utf8"
    assert said in caught.value.message
    assert caught.value.where == f"{root / name}:{2 if encoding == 'nul' else 1}"


def test_a_file_that_may_not_be_read_is_an_error(inventory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without the right to read it is an error that names it and the reason."""
    root = inventory({"group_vars/all.yml": "a: 1\n"})

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(root)
    assert caught.value.code == "file-unreadable"
    assert "Permission denied" in caught.value.message


_ONE_GROUP = "[g]\nh\n[g:vars]\n"
_LARGE: dict[str, tuple[str, str, str]] = {
    "10 MB of YAML": ("hosts.yaml", "all: {hosts: {h: }}\n" + "#" * 10_000_000, "file-too-large"),
    "hosts in YAML": (
        "hosts.yaml",
        "all:\n hosts:\n" + "".join(f"  h{n}:\n" for n in range(20_001)),
        "inventory-size",
    ),
    "hosts in INI": ("hosts.ini", "h[1:9999]\ni[1:9999]\nj[1:9999]\n", "inventory-size"),
    "groups": ("hosts.ini", "".join(f"[g{n}]\nh\n" for n in range(5_001)), "inventory-size"),
    "values in YAML": ("hosts.yaml", "all: {hosts: {h: {x: [" + "1," * 510_000 + "]}}}", "yaml-size"),
    "values in INI": ("hosts.ini", _ONE_GROUP + "".join(f"v{n}=1\n" for n in range(100_001)), "ini-size"),
}


@pytest.mark.parametrize("case", _LARGE)
def test_a_huge_inventory_is_refused(case: str, tmp_path: Path) -> None:
    """Size is bounded in every direction: bytes, hosts, groups and values."""
    name, text, code = _LARGE[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(tmp_path)
    assert caught.value.code == code
    assert caught.value.where.startswith(str(tmp_path / name))


def test_many_groups_inside_each_other_are_read() -> None:
    """Thousands of groups, each inside the other, are no more than a long way to all."""
    with TemporaryDirectory() as place:
        path = Path(place) / "hosts.ini"
        chain = "".join(f"[g{n}:children]\ng{n + 1}\n" for n in range(3_000))
        path.write_text(f"{chain}[g3000]\nh[1:2000]\n")
        read = read_inventory(path)
        assert len(read.groups_of("h1")) == 3_001
        assert len(read.groups["g0"]) == 2_000


def test_a_source_that_is_a_list_of_hosts_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of hosts takes nothing from the directory that a person happens to be in."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("a: 1\n")
    monkeypatch.chdir(tmp_path)
    read = read_inventory("h1,h2:2222,")
    assert read.hosts == ("h1", "h2")
    assert {name: entry.node.value for name, entry in read.variables("h2").items()} == {"ansible_port": 2222}
    assert read.source == "h1,h2:2222,"


@pytest.mark.parametrize("text", ["h 1,", "../h,", ",", "h1,[,"])
def test_a_bad_list_of_hosts_is_an_error(text: str) -> None:
    """A list that holds no host, or what is none, is refused with -i as its place."""
    with pytest.raises(DeclarationError) as caught:
        read_inventory(text)
    assert caught.value.code in ("host-name", "inventory-empty")
    assert caught.value.where in ("-i", text)


def test_the_later_source_wins_and_its_place_is_named(tmp_path: Path) -> None:
    """Of two sources the later value is in force, with its own file and line, and both layers are kept."""
    for name in ("one", "two"):
        (tmp_path / name / "group_vars").mkdir(parents=True)
        (tmp_path / name / "hosts.yaml").write_text("kube_node: {hosts: {n1: }}\n")
        (tmp_path / name / "group_vars/kube_node.yml").write_text(f"x: {name}\n")
    read = read_inventory([tmp_path / "one", tmp_path / "two"])
    assert str(read.variables("n1")["x"].origin) == f"{tmp_path}/two/group_vars/kube_node.yml:1"
    assert [layer.entries["x"].node.value for layer in read.layers("n1") if "x" in layer.entries] == [
        "one",
        "two",
    ]
    assert read.source == f"{tmp_path}/one, {tmp_path}/two"


def test_directories_that_kubespray_keeps_there_are_no_inventories(inventory: Make) -> None:
    """The kubeconfigs, passwords and patches that kubespray puts beside an inventory are not read as one."""
    folders = ("artifacts/admin.conf", "credentials/kubeadm_certificate_key.creds", "patches/kubelet.yaml")
    root = inventory(dict.fromkeys(folders, "nothing: like an inventory\n"))
    assert read_inventory(root).hosts == ("node1",)


_OLD = """\
[kube-master]
m1 ip=10.0.0.1
[kube-node]
w1 ip=10.0.0.2
[etcd:children]
kube-master
[k8s-cluster:children]
kube-master
kube-node
"""


def test_old_group_names_get_their_new_ones_with_a_warning(tmp_path: Path) -> None:
    """Groups with kubespray's hyphenated names work, and the warning says what to write and where."""
    path = tmp_path / "hosts.ini"
    path.write_text(_OLD)
    (tmp_path / "group_vars").mkdir()
    for name, value in {"k8s-cluster": 1, "kube_control_plane": 2}.items():
        (tmp_path / f"group_vars/{name}.yml").write_text(f"{name.replace('-', '_')}_read: {value}\n")
    read = read_inventory(path)
    members = {
        name: set(read.groups[name]) for name in ("kube_control_plane", "kube_node", "etcd", "k8s_cluster")
    }
    assert members == {
        "kube_control_plane": {"m1"}, "kube_node": {"w1"}, "etcd": {"m1"}, "k8s_cluster": {"m1", "w1"},
    }  # fmt: skip
    assert {"k8s_cluster_read", "kube_control_plane_read"} <= set(read.variables("m1"))
    said = {(w.where, w.hint) for w in read.warnings if w.code == "group-old-name"}
    assert said == {
        (f"{path}:1", "write kube_control_plane in place of kube-master, in group_vars too"),
        (f"{path}:3", "write kube_node in place of kube-node, in group_vars too"),
        (f"{path}:7", "write k8s_cluster in place of k8s-cluster, in group_vars too"),
    }


_PARTS = (
    "all", "hosts", "children", "vars", "kube_node", "kube-master", "etcd", "node1", "n[1:3]", ": ", ":\n",
    "\n", "  ", "    ", "{", "}", "[", "]", ",", "- ", "~", "'", '"', "&a ", "*a", "<<", "#", "\t", "3136",
    "!vault |\n", "$ANSIBLE_VAULT;1.1;AES256\n", "!unsafe ", "kube_version", "kubelet_max_pods", "ip",
    "upstream_dns_servers", "yes", "0777", "1:20", "2020-01-31", "{{ x }}", "ansible_group_priority",
    "\ufeff", "é", "\x85", "\u2028", "\x7f",
)  # fmt: skip
_FILES = (
    "hosts.yaml",
    "hosts.ini",
    "hosts",
    "group_vars/all.yml",
    "group_vars/kube_node",
    "host_vars/node1.json",
)


@given(
    st.dictionaries(
        st.sampled_from(_FILES),
        st.binary(max_size=40)
        | st.lists(st.sampled_from(_PARTS), max_size=20).map(lambda p: "".join(p).encode()),
        max_size=3,
    )
)
def test_no_declaration_fails_otherwise_than_with_an_error(texts: dict[str, bytes]) -> None:
    """Whatever stands in the files of an inventory, it is read or refused with a code, a place and a step."""
    good = b"all: {children: {kube_control_plane: {hosts: {node1: {ip: 10.0.0.1}}}}}\n"
    with TemporaryDirectory() as place:
        for name, data in {"good.yaml": good, **texts}.items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        error = _error_of(place)
        assert error is None or all((error.code, error.where, error.hint))


def _error_of(place: str) -> NidomeError | None:
    try:
        load([place, "node1,"], vault=make_vault((), (), ask=False))
    except NidomeError as error:
        return error
    return None
