"""One agent process per host, over OpenSSH or on this machine, speaking JSON lines."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import subprocess
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nidome.errors import DeclarationError, NidomeError, PreflightError, ResourceError, TransportError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.model.spec import HostSpec

__all__ = ["AgentConnection", "agent_code", "remote_command", "ssh_command"]

_UNREACHABLE = 255
_NOT_FOUND = 127
_CHUNK = 1 << 20
_PACKAGE = Path(__file__).parent.parent
_WORDS_KEPT = 5
_FALSE = ("false", "no", "off", "0", "f", "n")
_HOST_KEY = "Host key verification failed"
_KEY_CHANGED = "has changed and you have requested"
_TAKE_FIRST = "StrictHostKeyChecking=accept-new"
_CHANGED_HINT = (
    "find out why the host has another key than known_hosts; ssh-keygen -R HOST forgets the old one"
)
_END_SECONDS = 3

# Runs on the host before any of our code is there: takes the kept agent of this digest, or asks for it.
_BOOTSTRAP = """
import sys,os,json
i=sys.stdin.buffer
h=json.loads(i.readline())
e="root" if os.geteuid() else "python" if sys.version_info<(3,9) else ""
d="/var/lib/nidome/agent/"+h["sha256"]
t=""
if e or os.path.isdir(d):
 print(e or "have",flush=True)
 if e: sys.exit(3)
else:
 print("need",flush=True)
 import io,zipfile,tempfile
 t=d=tempfile.mkdtemp(prefix="nidome-agent-%d-"%os.getpid(),dir="/run")
 zipfile.ZipFile(io.BytesIO(i.read(h["size"]))).extractall(d)
sys.path.insert(0,d)
from nidome.agent.main import main
main(t)
"""

_INSTALL = {
    "ssh": "install openssh-client",
    "sudo": "install sudo, or let this user run it; or run nidome as root",
}

_REFUSALS = {
    "root": (
        "host-no-root",
        "the agent needs root on the host",
        "log in as root, or set ansible_become: true with sudo without password",
    ),
    "python": (
        "host-old-python",
        "the host's Python is older than 3.9",
        "install Python 3.9 or newer, or set ansible_python_interpreter",
    ),
}


@cache
def agent_code() -> tuple[str, dict[str, bytes]]:
    """Return the digest of the agent's files, and the files by name."""
    paths = [_PACKAGE / "errors.py", *sorted(_PACKAGE.glob("agent/**/*.py"))]
    files = {str(p.relative_to(_PACKAGE.parent)): p.read_bytes() for p in paths}
    files["nidome/__init__.py"] = b""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest(), files


def _archive() -> bytes:
    digest, files = agent_code()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(name, content)
        archive.writestr("digest", digest)
    return packed.getvalue()


def ssh_command(host: HostSpec) -> list[str]:
    """Return the ssh command line that reaches a host; the user's own ssh configuration stays in force."""
    # ssh takes the first value that it is given for an option: the inventory's are before ours.
    command = ["ssh", "-o", "BatchMode=yes", *_words(host), "-o", "ConnectTimeout=10"]
    command += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4", *_host_key_words()]
    if host.port.value:
        command += ["-p", str(host.port.value)]
    if host.private_key_file.value:
        command += ["-i", host.private_key_file.value, "-o", "IdentitiesOnly=yes"]
    address = host.address.value
    return [*command, f"{host.user.value}@{address}" if host.user.value else address]


def _host_key_words() -> list[str]:
    """Return what ANSIBLE_HOST_KEY_CHECKING asks for: with False, as there, unknown host keys are taken."""
    asked = os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "").strip().lower()
    return ["-o", "StrictHostKeyChecking=no"] if asked in _FALSE else []


def _host_key_hint(host: HostSpec) -> str:
    """Return how the key of a host is made known, or taken when first seen."""
    port = ["-p", str(host.port.value)] if host.port.value else []
    scan = shlex.join(["ssh-keyscan", *port, str(host.address.value)])
    return (
        f"{scan} >> ~/.ssh/known_hosts, and compare its fingerprint with the host's own; or take any key "
        f"that is seen first: ansible_ssh_common_args: '-o {_TAKE_FIRST}'"
    )


def _words(host: HostSpec) -> list[str]:
    given = host.ssh_common_args
    try:
        return shlex.split(given.value)
    except ValueError as error:
        raise DeclarationError(
            "ssh-arguments",
            f"ansible_ssh_common_args of {host.name}: {error}",
            where=str(given.origin),
            hint="close the quotes",
        ) from None


