from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from nidome.artifacts import Artifact, Settings, obtain
from nidome.errors import ArtifactError
from nidome.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VERSION = "1.99.0"


@dataclass
class Answer:
    """What the server has at a path.

    ``cuts`` are numbers of bytes after which the first connections end, each after ``stall`` seconds.
    """

    content: bytes = b""
    status: int = 200
    cuts: list[int] = field(default_factory=list)
    stall: float = 0.0
    ranges: bool = True


@dataclass
class ReleaseServer:
    """A real HTTP server on loopback with the paths of the real release servers."""

    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""
    gate: threading.Barrier | None = None

    def asked(self, path: str) -> int:
        """Count the requests for a path."""
        return sum(1 for asked, _ in self.requests if asked == path)

    def ranges(self, path: str) -> list[str]:
        """Return the ranges that were asked for."""
        return [wanted for asked, wanted in self.requests if asked == path and wanted]


def handler(server: ReleaseServer) -> type[BaseHTTPRequestHandler]:
    """Return a handler class that answers from the table."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            server.requests.append((self.path, wanted))
            answer = server.answers.get(self.path, Answer(b"not here", status=404))
            if server.gate and answer.status == 200:
                server.gate.wait(10)
            self.answer(answer, int(wanted[6:-1]) if wanted and answer.ranges else 0)

        def answer(self, answer: Answer, start: int) -> None:
            if start and start >= len(answer.content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = answer.content[start:]
            self.send_response(206 if start else answer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if answer.cuts:
                self.wfile.write(body[: answer.cuts.pop(0)])
                self.wfile.flush()
                time.sleep(answer.stall)
                self.close_connection = True
                return
            self.wfile.write(body)

    return Handler


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    """Yield a server on loopback."""
    release = ReleaseServer()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler(release))
    httpd.daemon_threads = True
    release.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield release
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def sha256(content: bytes) -> str:
    """Return the checksum in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def archive(members: dict[str, bytes]) -> bytes:
    """Return a compressed tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Site:
    """A user's cache, lock file and mirrors, all for one version that no real release has."""

    root: Path
    server: ReleaseServer
    components: dict[str, Any] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        """Return the cache directory."""
        return self.root / "cache"

    def lock(self, component: str, label: str, content: bytes | None) -> None:
        """Pin the sum of a download; None locks the version without one."""
        entry = self.components.setdefault(component, {"default": VERSION, "versions": {VERSION: {}}})
        if content is not None:
            sums = entry["versions"][VERSION].setdefault("sha256", {})
            sums[label] = {"amd64": sha256(content)}

    def settings(self, **changes: Any) -> Settings:
        """Return settings with the lock file written."""
        file = self.root / "lock.json"
        file.write_text(json.dumps({"components": self.components}))
        given: dict[str, Any] = {
            "cache": self.cache,
            "providers": ("release",),
            "architecture": "amd64",
            "lock": file,
            "base_urls": dict.fromkeys(("dl.k8s.io", "github.com", "get.helm.sh"), self.server.url),
            "stall_timeout": 5.0,
            "retry_pause": 0.0,
        }
        return Settings(**{**given, **changes})

    def obtain(self, names: Sequence[str], **changes: Any) -> dict[str, Artifact]:
        """Obtain by the default versions."""
        return obtain(names, versions={}, settings=self.settings(**changes), progress=Progress.silent())

    def left(self) -> list[str]:
        """Return the files that the cache has, other than locks."""
        if not self.cache.exists():
            return []
        files = (path.relative_to(self.cache) for path in self.cache.rglob("*") if path.is_file())
        return sorted(str(path) for path in files if path.parts[0] != "locks")


@pytest.fixture
def site(tmp_path: Path, server: ReleaseServer) -> Site:
    """Return a cache of its own for the test."""
    return Site(tmp_path, server)


KUBELET = f"/release/v{VERSION}/bin/linux/amd64/kubelet"
KUBECTL = f"/release/v{VERSION}/bin/linux/amd64/kubectl"
APISERVER = f"/release/v{VERSION}/bin/linux/amd64/kube-apiserver"
CONTENT = b"kubelet" + bytes(300_000)


