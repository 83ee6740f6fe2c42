"""Inventories for tests: one host that is everything, with files added by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_HOSTS = """\
all:
  hosts:
    node1: {ansible_host: 192.168.50.5}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: }}
    etcd: {hosts: {node1: }}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Return a function that writes the given files beside a one-host inventory and returns its directory."""

    def make(files: Mapping[str, str]) -> Path:
        for name, text in {"hosts.yaml": _HOSTS, **files}.items():
            path = tmp_path / "lab" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "lab"

    return make
