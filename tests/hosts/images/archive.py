"""Packs a static binary as an image archive in the form of ``docker save``, as a user would bring one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

__all__ = ["build_probe"]


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))


def build_probe(directory: Path, reference: str) -> Path:
    """Build the probe with Go and return its archive."""
    binary = directory / "probe"
    environment = {**os.environ, "CGO_ENABLED": "0"}
    source = Path(__file__).parent / "probe"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(binary), "."], cwd=source, env=environment, check=True
    )
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, "probe", binary.read_bytes(), 0o755)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "os": "linux",
        "config": {"Entrypoint": ["/probe"], "Cmd": ["serve"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    path = directory / "probe.tar"
    with tarfile.open(path, "w") as tar:
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "layer.tar", layer.getvalue())
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return path
