"""Powering a host on and off: the process that keeps it, and the signals its PID 1 gets."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.machines import cgroups
from nidome.machines.model import BLOBS_IN_GUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Boot",
    "Group",
    "end_orphans",
    "environment",
    "group_of",
    "leftovers",
    "new_token",
    "nspawn_command",
    "power_off",
    "power_on",
    "pull_the_plug",
]

_SCRIPT = Path(__file__).with_name("supervise.sh")
_POWER_OFF = signal.SIGRTMIN + 4  # systemd's PID 1 takes it as "systemctl poweroff"
_POLL_SECONDS = 0.02
_ASK_AGAIN_SECONDS = 2.0
_KMSG = Path("/dev/kmsg")
_SYSTEMD_BOOTED = Path("/run/systemd/system")


@dataclass(frozen=True)
class Boot:
    """All that decides how a host is started.

    ``directory`` is the host's own; ``label`` the name of its network ends; ``lower`` the shared root
    file system; ``blobs`` the artifact cache to show inside, or None.
    """

    name: str
    directory: Path
    lower: Path
    bridge: str
    label: str
    blobs: Path | None = None

    @property
    def upper(self) -> Path:
        """Return the directory that holds what differs from the shared root file system."""
        return self.directory / "upper"

    @property
    def var(self) -> Path:
        """Return the host's /var: an ordinary directory, because overlay on overlay is refused."""
        return self.directory / "var"


@dataclass(frozen=True)
class Group:
    """A host's cgroup subtree while it is powered on; ``delegated`` where systemd makes it, as a unit.

    ``token`` begins with a digest of the host's directory, so that all subtrees a host ever had are found
    without its record; the rest is random, so that no late process of a removed host gets into a new one.

    The delegated way follows systemd's documentation (cgroup delegation) and was NOT tried: the
    project had no machine with systemd as PID 1.
    """

    token: str
    delegated: bool

    @property
    def unit(self) -> str:
        """Return the name of the transient service that a delegated subtree belongs to."""
        return f"nidome-{self.token}.service"

    @property
    def path(self) -> str:
        """Return the subtree's path below the mount point of each hierarchy."""
        return f"system.slice/{self.unit}" if self.delegated else f"nidome-{self.token}"

    def directories(self) -> list[Path]:
        """Return the subtree's directories that exist now."""
        return cgroups.subtrees(self.path)


def new_token(directory: Path) -> str:
    """Return a token for the cgroups of the host in ``directory``, never used before."""
    return f"{_digest(directory)}-{secrets.token_hex(4)}"


def _digest(directory: Path) -> str:
    return hashlib.sha256(bytes(directory)).hexdigest()[:12]


def group_of(token: str) -> Group:
    """Return the cgroup subtree for a host, made in the way that this machine asks for."""
    return Group(token, delegated=_SYSTEMD_BOOTED.is_dir())


def leftovers(directory: Path) -> list[Path]:
    """Return every cgroup directory that belongs to the host in ``directory``, whatever its token was."""
    pattern = f"nidome-{_digest(directory)}-*"
    return [
        found
        for hierarchy in cgroups.hierarchies()
        for found in (*hierarchy.mount.glob(pattern), *hierarchy.mount.glob(f"system.slice/{pattern}"))
    ]


def nspawn_command(boot: Boot) -> list[str]:
    """Return the command that runs the host until it powers off."""
    return [
        "systemd-nspawn",
        *("--quiet", "--settings=no", "--register=no", "--keep-unit"),
        f"--directory={boot.directory / 'root'}",
        f"--machine={boot.label}",
        f"--hostname={boot.name}",
        f"--network-bridge={boot.bridge}",
        # There is one clock: a host that sets it would set this machine's.
        *("--capability=all", "--drop-capability=CAP_SYS_TIME", "--system-call-filter=@known"),
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no"),
        *("--console=passive", "--kill-signal=SIGRTMIN+4"),
        f"--bind={boot.var}:/var",
        *([f"--bind={_KMSG}"] if _KMSG.exists() else []),
        *([f"--bind-ro={boot.blobs}:{BLOBS_IN_GUEST}"] if boot.blobs else []),
        "/usr/lib/nidome/init",
    ]


