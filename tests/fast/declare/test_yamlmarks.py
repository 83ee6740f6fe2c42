from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare import yamlmarks
from nidome.declare.yamlmarks import Node, parse_yaml, read_yaml
from nidome.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

_BAD = {
    "a: 1\nb: 2\na: 3\n": ("yaml-duplicate-key", 3),
    "a:\n\t- b\n": ("yaml-tab", 2),
    "a: [1, 2\n": ("yaml-syntax", 1),
    "a: 'open\n": ("yaml-syntax", 1),
    "{": ("yaml-syntax", 1),
    "a: 1\n b: 2\n": ("yaml-syntax", 2),
    "a: &x [*x]\n": ("yaml-recursion", 1),
    "a: &x {b: *x}\n": ("yaml-recursion", 1),
    "a: *nowhere\n": ("yaml-alias", 1),
    "a: 1\nb: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n": ("vault-damaged", 2),
    "a: !vault 5\n": ("vault-damaged", 1),
    "x: 1\na: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  330a330a33\n": ("vault-damaged", 2),
    "- [" + "1," * 600_000 + "]\n": ("yaml-size", 1),
    "a: !mine 1\n": ("yaml-tag", 1),
    "a: !!python/object:os.system x\n": ("yaml-tag", 1),
    "a: !!binary aGk=\n": ("yaml-tag", 1),
    "a: 1\n---\nb: 2\n": ("yaml-documents", 2),
    "? [a]\n: 1\n": ("yaml-key", 1),
    "a: {{ b }}\n": ("yaml-key", 1),
    "a: 2020-99-99\n": ("yaml-value", 1),
    "a: 0x_\n": ("yaml-value", 1),
    "x: &x [1]\ny:\n  <<: *x\n": ("yaml-merge", 3),
    "a: 1\nb: \x01\n": ("yaml-syntax", 2),
    "a: \ud800\n": ("not-utf8", 1),
    "[" * 65 + "]" * 65: ("yaml-depth", 1),
    "[" * 100_000: ("yaml-syntax", 1),
    "[\n" * 100_000: ("yaml-depth", 65),
    "a: !!int ''\n": ("yaml-value", 1),
    "a: !!float\n": ("yaml-value", 1),
    "- " * 100_000: ("yaml-depth", 1),
    "a: " + "9" * 5000: ("yaml-value", 1),
    "%YAML 9.9\n---\na: 1\n": ("yaml-syntax", 1),
}


@pytest.mark.parametrize("text", _BAD, ids=lambda text: repr(text[:30]))
def test_bad_yaml_is_an_error_with_its_line(text: str) -> None:
    """What Ansible and a person could read differently, or cannot read, is refused with file and line."""
    code, line = _BAD[text]
    with pytest.raises(DeclarationError) as caught:
        parse_yaml(text, "vars.yml")
    assert (caught.value.code, caught.value.where) == (code, f"vars.yml:{line}")


def test_keys_that_are_equal_without_looking_so() -> None:
    """Of two keys that are one for Python, such as 1 and true, both are named."""
    with pytest.raises(DeclarationError, match="the key 'True' is the same as 1, at line 1"):
        parse_yaml("1: a\ntrue: b\n", "vars.yml")


def test_every_key_and_value_keeps_its_place() -> None:
    """Each key and value knows the line and column it was written at, inside lists and mappings too."""
    root = parse_yaml("a: 1\nb:\n  - x\n  - c: yes\n", "f.yml")
    assert (root.fields["a"].line, root.fields["a"].node.column) == (1, 4)
    inner = root.fields["b"].node.items[1].fields["c"]
    assert (inner.line, inner.column, inner.node.line, inner.node.column) == (4, 5, 4, 8)
    assert inner.node.value is True
    assert inner.node.where == "f.yml:4"


def test_values_are_yaml_1_1() -> None:
    """Scalars are read by YAML 1.1's rules, as Ansible does."""
    text = "[yes, Off, ~, 0777, 1:20, 1_000, 0x1F, 1e3, 1.5e+3, '5', 0o7, .inf]"
    expected = [True, False, None, 511, 80, 1000, 31, "1e3", 1500.0, "5", "0o7", float("inf")]
    assert parse_yaml(text, "f").value == expected


