"""How a connection to an agent fails before it is one: on this machine, without any host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nidome.engine.transport import AgentConnection
from nidome.errors import TransportError
from nidome.provenance import DEFAULT, Sourced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nidome.model.spec import ClusterSpec


def _failure(spec: ClusterSpec, python: str) -> TransportError:
    host = replace(spec.hosts[0], connection=Sourced("local", DEFAULT), python=Sourced(python, DEFAULT))
    with pytest.raises(TransportError) as caught:
        AgentConnection(host)
    return caught.value


def test_an_interpreter_that_is_no_python_is_named(declared: Callable[..., ClusterSpec]) -> None:
    """An interpreter that ends without a word is told with its exit status and the variable that names it."""
    error = _failure(declared(), "/bin/false")
    assert (error.code, error.message, error.where) == ("agent-failed", "exit status 1", "node1")
    assert "ansible_python_interpreter (/bin/false)" in error.hint


def test_an_interpreter_that_cannot_be_run_is_named(
    declared: Callable[..., ClusterSpec], tmp_path: Path
) -> None:
    """A program that is missing or must not be run is told with the reason, not as a fault of the disk."""
    (tmp_path / "python").write_text("")
    for name, reason in (("python", "Permission denied"), ("none", "No such file or directory")):
        error = _failure(declared(), str(tmp_path / name))
        assert (error.code, error.hint) == ("program-missing", "set ansible_python_interpreter")
        assert error.message.endswith(f"cannot be run on this machine: {reason}")