@pytest.fixture
def kubelet(site: Site, server: ReleaseServer) -> Site:
    """Return a site whose lock and server have a kubelet."""
    site.lock("kubernetes", "kubelet", CONTENT)
    server.answers[KUBELET] = Answer(CONTENT)
    return site


def test_good(kubelet: Site) -> None:
    """A download whose checksum is pinned is put into the cache under that checksum, ready to run."""
    artifact = kubelet.obtain(["kubelet"])["kubelet"]
    assert artifact.sha256 == sha256(CONTENT)
    assert artifact.path == kubelet.cache / "blobs" / "sha256" / artifact.sha256
    assert artifact.path.read_bytes() == CONTENT
    assert os.access(artifact.path, os.X_OK)
    assert (artifact.size, artifact.provider, artifact.version) == (len(CONTENT), "release", VERSION)


def test_second_time(kubelet: Site, server: ReleaseServer) -> None:
    """What is cached is not asked for again, and needs no server."""
    first = kubelet.obtain(["kubelet"])
    assert kubelet.obtain(["kubelet"], base_urls={"dl.k8s.io": "http://127.0.0.1:1"}) == first
    assert server.asked(KUBELET) == 1


@pytest.mark.parametrize(
    ("component", "name", "path", "member"),
    [
        (
            "etcd",
            "etcdctl",
            "/etcd-io/etcd/releases/download/v{v}/etcd-v{v}-linux-amd64.tar.gz",
            "etcd-v{v}-linux-amd64/etcdctl",
        ),
        (
            "containerd",
            "ctr",
            "/containerd/containerd/releases/download/v{v}/containerd-{v}-linux-amd64.tar.gz",
            "bin/ctr",
        ),
        (
            "cni",
            "cni-bridge",
            "/containernetworking/plugins/releases/download/v{v}/cni-plugins-linux-amd64-v{v}.tgz",
            "./bridge",
        ),
        (
            "crictl",
            "crictl",
            "/kubernetes-sigs/cri-tools/releases/download/v{v}/crictl-v{v}-linux-amd64.tar.gz",
            "crictl",
        ),
        ("helm", "helm", "/helm-v{v}-linux-amd64.tar.gz", "linux-amd64/helm"),
        (
            "coredns",
            "coredns",
            "/coredns/coredns/releases/download/v{v}/coredns_{v}_linux_amd64.tgz",
            "coredns",
        ),
    ],
)
def test_archives(  # noqa: PLR0917 - columns of the table above
    site: Site,
    server: ReleaseServer,
    component: str,
    name: str,
    path: str,
    member: str,
) -> None:
    """Of an archive only the member that was asked for is kept, with the licence beside it."""
    packed = archive({member.format(v=VERSION): b"program", "LICENSE": b"terms", "other": b"x"})
    site.lock(component, component, packed)
    server.answers[path.format(v=VERSION)] = Answer(packed)
    artifact = site.obtain([name])[name]
    assert artifact.path.read_bytes() == b"program"
    blobs = {sha256(b"program"), sha256(b"terms")}
    assert site.left() == sorted([*(f"blobs/sha256/{blob}" for blob in blobs), "index.json"])


def test_one_download_for_one_archive(site: Site, server: ReleaseServer) -> None:
    """Three binaries of one archive cost one download."""
    path = f"/etcd-io/etcd/releases/download/v{VERSION}/etcd-v{VERSION}-linux-amd64.tar.gz"
    names = ["etcd", "etcdctl", "etcdutl"]
    packed = archive({f"etcd-v{VERSION}-linux-amd64/{name}": name.encode() for name in names})
    site.lock("etcd", "etcd", packed)
    server.answers[path] = Answer(packed)
    found = site.obtain(names)
    assert [found[name].path.read_bytes() for name in names] == [b"etcd", b"etcdctl", b"etcdutl"]
    assert server.asked(path) == 1


