"""Programs as inventories: what goes wrong. What goes right is compared with ansible-inventory's reading."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.declare.dynamic import read_dynamic
from nidome.declare.groups import InventoryDraft
from nidome.declare.inventory import read_inventory
from nidome.declare.vault import NO_VAULT
from nidome.errors import DeclarationError, UsageError


def _program(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "inventory"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _prints(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND"


_BAD = {
    "it fails": ("echo 'no such region' >&2; exit 4", "program-failed", "ended with 4: no such region"),
    "it is killed": ("kill -9 $$", "program-failed", "ended with -9"),
    "it prints nothing": ("", "inventory-output", "--list is not JSON"),
    "no JSON": ("echo nonsense", "inventory-output", "--list is not JSON"),
    "a list": ("echo '[1]'", "inventory-output", "--list must be a mapping"),
    "not UTF-8": (r"printf '{\"g\": [\"\351\"]}'", "inventory-output", "not UTF-8"),
    "deep JSON": (_prints('{"g": ' + "[" * 5000), "inventory-output", "not JSON"),
    "a deep value": (_prints('{"g": {"vars": {"x": ' + "[" * 80 + "]" * 80 + "}}}"), "yaml-depth", "64"),
    "a surrogate": (_prints(r'{"g": {"hosts": ["h"], "vars": {"x": "\ud800"}}}'), "not-utf8", "UTF-8"),
    "too much": ("yes '                                                  '", "program-output", "8 MiB"),
    "hosts are no list": ("""echo '{"g": {"hosts": "h1"}}'""", "inventory-output", "hosts of 'g' must be"),
    "a number as a host": ("""echo '{"g": [1]}'""", "inventory-output", "hosts of 'g' must be"),
    "a bad host": ("""echo '{"g": ["../h"]}'""", "host-name", "../h"),
    "a bad group": ("""echo '{"../g": ["h"]}'""", "group-name", "../g"),
    "vars are a list": ("""echo '{"g": {"vars": [1]}}'""", "inventory-output", "vars of 'g' must be"),
    "children are a text": ("""echo '{"g": {"children": "x"}}'""", "inventory-output", "children of 'g'"),
    "a cycle": (
        """echo '{"a": {"children": ["b"]}, "b": {"children": ["a"]}}'""",
        "group-cycle",
        "inside itself",
    ),
    "hostvars are a list": ("""echo '{"_meta": {"hostvars": []}}'""", "inventory-output", "_meta.hostvars"),
    "_meta is a list": ("""echo '{"_meta": []}'""", "inventory-output", "_meta must be"),
    "no hosts": ("""echo '{"_meta": {"hostvars": {}}}'""", "inventory-empty", "no host"),
    "--host fails": ("""test $1 = --list && echo '{"g": ["h1"]}'""", "program-failed", "ended with 1"),
    "--host prints a list": (
        """test $1 = --list && echo '{"g": ["h1"]}' || echo '[]'""",
        "inventory-output",
        "--host h1 must be a mapping",
    ),
}


@pytest.mark.parametrize("case", _BAD)
def test_what_a_program_does_wrong_is_an_error_with_its_name(case: str, tmp_path: Path) -> None:
    """Each way in which a dynamic inventory can fail is an error that names the program and the reason."""
    body, code, said = _BAD[case]
    path = _program(tmp_path, body)
    with pytest.raises(DeclarationError) as caught:
        read_inventory(path)
    assert (caught.value.code, caught.value.where) == (code, str(path))
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "body", ["sleep 600", "sleep 600 & sleep 600", "trap '' TERM; sleep 600", "exec >&- 2>&-; sleep 600"]
)
def test_a_program_that_hangs_is_ended(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not end, or keeps its output open, is ended with all that it started."""
    monkeypatch.setenv("NIDOME_PROGRAM_TIMEOUT", "0.3")
    path = _program(tmp_path, f"echo $$ > {tmp_path}/pid\n{body}")
    with pytest.raises(DeclarationError) as caught:
        read_inventory(path)
    assert caught.value.code == "program-timeout"
    group = (tmp_path / "pid").read_text().strip()
    assert _gone(group)


def _gone(group: str) -> bool:
    """Wait until no living process has the group; a zombie that nobody has reaped yet is not living."""
    for _ in range(100):
        states = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[2] == group and fields[0] != "Z":
                states.append(stat)
        if not states:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("value", ["0", "-1", "soon", "inf", "nan"])
def test_a_spoilt_time_limit_is_bad_usage(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NIDOME_PROGRAM_TIMEOUT that is no number of seconds is refused before the program runs."""
    monkeypatch.setenv("NIDOME_PROGRAM_TIMEOUT", value)
    with pytest.raises(UsageError) as caught:
        read_inventory(_program(tmp_path, f"touch {tmp_path}/ran"))
    assert caught.value.code == "program-timeout-invalid"
    assert not (tmp_path / "ran").exists()


def test_a_text_file_that_is_marked_executable_is_read(tmp_path: Path) -> None:
    """Where every file is marked executable, as on some file systems, inventories are still read as text."""
    path = tmp_path / "hosts.yaml"
    path.write_text("g: {hosts: {h1: }}\n")
    path.chmod(0o755)
    assert read_inventory(path).hosts == ("h1",)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["hosts", "vars", "children", "_meta", "hostvars", "g", "h"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(
    answer=st.dictionaries(st.sampled_from(["_meta", "g", "h", "all", "ungrouped", "é"]), _JSON, max_size=4)
)
def test_no_answer_makes_reading_fail_otherwise(answer: object) -> None:
    """Whatever JSON a program prints is read, or refused as an error of the declaration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nidome.declare.dynamic.run_program", lambda *_: json.dumps(answer).encode())
        draft = InventoryDraft()
        with contextlib.suppress(DeclarationError):
            read_dynamic(Path("program"), draft, NO_VAULT)
            draft.finish()
