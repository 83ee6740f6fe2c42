from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.roles.arguments import command
from nidome.roles.kubeconfigs import kubeconfig_text
from nidome.roles.units import Service

WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("arguments", "extra", "words"),
    [
        ({}, {}, []),
        (
            {"v": 2, "profiling": False, "x": None, "list": ("a", "b")},
            {},
            ["--v=2", "--profiling=false", "--list=a,b"],
        ),
        ({"v": 2}, {"v": "5"}, ["--v=5"]),
        ({"v": 2}, {"new": "x"}, ["--v=2", "--new=x"]),
        ({"empty": ""}, {}, ["--empty="]),
    ],
)
def test_arguments_become_words(arguments: dict[str, Any], extra: dict[str, str], words: list[str]) -> None:
    """Arguments are written as --name=value; a declared extra one wins, and None leaves one out."""
    assert command("/bin/x", arguments, extra) == ["/bin/x", *words]


def _systemd_reads(text: str) -> list[str]:
    """Return the words that systemd makes of an ExecStart= line: escapes and specifiers undone."""
    line = text[text.index("ExecStart=") + 10 :].split("\nRestart=", maxsplit=1)[0].replace(" \\\n  ", " ")
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


@pytest.mark.parametrize(
    ("word", "line"), [("a\nExecStart=/bin/evil", '"a\\nExecStart=/bin/evil"'), ("", '""')]
)
def test_no_word_breaks_out_of_its_line(word: str, line: str) -> None:
    """A line break in an argument stays within it, and an empty argument stays one."""
    text = Service("x", "x", ["/bin/x", word], ()).unit({"systemd": 252}).text
    assert text.count("\nExecStart=") == 1
    assert line in text


@given(st.lists(WORDS.filter(lambda w: w.strip() == w), max_size=6))
def test_any_word_reaches_the_process(words: list[str]) -> None:
    """Whatever characters an argument has, quotes and percents too, the process gets it as declared."""
    unit = Service("x", "x", ["/bin/x", *words], ()).unit({"systemd": 252})
    assert _systemd_reads(unit.text) == ["/bin/x", *words]


def test_kubeconfigs_refer_to_files() -> None:
    """A kubeconfig names its certificates by path: a renewed certificate needs no new kubeconfig."""
    yaml = pytest.importorskip("yaml")
    text = kubeconfig_text("https://10.0.0.1:6443", "/pki/ca.crt", "system:node:n", {"client-key": "/pki/k"})
    config = yaml.safe_load(text)
    assert config["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority": "/pki/ca.crt",
    }
    assert config["users"] == [{"name": "system:node:n", "user": {"client-key": "/pki/k"}}]
    assert config["current-context"] == "default"