def environment(boot: Boot, keeper: list[Path], guest: list[Path], *, delegated: bool) -> dict[str, str]:
    """Return what ``supervise.sh`` and nspawn read from their environment."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "NIDOME_KEEPER": " ".join(map(str, keeper)),
        "NIDOME_GUEST": " ".join(map(str, guest)),
        "NIDOME_DELEGATED": "yes" if delegated else "no",
        "NIDOME_DISK": f"lowerdir={boot.lower},upperdir={boot.upper},workdir={boot.directory / 'work'}",
        "NIDOME_ROOT": str(boot.directory / "root"),
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes",  # kubelet and kube-proxy write kernel settings
        "SYSTEMD_NSPAWN_TMPFS_TMP": "0",  # /tmp is on the disk, as on any Debian
    }


def power_on(boot: Boot, group: Group) -> None:
    """Start the host's keeper, which outlives this process. Its output goes to ``console.log``."""
    if group.delegated:
        _power_on_delegated(boot, group)
        return
    keeper, guest = cgroups.make(group.path)
    with (boot.directory / "console.log").open("ab") as log:
        subprocess.Popen(
            ["/bin/sh", str(_SCRIPT), *nspawn_command(boot)],
            env=environment(boot, keeper, guest, delegated=False),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            umask=0o022,
            start_new_session=True,
        )


def _power_on_delegated(boot: Boot, group: Group) -> None:
    """Let the machine's systemd start the keeper. Not tried on a real machine, see :class:`Group`."""
    guest = [Path("/sys/fs/cgroup") / group.path]
    settings = environment(boot, [guest[0] / "keeper"], guest, delegated=True)
    log = boot.directory / "console.log"
    subprocess.run(
        [
            *("systemd-run", "--quiet", "--collect", f"--unit={group.unit}", "--slice=system.slice"),
            *("--property=Delegate=yes", "--property=KillMode=mixed", "--property=TasksMax=infinity"),
            f"--property=StandardOutput=append:{log}",
            f"--property=StandardError=append:{log}",
            *(f"--setenv={name}={value}" for name, value in settings.items()),
            *("/bin/sh", str(_SCRIPT), *nspawn_command(boot)),
        ],
        check=True,
    )


def power_off(group: Group, seconds: float) -> bool:
    """Ask the host to power off; return whether it did within ``seconds``."""
    started = time.monotonic()
    asked = -_ASK_AGAIN_SECONDS
    directories = group.directories()
    while alive := cgroups.processes(directories):
        passed = time.monotonic() - started
        if passed > seconds:
            return False
        if passed - asked >= _ASK_AGAIN_SECONDS:  # a PID 1 that is still coming up does not hear it
            asked = passed
            _ask(alive)
        time.sleep(_POLL_SECONDS)
    return True


def _ask(processes: set[int]) -> None:
    for pid in processes:
        if _is_init(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, _POWER_OFF)


def _is_init(pid: int) -> bool:
    """Whether the process is PID 1 of a namespace directly below ours, and is systemd by now.

    Before systemd runs, its signal means nothing; PID 1 of a container in the host is two levels down.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = _status_fields(status)
    _, *inner = fields.get("NSpid", "0").split()
    return inner == ["1"] and fields.get("Name") == "systemd"


def _status_fields(status: str) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in status.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def end_orphans(root: Path) -> None:
    """End the hosts of a state directory that was deleted under them, with their cgroups."""
    groups = [
        found
        for hierarchy in cgroups.hierarchies()
        for pattern in ("nidome-*", "system.slice/nidome-*")
        for found in hierarchy.mount.glob(pattern)
    ]
    names = {group.name for group in groups if any(_keeps(pid, root) for pid in cgroups.processes([group]))}
    orphans = [group for group in groups if group.name in names]
    if orphans:
        cgroups.kill_all(orphans)
        cgroups.remove(orphans)


def _keeps(pid: int, root: Path) -> bool:
    """Whether the process is the keeper of a host of ``root``."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(entry.startswith(b"NIDOME_ROOT=" + bytes(root) + b"/") for entry in environ.split(b"\0"))


def pull_the_plug(directory: Path, label: str) -> None:
    """End the host at once and remove its cgroups and its network end, whatever is left of them.

    ``label`` may be "" where it is not known: the network end goes with its processes then, a bit later.
    """
    groups = leftovers(directory)
    cgroups.kill_all(groups)
    cgroups.remove(groups)
    if label:
        subprocess.run(["ip", "link", "delete", f"vb-{label}"], capture_output=True, check=False)