def test_merged_keys_keep_the_place_of_the_anchor() -> None:
    """A key that comes in by << is overridden by one written beside it, and points to its own place."""
    root = parse_yaml("x: &x\n  p: 1\n  q: 2\ny:\n  <<: *x\n  q: 3\n", "f")
    assert root.value["y"] == {"p": 1, "q": 3}
    assert [root.fields["y"].node.fields[key].line for key in "pq"] == [2, 6]


def test_aliases_cannot_make_a_small_file_huge() -> None:
    """A file whose aliases expand to more than 250,000 values is refused."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DeclarationError) as caught:
        parse_yaml("\n".join(lines), "f")
    assert caught.value.code == "yaml-size"


def test_a_file_that_is_too_large_or_not_text_is_refused(tmp_path: Path) -> None:
    """A huge file, one that is not UTF-8 and one that is not there are errors with the file's name."""
    large, latin = tmp_path / "large.yml", tmp_path / "latin.yml"
    large.write_bytes(b"#" * (yamlmarks.MAX_BYTES + 1))
    latin.write_bytes(b"a: 1\nb: caf\xe9\n")
    expected = {large: "file-too-large", latin: "not-utf8", tmp_path / "none.yml": "file-unreadable"}
    for path, code in expected.items():
        with pytest.raises(DeclarationError) as caught:
            read_yaml(path)
        assert caught.value.code == code
        assert caught.value.where == (f"{path}:2" if path == latin else str(path))


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """A file that an editor began with a byte order mark reads like any other."""
    path = tmp_path / "bom.yml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).value == {"a": 1}


def test_the_parser_without_libyaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML has no C parser, values, places and errors are the same."""
    text = "a: &a {b: [1, yes]}\nc: *a\n"
    with_c = parse_yaml(text, "f")
    monkeypatch.setattr(yamlmarks, "_Loader", yaml.SafeLoader)
    assert parse_yaml(text, "f") == with_c
    for bad, (code, _line) in _BAD.items():
        with pytest.raises(DeclarationError) as caught:
            parse_yaml(bad, "f")
        # The two scanners refuse some texts at different moments.
        assert caught.value.code in {code, "yaml-syntax", "yaml-depth"}


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(_TREES)
def test_whatever_yaml_writes_is_read_back(tree: Any) -> None:
    """Each tree of plain values survives being written as YAML and read."""
    assert parse_yaml(yaml.safe_dump(tree), "f").value == tree


@given(_TREES)
def test_the_tree_with_places_holds_the_same_values(tree: Any) -> None:
    """The plain value of a node and its fields and items with places never differ."""
    assert _plain(parse_yaml(yaml.safe_dump(tree), "f")) == tree


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(field.node) for key, field in node.fields.items()}
    return [_plain(item) for item in node.items] if isinstance(node.value, list) else node.value


_YAMLISH = st.lists(
    st.sampled_from(
        [
            "a",
            "b: ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "? ",
            "&x ",
            "*x",
            "<<: ",
            "!t ",
            "!!int ",
            "'",
            '"',
            "|\n",
            "---\n",
            "...\n",
            "#",
            "%",
            "0x",
            "1:2",
            "2020-13-01",
            "=",
            "~",
            "\t",
            "\\",
            "é",
            "\x00",
        ]
    ),
    max_size=25,
).map("".join)


@given(st.text() | _YAMLISH)
def test_no_text_makes_the_reader_fail_otherwise_than_with_an_error(text: str) -> None:
    """Any text is either read or refused with a DeclarationError that has a place."""
    try:
        where = parse_yaml(text, "f.yml").where
    except DeclarationError as error:
        where = error.where
    assert where.startswith("f.yml")


@given(_YAMLISH)
def test_what_pyyaml_reads_is_read_the_same(text: str) -> None:
    """Where a text is accepted, PyYAML's own safe loader (the one Ansible uses) gives the same value."""
    try:
        ours = parse_yaml(text, "f.yml").value
    except DeclarationError:
        return
    assert ours == yaml.load(text, yaml.CSafeLoader)
