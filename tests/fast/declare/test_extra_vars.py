"""Values given on the command line, of every type."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare.extravars import read_extra_vars, without_values
from nidome.declare.resolve import load
from nidome.errors import DeclarationError, NidomeError

if TYPE_CHECKING:
    from pathlib import Path

_HOSTS = """\
all:
  hosts: {node1: {ansible_host: 192.168.50.5}}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: }}
    etcd: {hosts: {node1: }}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of one host."""
    (tmp_path / "hosts.yaml").write_text(_HOSTS)
    return tmp_path


def test_lists_and_mappings(inventory: Path) -> None:
    """A list and a mapping given on the command line arrive whole."""
    extra = {
        "supplementary_addresses_in_ssl_keys": ["a.b", "192.0.2.7"],
        "eviction_hard": {"memory.available": "50Mi"},
    }
    spec, _ = load(inventory, extra_vars=extra)
    assert spec.supplementary_addresses_in_ssl_keys.value == ("a.b", "192.0.2.7")
    assert dict(spec.eviction_hard.value) == {"memory.available": "50Mi"}
    assert spec.eviction_hard.origin.layer == "command line"


def test_wrong_item(inventory: Path) -> None:
    """A list with an item of the wrong type is refused, not shortened."""
    with pytest.raises(DeclarationError, match="supplementary_addresses_in_ssl_keys"):
        load(inventory, extra_vars={"supplementary_addresses_in_ssl_keys": ["a.b", {"c": 1}]})


_FORMS: dict[str, dict[str, Any]] = {
    "a=1": {"a": "1"},
    "a=1 b=two": {"a": "1", "b": "two"},
    "a='x y' b=\"p q\"": {"a": "x y", "b": "p q"},
    "a={{ b | default('c d') }} e=f": {"a": "{{ b | default('c d') }}", "e": "f"},
    "a= b=": {"a": "", "b": ""},
    "a=b=c": {"a": "b=c"},
    r"a=x\ty": {"a": "x\ty"},
    r"a='it\'s'": {"a": "it's"},
    "a=yes": {"a": "yes"},
    "a=0777": {"a": "0777"},
    "a='[1, 2]'": {"a": "[1, 2]"},
    " a=1  b=2 ": {"a": "1", "b": "2"},
    "a=1 a=2": {"a": "2"},
}


@pytest.mark.parametrize("text", _FORMS)
def test_pairs_are_split_as_ansible_splits_them(text: str) -> None:
    """NAME=VALUE pairs of one argument are texts, quoted and escaped as ansible-playbook reads them."""
    splitter = importlib.import_module("ansible.parsing.splitter")
    assert splitter.parse_kv(text) == _FORMS[text]
    found = read_extra_vars([text])
    assert {name: entry.node.value for name, entry in found.items()} == _FORMS[text]
    assert all(entry.node.untyped and str(entry.origin) == "command line" for entry in found.values())


def test_a_list_or_mapping_may_hold_spaces() -> None:
    """A value that begins with a bracket goes on to the end of the bracket, unlike in Ansible."""
    found = read_extra_vars(['a=[x, y] b={"k": "v w"} c=1'])
    assert {n: e.node.value for n, e in found.items()} == {"a": "[x, y]", "b": '{"k": "v w"}', "c": "1"}


def test_texts_are_read_by_the_type_of_their_variable(inventory: Path) -> None:
    """A list, a mapping, a number and a switch of the command line arrive with their type."""
    pairs = [
        "upstream_dns_servers=[9.9.9.9, 1.1.1.1] eviction_hard={memory.available: 5%}",
        "kubelet_max_pods=050 helm_enabled=yes",
    ]
    spec, _ = load(inventory, extra_vars=read_extra_vars(pairs))
    assert spec.upstream_dns_servers.value == ("9.9.9.9", "1.1.1.1")
    assert dict(spec.eviction_hard.value) == {"memory.available": "5%"}
    assert (spec.kubelet_max_pods.value, spec.helm_enabled.value) == (50, True)


def test_mappings_and_files_in_order(tmp_path: Path) -> None:
    """Mappings and files of -e have typed values, know their lines, and the later one wins."""
    (tmp_path / "a.yml").write_text("---\nx: 1\ny: yes\nz:\n  - a\n")
    (tmp_path / "b.json").write_text('{"y": [1, {"k": null}]}\n')
    (tmp_path / "empty.yml").write_text("---\n")
    given = [
        "x=first",
        f"@{tmp_path}/a.yml",
        f"@{tmp_path}/b.json",
        "{w: no, v: 010}",
        f"@{tmp_path}/empty.yml",
    ]
    found = read_extra_vars(given)
    assert {name: entry.node.value for name, entry in found.items()} == {
        "x": 1, "y": [1, {"k": None}], "z": ["a"], "w": False, "v": 8,
    }  # fmt: skip
    places = {name: str(entry.origin) for name, entry in found.items()}
    assert places == {
        "x": f"{tmp_path}/a.yml:2", "y": f"{tmp_path}/b.json:1", "z": f"{tmp_path}/a.yml:4",
        "w": "command line", "v": "command line",
    }  # fmt: skip
    assert {entry.origin.layer for entry in found.values()} == {"command line"}


_REFUSED = {
    "": "extra-vars",
    "hunter2": "extra-vars",
    "a=1 hunter2": "extra-vars",
    "=hunter2": "extra-vars",
    "a='hunter2": "extra-vars",
    "a=[hunter2": "extra-vars",
    "/etc/hunter2": "extra-vars",
    "./hunter2": "extra-vars",
    "@": "extra-vars",
    "[hunter2]": "extra-vars",
    "{1: hunter2}": "extra-vars",
    "{a: hunter2": "yaml-syntax",
    "{a: 1, a: 2}": "yaml-duplicate-key",
    "@/nowhere/vars.yml": "file-unreadable",
    "@/dev/null": "file-irregular",
    "@/": "file-irregular",
    "@nul\0": "file-unreadable",
}


@pytest.mark.parametrize("text", _REFUSED)
def test_what_is_no_variable_is_refused(text: str) -> None:
    """Each wrong form of -e is an error with a next step, and none shows what may be a password."""
    with pytest.raises(NidomeError) as caught:
        read_extra_vars([text])
    assert caught.value.code == _REFUSED[text]
    assert caught.value.where
    assert caught.value.hint
    assert "hunter2" not in caught.value.message


@given(st.lists(st.text() | st.text("ab=' \"[]{}\\@:,\n", max_size=20), max_size=3))
def test_no_text_makes_it_fail_otherwise(values: list[str]) -> None:
    """Any text after -e is variables or an error, and can be masked."""
    try:
        read_extra_vars([value for value in values if not value.strip().startswith("@")])
    except NidomeError as error:
        values = [*values, error.render()]
    without_values(["nidome", *(word for value in values for word in ("-e", value))])


_COMMANDS = {
    ("-e", "a=hunter2"): ("-e", "a=***"),
    ("-e", "a=hunter2 b='hunter2 c'"): ("-e", "a=*** b=***"),
    ("-ea=hunter2",): ("-ea=***",),
    ("-e=a=hunter2",): ("-e=a=***",),
    ("-ve", "a=hunter2"): ("-ve", "a=***"),
    ("--extra-vars", "a=hunter2"): ("--extra-vars", "a=***"),
    ("--extra-vars=a=hunter2",): ("--extra-vars=a=***",),
    ("--ex", "a=hunter2"): ("--ex", "a=***"),
    ("--ex=a=hunter2",): ("--ex=a=***",),
    ("-e", "{'a': 'hunter2'}"): ("-e", "***"),
    ("-e", '{"a": "hunter2"} '): ("-e", "***"),
    ("-e", "@secrets.yml", "-v"): ("-e", "@secrets.yml", "-v"),
    ("-e@secrets.yml",): ("-e@secrets.yml",),
    ("-e", "a='hunter2 b"): ("-e", "a=***"),
    ("-e", "hunter2"): ("-e", "***"),
    ("-e", "a=hunter2 hunter3"): ("-e", "a=***"),
    ("-e", "-e", "-e", "a=hunter2"): ("-e", "***", "-e", "a=***"),
    ("-i", "a=b", "--limit=node1", "-t", "etcd"): ("-i", "a=b", "--limit=node1", "-t", "etcd"),
}


@pytest.mark.parametrize("words", _COMMANDS, ids=" ".join)
def test_records_hold_no_value_of_the_command_line(words: tuple[str, ...]) -> None:
    """However -e is written, its names and files are kept and its values are not."""
    assert without_values(words) == _COMMANDS[words]
