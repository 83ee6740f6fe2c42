"""A look at a host that owes nothing to nidome: files, units, mounts, network, cgroups, processes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusters import Cluster

__all__ = ["differences", "look"]

_SCRIPT = r"""
import hashlib, json, os, subprocess, sys

seen = {}
unread = ("/run/host/", "/usr/lib/", "/usr/share/")


def lines(*command):
    return subprocess.run(command, capture_output=True).stdout.decode().splitlines()


for root in ("/etc", "/usr", "/opt", "/var", "/run", "/root", "/home", "/srv", "/lost+found", "/boot"):
    for place, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
                said = "%o %d:%d" % (status.st_mode, status.st_uid, status.st_gid)
                if os.path.islink(path):
                    said += " " + os.readlink(path)
                elif os.path.isfile(path) and not path.startswith(unread):
                    said += " " + hashlib.sha1(open(path, "rb").read()).hexdigest()
            except OSError as error:
                said = "unreadable %s" % error.errno
            seen["file " + path] = said
for line in lines("systemctl", "list-units", "--all", "--no-legend", "--plain"):
    seen["unit " + line.split()[0]] = " ".join(line.split()[1:3])
for line in lines("systemctl", "list-unit-files", "--no-legend"):
    seen["unit file " + line.split()[0]] = line.split()[1]
for line in open("/proc/self/mountinfo"):
    seen["mount " + line.split()[4]] = line.split(" - ")[1].split()[0]
for line in lines("ip", "-brief", "link"):
    seen["link " + line.split()[0].partition("@")[0]] = line.split()[1]
for line in lines("ip", "-oneline", "address"):
    seen["address " + " ".join(line.split()[1:4])] = ""
for line in lines("ip", "route", "show", "table", "all"):
    seen["route " + line] = ""
for line in lines("ip", "rule", "show"):
    seen["rule " + line] = ""
for line in lines("nft", "--stateless", "list", "ruleset"):
    seen["packet filter " + line.strip()] = ""
for place, _, _ in os.walk("/sys/fs/cgroup"):
    seen["cgroup " + place] = ""
for entry in os.listdir("/proc"):
    if entry.isdigit():
        try:
            command = open("/proc/%s/cmdline" % entry, "rb").read().decode(errors="replace")
        except OSError:
            continue
        if command:
            seen["process " + command.replace("\0", " ")] = ""
for place, _, files in os.walk("/proc/sys"):
    for name in files:
        path = os.path.join(place, name)
        try:
            seen["setting " + path] = open(path).read().strip()
        except (OSError, UnicodeDecodeError):
            pass
json.dump(seen, sys.stdout)
"""

# What changes by itself on a host where nothing is done: the journal, counters, and how we look.
_RESTLESS = re.compile(
    r"file /(var/log/journal|run/log/journal|run/systemd/(journal|units|sessions|users|transient|inhibit)"
    r"|var/log/(apt|dpkg[.]log|alternatives[.]log)|var/lib/systemd|run/user|run/sshd|run/utmp|var/log/(wtmp|btmp|lastlog)|tmp|var/tmp)(/.*)?"
    r"|unit (systemd-tmpfiles|systemd-journal|apt-|dpkg-|e2scrub|fstrim|session-|user|run-).*"
    r"|setting /proc/sys/(fs/(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota/syncs)"
    r"|kernel/(ns_last_pid|pty/nr|random/.*|perf_.*)|net/netfilter/nf_conntrack_count)"
    r"|process (sshd|python3|-?bash|-?sh |\(sd-pam|ssh).*"
    r"|cgroup .*/(session-|user|run-).*"
)


def look(cluster: Cluster) -> dict[str, str]:
    """Return everything that a cluster could leave on its host."""
    seen: dict[str, str] = json.loads(cluster.host(f"python3 - <<'EOF'\n{_SCRIPT}\nEOF"))
    return seen


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what differs and does not change by itself."""
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    return [f"{n}: {before.get(n)} -> {after.get(n)}" for n in changed if not _RESTLESS.fullmatch(n)]