def test_member_missing(site: Site, server: ReleaseServer) -> None:
    """An archive without the program in it is an error that names the member, and leaves nothing."""
    packed = archive({"other": b"x"})
    site.lock("crictl", "crictl", packed)
    path = f"/kubernetes-sigs/cri-tools/releases/download/v{VERSION}/crictl-v{VERSION}-linux-amd64.tar.gz"
    server.answers[path] = Answer(packed)
    with pytest.raises(ArtifactError) as caught:
        site.obtain(["crictl"])
    assert caught.value.code == "archive-member-missing"
    assert site.left() == []


def test_not_an_archive(site: Site, server: ReleaseServer) -> None:
    """A pinned file that is no archive is an error, not a traceback, and leaves nothing."""
    site.lock("crictl", "crictl", b"no tar")
    path = f"/kubernetes-sigs/cri-tools/releases/download/v{VERSION}/crictl-v{VERSION}-linux-amd64.tar.gz"
    server.answers[path] = Answer(b"no tar")
    with pytest.raises(ArtifactError) as caught:
        site.obtain(["crictl"])
    assert caught.value.code == "archive-invalid"
    assert site.left() == []


def test_wrong_sum(kubelet: Site, server: ReleaseServer) -> None:
    """A file that is not what was pinned is an error with both checksums, and nothing of it is kept."""
    server.answers[KUBELET].content = CONTENT[:-1] + b"!"
    with pytest.raises(ArtifactError) as caught:
        kubelet.obtain(["kubelet"], providers=("release", "build"))
    assert caught.value.code == "checksum-mismatch"
    assert sha256(CONTENT) in caught.value.message
    assert caught.value.where == server.url + KUBELET
    assert kubelet.left() == []


def test_wrong_sum_of_one(kubelet: Site, server: ReleaseServer) -> None:
    """Where one of two files is wrong, the right one stays and only the other is asked for next time."""
    kubelet.lock("kubernetes", "kubectl", b"kubectl")
    server.answers[KUBECTL] = Answer(b"something else")
    with pytest.raises(ArtifactError, match="kubectl has sha256"):
        kubelet.obtain(["kubelet", "kubectl"])
    server.answers[KUBECTL] = Answer(b"kubectl")
    assert set(kubelet.obtain(["kubelet", "kubectl"])) == {"kubelet", "kubectl"}
    assert (server.asked(KUBELET), server.asked(KUBECTL)) == (1, 2)


def test_missing(kubelet: Site, server: ReleaseServer) -> None:
    """A file that the server lacks is an error which says the address and the status."""
    del server.answers[KUBELET]
    with pytest.raises(ArtifactError, match=f"{KUBELET}: 404") as caught:
        kubelet.obtain(["kubelet"])
    assert caught.value.code == "artifact-unavailable"
    assert kubelet.left() == []


def test_server_error(kubelet: Site, server: ReleaseServer) -> None:
    """A server that answers 503 is asked a few times before it is given up."""
    server.answers[KUBELET].status = 503
    with pytest.raises(ArtifactError, match="503"):
        kubelet.obtain(["kubelet"])
    assert server.asked(KUBELET) == 4


def test_cut_off_once(kubelet: Site, server: ReleaseServer) -> None:
    """A transfer that breaks off goes on from where it was."""
    server.answers[KUBELET].cuts = [100_000]
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT
    assert server.ranges(KUBELET) == ["bytes=100000-"]


def test_cut_off_often(kubelet: Site, server: ReleaseServer) -> None:
    """A transfer that breaks off again and again ends well as long as each attempt brings something."""
    server.answers[KUBELET].cuts = [30_000] * 9
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT
    assert server.asked(KUBELET) == 10


def test_truncated_for_good(kubelet: Site, server: ReleaseServer) -> None:
    """A server that never sends the rest is given up with the reason; no blob and no entry is made."""
    server.answers[KUBELET].cuts = [70_000, *[0] * 20]
    with pytest.raises(ArtifactError, match="the connection ended after") as caught:
        kubelet.obtain(["kubelet"])
    assert caught.value.code == "artifact-unavailable"
    assert [path.split("/")[0] for path in kubelet.left()] == ["partial"]