def remote_command(host: HostSpec, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs ``arguments`` as root on a host."""
    words = ["sudo", "-n", *arguments] if host.become.value and host.user.value != "root" else list(arguments)
    if _is_local(host):
        return list(arguments) if os.geteuid() == 0 else words
    return [*ssh_command(host), shlex.join(words)]


def _is_local(host: HostSpec) -> bool:
    return host.connection.value == "local"


class AgentConnection:
    """A running agent on a host. Calls go one by one; every failure is a NidomeError that names the host."""

    def __init__(self, host: HostSpec) -> None:
        self.host = host
        self._number = 0
        self._words: list[str] = []
        self._python = python = host.python.value or ("/usr/bin/python3" if _is_local(host) else "python3")
        command = remote_command(host, [python, "-I", "-S", "-c", _BOOTSTRAP])
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TransportError(
                "program-missing",
                f"'{command[0]}' cannot be run on this machine: {error.strerror}",
                where=host.name,
                hint=_INSTALL.get(command[0], "set ansible_python_interpreter"),
            ) from None
        self._reader = threading.Thread(target=self._read_words, daemon=True)
        self._reader.start()
        try:
            self._greet()
        except BaseException:
            # Nothing was asked of it yet: there is nothing to wait for, Ctrl-C above all.
            self._process.kill()
            self.close()
            raise

    def _read_words(self) -> None:
        for line in self._pipe(self._process.stderr):
            self._words = [*self._words[1 - _WORDS_KEPT :], line.decode(errors="replace").rstrip()]

    @staticmethod
    def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
        if stream is None:
            raise TransportError("no-pipe", "the agent's process has no pipes", hint="run this again")
        return stream

    def _greet(self) -> None:
        digest, _ = agent_code()
        archive = _archive()
        header = json.dumps({"sha256": digest, "size": len(archive)}).encode() + b"\n"
        self._write(header)
        answer = self._pipe(self._process.stdout).readline().decode(errors="replace").strip()
        if answer in _REFUSALS:
            code, message, hint = _REFUSALS[answer]
            self.close()
            raise PreflightError(code, message, where=self.host.name, hint=hint)
        if answer == "need":
            self._write(archive)
        elif answer != "have":
            raise self._lost(answer)

    def _write(self, data: bytes) -> None:
        pipe = self._pipe(self._process.stdin)
        try:
            pipe.write(data)
            pipe.flush()
        except (BrokenPipeError, ConnectionResetError, ValueError):
            raise self._lost("") from None

    def _lost(self, said: str) -> NidomeError:
        """Return the error that fits how the agent's process ended."""
        status = self._ended()
        self._reader.join(1)
        words = " / ".join(w for w in [said, *self._words] if w) or f"exit status {status}"
        name = self.host.name
        if "not found" in words and ("python" in words or status == _NOT_FOUND):
            return TransportError(
                "host-no-python",
                f"the host has no Python: {words}",
                where=name,
                hint="apt-get install python3 on the host, or set ansible_python_interpreter",
            )
        if "sudo:" in words:
            return TransportError(
                "host-no-sudo", words, where=name, hint="allow sudo without a password, or log in as root"
            )
        if _HOST_KEY in words and _KEY_CHANGED in words:
            return TransportError("host-key-changed", words, where=name, hint=_CHANGED_HINT)
        if _HOST_KEY in words:
            return TransportError("host-key-unknown", words, where=name, hint=_host_key_hint(self.host))
        if status == _UNREACHABLE or (self._number and not _is_local(self.host)):
            code = "host-lost" if self._number else "host-unreachable"
            return TransportError(
                code, words, where=name, hint=f"try: {shlex.join(ssh_command(self.host))} true"
            )
        hint = "run again; what was done is kept"
        if not self._number:
            hint = f"see that ansible_python_interpreter ({self._python}) is a Python 3.9 or newer"
        return TransportError("agent-failed", words, where=name, hint=hint)

    def _ended(self) -> int:
        """Return how the process ended by itself; one that stays although its pipes are closed is killed."""
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def call(self, operation: str, **arguments: Any) -> Any:
        """Ask the agent for an operation and return its result."""
        self._request(operation, arguments)
        return self._answer()

    def _request(self, operation: str, arguments: dict[str, Any]) -> None:
        self._number += 1
        self._write(
            json.dumps({"id": self._number, "op": operation, **arguments}, separators=(",", ":")).encode()
            + b"\n"
        )

    def _answer(self) -> Any:
        line = self._pipe(self._process.stdout).readline()
        if not line.endswith(b"\n"):
            raise self._lost("")
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._lost(f"not an answer: {line[:200].decode(errors='replace').rstrip()}") from None
        if "error" in answer:
            error = answer["error"]
            where = f"{self.host.name}: {error['where']}" if error["where"] else self.host.name
            raise ResourceError(error["code"], error["message"], where=where, hint=error["hint"])
        return answer["ok"]

    def put(self, path: Path, sha256: str) -> None:
        """Send an artifact."""
        size = path.stat().st_size
        self._request("put", {"sha256": sha256, "size": size})
        with path.open("rb") as source:
            while block := source.read(_CHUNK):
                self._write(block)
        self._answer()

    def close(self) -> None:
        """End the agent and wait until it has written back what it keeps."""
        try:
            self._pipe(self._process.stdin).close()
            self._process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._reader.join(1)
                stream.close()
