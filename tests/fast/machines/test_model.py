from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.errors import UsageError
from nidome.machines.model import no_such_machine, valid_name, valid_os


@pytest.mark.parametrize("name", ["a", "1", "node1", "node-1", "a--b", "x" * 63])
def test_good_names(name: str) -> None:
    """Every RFC 1123 label is a name for a host."""
    assert valid_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a_b", "a.b", "../etc", "a/b", "a b", "x" * 64, "node1\n", "nœud", "_ssh"]
)
def test_bad_names(name: str) -> None:
    """What is no RFC 1123 label is refused before anything is made."""
    with pytest.raises(UsageError) as caught:
        valid_name(name)
    assert caught.value.code == "machine-name-invalid"
    assert caught.value.hint


@given(st.text(max_size=70))
def test_names_are_safe_paths(name: str) -> None:
    """A name that passes is one path component with no meaning to a shell, to mount or to nspawn."""
    with suppress(UsageError):
        assert re.fullmatch(r"[a-z0-9-]{1,63}", valid_name(name))


def test_unknown_release() -> None:
    """A release that hosts can't have is refused with the list of those they can."""
    with pytest.raises(UsageError) as caught:
        valid_os("fedora:40")
    assert caught.value.code == "machine-os-unknown"
    assert "debian:11, debian:12, debian:13" in caught.value.hint


@pytest.mark.parametrize(("known", "hint"), [([], "machines create n1"), (["a", "b"], "a, b")])
def test_missing_host(known: list[str], hint: str) -> None:
    """A host that isn't there is named with those that are, or with the command that makes it."""
    error = no_such_machine("n1", known)
    assert error.code == "machine-not-found"
    assert hint in error.hint
