from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import yaml

from nidome.cli.common import write_file
from nidome.roles.kubeconfigs import embedded_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_complete_in_itself() -> None:
    """The kubeconfig holds the credentials themselves, names the server, and refers to no file."""
    made = yaml.safe_load(embedded_kubeconfig("https://10.0.0.1:6443", "CA\n", "CERT\n", "KEY\n"))
    cluster, user = made["clusters"][0]["cluster"], made["users"][0]["user"]
    assert cluster["server"] == "https://10.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"CA\n"
    assert base64.b64decode(user["client-certificate-data"]) == b"CERT\n"
    assert base64.b64decode(user["client-key-data"]) == b"KEY\n"
    context = made["contexts"][0]
    assert made["current-context"] == context["name"]
    assert context["context"] == {"cluster": made["clusters"][0]["name"], "user": made["users"][0]["name"]}


def test_somebodys_own_file_is_kept(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A kubeconfig that nidome did not write may open other clusters: it is not replaced without --force."""
    own = unreachable.parent / "config"
    own.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    code, _, err = nidome("kubeconfig", "-o", str(own))
    assert code == 1
    assert err.startswith("error[kubeconfig-exists]")
    assert own.read_text(encoding="utf-8") == "apiVersion: v1\nkind: Config\n"


@pytest.mark.parametrize("before", [None, 0o644])
def test_secret_file(before: int | None, tmp_path: Path) -> None:
    """A secret file is the owner's alone, also where it replaces one that everybody could read."""
    path = tmp_path / "config"
    if before is not None:
        path.write_text("old", encoding="utf-8")
        path.chmod(before)
    write_file(path, "new", mode=0o600)
    assert path.read_text(encoding="utf-8") == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
