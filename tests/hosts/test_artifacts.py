"""The real artifacts: each binary says its version, and containerd takes the images."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Artifact, Settings, obtain
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.hosts

# What to call each binary with, and what its answer has in it; {v} is the version of the lock.
VERSION_OUTPUT: dict[str, tuple[tuple[str, ...], str]] = {
    "cni-bridge": ((), "CNI bridge plugin v{v}"),
    "cni-firewall": ((), "CNI firewall plugin v{v}"),
    "cni-host-local": ((), "CNI host-local plugin v{v}"),
    "cni-loopback": ((), "CNI loopback plugin v{v}"),
    "cni-portmap": ((), "CNI portmap plugin v{v}"),
    "containerd": (("--version",), " {v} "),
    "containerd-shim-runc-v2": (("-v",), "Version:  {v}"),
    "coredns": (("-version",), "CoreDNS-{v}"),
    "crictl": (("--version",), "crictl version {v}"),
    "ctr": (("--version",), " {v}"),
    "etcd": (("--version",), "etcd Version: {v}"),
    "etcdctl": (("version",), "etcdctl version: {v}"),
    "etcdutl": (("version",), "etcdutl version: {v}"),
    "helm": (("version", "--short"), "v{v}"),
    "kine": (("--version",), "v{v}"),
    "kube-apiserver": (("--version",), "Kubernetes v{v}"),
    "kube-controller-manager": (("--version",), "Kubernetes v{v}"),
    "kube-proxy": (("--version",), "Kubernetes v{v}"),
    "kube-scheduler": (("--version",), "Kubernetes v{v}"),
    "kubectl": (("version", "--client"), "Client Version: v{v}"),
    "kubelet": (("--version",), "Kubernetes v{v}"),
    "pause": (("--version",), "pause {v}"),
    "runc": (("--version",), "runc version {v}\n"),
}
IMAGES = ("image-coredns", "image-pause")
WAIT_SECONDS = 30


@pytest.fixture(scope="session")
def artifacts() -> dict[str, Artifact]:
    """Return everything that the lock has, from the default cache."""
    return obtain([*VERSION_OUTPUT, *IMAGES], versions={}, settings=Settings(), progress=Progress())


@pytest.fixture(scope="session")
def programs(artifacts: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with every binary under its name, as a host has them."""
    directory = tmp_path_factory.mktemp("bin")
    for name in VERSION_OUTPUT:
        (directory / name).symlink_to(artifacts[name].path)
    return directory


def output(*command: str | Path) -> str:
    """Return what a command says, wherever it says it."""
    result = subprocess.run(
        [str(word) for word in command],
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout


@pytest.mark.parametrize("name", VERSION_OUTPUT)
def test_version(name: str, artifacts: dict[str, Artifact], programs: Path) -> None:
    """Each binary runs here and reports the version that the lock names."""
    arguments, expected = VERSION_OUTPUT[name]
    assert expected.format(v=artifacts[name].version) in output(programs / name, *arguments)


def test_runc_has_seccomp(programs: Path) -> None:
    """Runc was built with libseccomp, which pods with the default seccomp profile need."""
    features = json.loads(output(programs / "runc", "features"))
    assert features["linux"]["seccomp"]["enabled"] is True


@pytest.mark.parametrize("name", ["runc", "kubelet", "containerd", "pause"])
def test_static(name: str, artifacts: dict[str, Artifact]) -> None:
    """Binaries need no library of the host: none names a program interpreter."""
    headers = output("readelf", "--program-headers", artifacts[name].path)
    assert "LOAD" in headers
    assert "INTERP" not in headers


def test_coredns_refuses_a_directive_that_is_not_built_in(programs: Path, tmp_path: Path) -> None:
    """A Corefile with a plugin that this CoreDNS lacks is refused when it is read."""
    corefile = tmp_path / "Corefile"
    corefile.write_text(".:0 {\n  route53\n}\n")
    assert "Unknown directive 'route53'" in output(programs / "coredns", "-conf", corefile)


@pytest.fixture(scope="session")
def containerd(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a containerd of our own in a directory of its own; yield its socket."""
    root = tmp_path_factory.mktemp("containerd")
    config = root / "config.toml"
    config.write_text(
        f"version = 3\nroot = '{root}/root'\nstate = '{root}/state'\n"
        f"[grpc]\naddress = '{root}/containerd.sock'\n"
        "[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n"
        f"[plugins.'io.containerd.cri.v1.runtime'.cni]\nconf_dir = '{root}/net.d'\n"
    )
    log = (root / "log").open("wb")
    process = subprocess.Popen(
        [programs / "containerd", "--config", config],
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=log,
        stderr=log,
    )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while "Server:" not in output(programs / "ctr", "-a", root / "containerd.sock", "version"):
            assert process.poll() is None, (root / "log").read_text()
            assert time.monotonic() < deadline, (root / "log").read_text()
            time.sleep(0.1)
        yield root / "containerd.sock"
    finally:
        process.terminate()
        process.wait()
        log.close()


@pytest.mark.parametrize("name", IMAGES)
def test_image_is_known_to_the_cri(
    name: str, artifacts: dict[str, Artifact], programs: Path, containerd: Path
) -> None:
    """An image archive imported into containerd is found by the CRI under exactly its reference."""
    image = artifacts[name]
    imported = output(programs / "ctr", "-a", containerd, "-n", "k8s.io", "images", "import", image.path)
    assert image.reference in imported
    crictl = (programs / "crictl", "-c", os.devnull, "-r", f"unix://{containerd}")
    listing = output(*crictl, "images", "-o", "json")
    tags = [tag for found in json.loads(listing)["images"] for tag in found["repoTags"]]
    assert image.reference in tags


def test_image_runs(artifacts: dict[str, Artifact], programs: Path, containerd: Path) -> None:
    """CoreDNS starts from its image, as the user that the image names, and keeps its file capability."""
    image = artifacts["image-coredns"]
    ctr: tuple[Any, ...] = (programs / "ctr", "-a", containerd, "-n", "k8s.io")
    output(*ctr, "images", "import", image.path)
    said = output(*ctr, "run", "--rm", image.reference, "version-of-coredns", "/coredns", "-version")
    assert f"CoreDNS-{image.version}" in said