def test_resumed_by_the_next_run(kubelet: Site, server: ReleaseServer) -> None:
    """The next run asks only for what a broken one had not got."""
    server.answers[KUBELET].cuts = [70_000, *[0] * 20]
    with pytest.raises(ArtifactError):
        kubelet.obtain(["kubelet"])
    server.answers[KUBELET].cuts.clear()
    server.requests.clear()
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT
    assert server.ranges(KUBELET) == ["bytes=70000-"]
    assert not [path for path in kubelet.left() if path.startswith("partial")]


def test_server_without_ranges(kubelet: Site, server: ReleaseServer) -> None:
    """A server that cannot go on in the middle sends everything again, and that is taken."""
    server.answers[KUBELET].cuts = [70_000]
    server.answers[KUBELET].ranges = False
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT


def test_wrong_beginning(kubelet: Site, server: ReleaseServer) -> None:
    """A beginning kept from another file is thrown away: the download starts over and is right."""
    server.answers[KUBELET] = Answer(bytes(len(CONTENT)), cuts=[70_000, *[0] * 20])
    with pytest.raises(ArtifactError):
        kubelet.obtain(["kubelet"])
    server.answers[KUBELET] = Answer(CONTENT)
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT


def test_beginning_that_is_too_long(kubelet: Site, server: ReleaseServer) -> None:
    """A kept beginning longer than the file does not end the run: the download starts over."""
    server.answers[KUBELET] = Answer(bytes(900_000), cuts=[800_000, *[0] * 20])
    with pytest.raises(ArtifactError):
        kubelet.obtain(["kubelet"])
    server.answers[KUBELET] = Answer(CONTENT)
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == CONTENT


def test_slow(kubelet: Site, server: ReleaseServer) -> None:
    """A transfer without a byte for the stall time is begun anew where it was."""
    server.answers[KUBELET].cuts = [50_000]
    server.answers[KUBELET].stall = 1.0
    assert kubelet.obtain(["kubelet"], stall_timeout=0.2)["kubelet"].path.read_bytes() == CONTENT
    assert server.ranges(KUBELET) == ["bytes=50000-"]


def test_parallel(kubelet: Site, server: ReleaseServer) -> None:
    """Several files are downloaded at the same time: the server answers only when two have asked."""
    kubelet.lock("kubernetes", "kubectl", b"kubectl")
    server.answers[KUBECTL] = Answer(b"kubectl")
    server.gate = threading.Barrier(2)
    assert len(kubelet.obtain(["kubelet", "kubectl"])) == 2


FETCHER = """
import sys
from pathlib import Path
from nidome.artifacts import Settings, obtain
from nidome.progress import Progress
cache, lock, url = sys.argv[1:]
settings = Settings(
    cache=Path(cache), lock=Path(lock), providers=("release",), architecture="amd64",
    base_urls={"dl.k8s.io": url},
)
print(obtain(["kubelet"], versions={}, settings=settings, progress=Progress())["kubelet"].sha256)
"""


def test_two_processes_fetch_once(kubelet: Site, server: ReleaseServer) -> None:
    """Two processes that need the same file at the same time both get it, by one download."""
    lock = kubelet.settings().lock
    command = [sys.executable, "-c", FETCHER, str(kubelet.cache), str(lock), server.url]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE) as two,
    ):
        said = [process.communicate()[0].decode().strip() for process in (one, two)]
    assert said == [sha256(CONTENT)] * 2
    assert server.asked(KUBELET) == 1


def test_no_sum_known(site: Site, server: ReleaseServer) -> None:
    """A file without a pinned checksum is not even asked for, and the error says which option takes it."""
    site.lock("kubernetes", "", None)
    server.answers[APISERVER] = Answer(b"apiserver")
    with pytest.raises(ArtifactError, match="--trust-server-sums"):
        site.obtain(["kube-apiserver"])
    assert server.requests == []


