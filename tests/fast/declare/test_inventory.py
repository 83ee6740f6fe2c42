from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare.inventory import read_inventory
from nidome.errors import DeclarationError

Make = Callable[[Mapping[str, str]], Path]

# The name of the file, its text, and the error: code and line.
_BAD = {
    "no host": ("hosts.yaml", "all: {children: {kube_node: }}\n", "inventory-empty", 0),
    "empty": ("hosts.yaml", "", "inventory-shape", 1),
    "a list": ("hosts.yaml", "- node1\n", "inventory-shape", 1),
    "a group that is a list": ("hosts.yaml", "all:\n  hosts: [node1]\n", "inventory-shape", 2),
    "a host that is a list": ("hosts.yaml", "all:\n  hosts:\n    n1: [x]\n", "inventory-shape", 3),
    "a misspelt section": ("hosts.yaml", "all:\n  host: {n1: }\n", "inventory-shape", 2),
    "a number as a host": ("hosts.yaml", "all:\n  hosts:\n    1: {}\n", "host-name", 3),
    "a slash in a host": ("hosts.yaml", "all: {hosts: {../x: }}\n", "host-name", 1),
    "a slash in a group": ("hosts.yaml", "../x: {hosts: {n1: }}\n", "group-name", 1),
    "an endless range": ("hosts.yaml", "all: {hosts: {'n[1:999999999]': }}\n", "host-range", 1),
    "ranges that multiply": ("hosts.yaml", f"all: {{hosts: {{'n{'[1:99]' * 9}': }}}}\n", "host-range", 1),
    "a backward range": ("hosts.yaml", "all: {hosts: {'n[3:1]': }}\n", "host-range", 1),
    "uneven padding": ("hosts.yaml", "all: {hosts: {'n[01:100]': }}\n", "host-range", 1),
    "a step of zero": ("hosts.yaml", "all: {hosts: {'n[1:3:0]': }}\n", "host-range", 1),
    "a cycle": ("hosts.yaml", "a:\n  children:\n    b:\n      children:\n        a:\n", "group-cycle", 3),
    "all inside a group": ("hosts.yaml", "a: {children: {all: {hosts: {n1: }}}}\n", "group-cycle", 1),
    "a host named as a group": ("hosts.yaml", "etcd: {hosts: {etcd: }}\n", "host-is-group", 1),
    "a variable that is no text": (
        "hosts.yaml",
        "all:\n  hosts:\n    n1:\n      on: 1\n",
        "variable-name",
        4,
    ),
    "a priority that is no number": (
        "hosts.yaml",
        "a:\n  hosts: {n1: }\n  vars:\n    ansible_group_priority: high\n",
        "variable-type",
        4,
    ),
    "a plugin": ("hosts.yaml", "plugin: aws_ec2\n", "inventory-kind", 1),
    "a script": ("hosts", "#!/bin/sh\necho {}\n", "inventory-kind", 1),
    "toml": ("hosts.toml", "[all]\n", "inventory-kind", 0),
    "ini: an unknown section": ("i.ini", "[a:host]\n", "ini-syntax", 1),
    "ini: a broken section": ("i.ini", "[a b]\n", "ini-syntax", 1),
    "ini: no equals": ("i.ini", "[a]\nn1 x\n", "ini-syntax", 2),
    "ini: an open quote": ("i.ini", "[a]\nn1 x='y\n", "ini-syntax", 2),
    "ini: variables of no group": ("i.ini", "n1\n[a:vars]\nx=1\n", "ini-syntax", 2),
    "ini: a child that is no group": ("i.ini", "n1\n[a:children]\nb\n", "ini-syntax", 3),
    "ini: a cycle": ("i.ini", "n1\n[a:children]\nb\n[b:children]\na\n", "group-cycle", 5),
    "ini: a deep literal": ("i.ini", "n1 x=" + "[" * 300 + "\n", "ini-syntax", 1),
}


@pytest.mark.parametrize("case", _BAD)
def test_a_bad_inventory_is_an_error_with_its_line(case: str, tmp_path: Path) -> None:
    """Each way of writing an inventory wrongly is an error of its own, with file and line."""
    name, text, code, line = _BAD[case]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(path)
    assert caught.value.code == code
    assert caught.value.where == (f"{path}:{line}" if line else str(path))


@pytest.mark.parametrize("name", ["none", "none/hosts.yaml", "nul\0"])
def test_an_inventory_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    """A path that leads nowhere is an error that says so."""
    with pytest.raises(DeclarationError) as caught:
        read_inventory(tmp_path / name)
    assert caught.value.code == "file-unreadable"


def test_a_variable_knows_its_layer_file_and_line(inventory: Make) -> None:
    """Each value carries the layer that won, with file and line, and the layers it beat are still there."""
    root = inventory(
        {
            "group_vars/all/containerd.yml": "---\nx: 1\n",
            "group_vars/kube_node.yml": "x: 2\n",
            "host_vars/node1.yml": "\nx: 3\n",
        }
    )
    read = read_inventory(root, extra_vars={"y": "4"})
    winner = read.variables("node1")["x"].origin
    assert (winner.layer, winner.file, winner.line) == (
        "host_vars/node1.yml",
        str(root / "host_vars/node1.yml"),
        2,
    )
    said = [
        (layer.name, layer.entries["x"].node.value) for layer in read.layers("node1") if "x" in layer.entries
    ]
    assert said == [
        ("group_vars/all/containerd.yml", 1),
        ("group_vars/kube_node.yml", 2),
        ("host_vars/node1.yml", 3),
    ]
    assert str(read.variables("node1")["y"].origin) == "command line"