@pytest.mark.parametrize(
    ("component", "name", "path", "sums_path", "sums"),
    [
        ("kubernetes", "kube-apiserver", APISERVER, f"{APISERVER}.sha256", "{sum}"),
        (
            "kine",
            "kine",
            f"/k3s-io/kine/releases/download/v{VERSION}/kine-amd64",
            f"/k3s-io/kine/releases/download/v{VERSION}/sha256sum-amd64.txt",
            "{other}  kine-arm64\n{sum}  dist/artifacts/kine-amd64\n",
        ),
        (
            "runc",
            "runc",
            f"/opencontainers/runc/releases/download/v{VERSION}/runc.amd64",
            f"/opencontainers/runc/releases/download/v{VERSION}/runc.sha256sum",
            "{other} *runc.arm64\n{sum} *runc.amd64\n",
        ),
    ],
)
def test_server_sums(  # noqa: PLR0917 - columns of the table above
    site: Site, server: ReleaseServer, component: str, name: str, path: str, sums_path: str, sums: str
) -> None:
    """With consent the checksum published beside the release is used, and the index records that."""
    site.lock(component, "", None)
    server.answers[path] = Answer(b"program")
    server.answers[sums_path] = Answer(sums.format(sum=sha256(b"program"), other="0" * 64).encode())
    assert site.obtain([name], trust_server_sums=True)[name].path.read_bytes() == b"program"
    index = json.loads((site.cache / "index.json").read_text())
    assert [(row["name"], row["sums"]) for row in index["artifacts"]] == [(name, "server")]
    # What was trusted once and is recorded needs no consent again.
    assert name in site.obtain([name])


def test_server_sums_wrong(site: Site, server: ReleaseServer) -> None:
    """A published checksum that the file does not have is an error, and nothing is kept."""
    site.lock("kubernetes", "", None)
    server.answers[APISERVER] = Answer(b"program")
    server.answers[f"{APISERVER}.sha256"] = Answer(b"0" * 64)
    with pytest.raises(ArtifactError) as caught:
        site.obtain(["kube-apiserver"], trust_server_sums=True)
    assert caught.value.code == "checksum-mismatch"
    assert site.left() == []


def test_server_sums_without_the_file(site: Site, server: ReleaseServer) -> None:
    """Published checksums that do not mention the file are no checksum."""
    site.lock("kubernetes", "", None)
    server.answers[APISERVER] = Answer(b"program")
    server.answers[f"{APISERVER}.sha256"] = Answer(b"<html>not found</html>")
    with pytest.raises(ArtifactError, match="has no checksum of kube-apiserver"):
        site.obtain(["kube-apiserver"], trust_server_sums=True)


def test_pinned_sum_changed(kubelet: Site, server: ReleaseServer) -> None:
    """When the lock pins another checksum, the cached file no longer counts."""
    kubelet.obtain(["kubelet"])
    kubelet.lock("kubernetes", "kubelet", b"new")
    server.answers[KUBELET].content = b"new"
    assert kubelet.obtain(["kubelet"])["kubelet"].path.read_bytes() == b"new"


def test_unreachable(site: Site) -> None:
    """A server that cannot be reached is a reason in the error, for each name."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: every connection is refused
        port = taken.getsockname()[1]
        site.lock("kubernetes", "kubelet", b"x")
        with pytest.raises(ArtifactError, match="cannot be reached: Connection refused"):
            site.obtain(["kubelet"], base_urls={"dl.k8s.io": f"http://127.0.0.1:{port}"})
    assert site.left() == []


def test_silent_server_is_found_out_once(site: Site) -> None:
    """A server that takes connections and says nothing is tried once per run, not once per file."""
    for name in ("kubelet", "kubectl"):
        site.lock("kubernetes", name, b"x")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ArtifactError, match=r"no answer within 0\.2 s|timed out"):
            site.obtain(["kubelet", "kubectl"], base_urls={"dl.k8s.io": url}, reach_timeout=0.2)
        silent.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_pause_has_no_release(site: Site) -> None:
    """What no release contains is said to be so."""
    with pytest.raises(ArtifactError, match="not part of any release"):
        site.obtain(["pause"])