def test_extra_variables_win(inventory: Make) -> None:
    """A variable of the command line beats every file."""
    root = inventory({"host_vars/node1.yml": "x: 3\n"})
    assert read_inventory(root, extra_vars={"x": 5}).variables("node1")["x"].node.value == 5


def test_k8s_cluster_is_derived_where_it_is_not_written(inventory: Make) -> None:
    """Control-plane and worker hosts are in k8s_cluster, and have its group_vars, though it isn't written."""
    root = inventory({"group_vars/k8s_cluster/x.yml": "x: 1\n"})
    read = read_inventory(root)
    assert read.groups["k8s_cluster"] == ("node1",)
    assert read.variables("node1")["x"].node.value == 1


def test_files_that_are_not_read_are_named(inventory: Make) -> None:
    """A file of group_vars that belongs to no group, or that a directory hides, is a warning."""
    root = inventory(
        {
            "group_vars/all/a.yml": "x: 1\n",
            "group_vars/all.yml": "x: 2\n",
            "group_vars/kube_nodes.yml": "x: 3\n",
            "host_vars/node2.yml": "x: 4\n",
        }
    )
    read = read_inventory(root)
    places = [Path(warning.where).relative_to(root).as_posix() for warning in read.warnings]
    assert places == ["group_vars/all.yml", "group_vars/kube_nodes.yml", "host_vars/node2.yml"]
    assert {warning.code for warning in read.warnings} == {"file-not-read"}


def test_a_link_to_a_parent_directory_is_an_error(inventory: Make) -> None:
    """Directories of variables that contain themselves end in an error, not in an endless search."""
    root = inventory({"group_vars/all/a.yml": "x: 1\n"})
    (root / "group_vars/all/loop").symlink_to(root / "group_vars/all")
    with pytest.raises(DeclarationError):
        read_inventory(root)


_INIISH = st.lists(
    st.sampled_from(
        [
            "[",
            "]",
            "all",
            "g",
            "h",
            "n[1:3]",
            ":vars",
            ":children",
            "\n",
            " ",
            "x=1",
            "=",
            "'",
            '"',
            "#",
            ";",
            "[g]\n",
            "[h:children]\n",
            "[g:vars]\n",
            "{",
            "(",
            "-",
            "None",
            "set()",
            "{[]}",
            "b'x'",
            "...",
            "1j",
            ":22",
            "é",
            "\0",
            "\\",
        ]
    ),
    max_size=20,
).map("".join)
_YAMLISH = st.lists(
    st.sampled_from(
        [
            "all",
            "g",
            "h",
            ": ",
            ":\n",
            "\n",
            "  ",
            "    ",
            "hosts",
            "children",
            "vars",
            "n[1:3]",
            "{",
            "}",
            "[",
            "]",
            ",",
            "- ",
            "1",
            "x",
            "~",
            "'",
            "plugin",
            "ansible_group_priority",
            "&a ",
            "*a",
            "<<",
        ]
    ),
    max_size=25,
).map("".join)


@given(name=st.sampled_from(["hosts.yaml", "hosts.ini", "hosts"]), text=st.text() | _INIISH | _YAMLISH)
def test_no_text_makes_an_inventory_fail_otherwise_than_with_an_error(name: str, text: str) -> None:
    """Any text as an inventory is either read or refused with a DeclarationError."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        where = str(path)
        try:
            read = read_inventory(path)
            assert all(read.layers(host) or not read.variables(host) for host in read.hosts)
        except DeclarationError as error:
            where = error.where
        assert where.startswith(str(path))


def test_every_code_of_a_declaration_is_in_the_documentation() -> None:
    """docs/inventory.md names each error and warning that reading a declaration can end in."""
    root = Path(__file__).parents[3]
    sources = [path for part in ("declare", "model") for path in (root / "src/nidome" / part).glob("*.py")]
    raised = r"(?:fail|_fail|DeclarationError|DeclarationWarning)\(\s*\"([a-z0-9]+(?:-[a-z0-9]+)+)\""
    codes = {code for path in sources for code in re.findall(raised, path.read_text())}
    text = (root / "docs/inventory.md").read_text()
    assert {code for code in codes if f"`{code}`" not in text} == set()
    assert len(codes) > 40


def test_a_section_without_its_end(tmp_path: Path) -> None:
    """A section of an INI inventory that lacks its ] is told as that."""
    file = tmp_path / "inventory.ini"
    file.write_text("[kube_control_plane\nnode1\n", encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        read_inventory(file)
    assert (caught.value.code, caught.value.where) == ("ini-syntax", f"{file}:1")
    assert "has no ]" in caught.value.message
