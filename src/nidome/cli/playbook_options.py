"""Options of ansible-playbook beside those that every run has: what each does, or why it cannot be had."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nidome.cli.again import typed
from nidome.errors import UsageError
from nidome.model.findings import DeclarationWarning
from nidome.provenance import DEFAULT, Origin, Sourced

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from nidome.model.spec import HostSpec

__all__ = ["add_options", "reached", "require_possible", "unused"]

_COMMAND_LINE = Origin("command line")
_WITHOUT_EFFECT = {
    "--force-handlers": "what a failed run has not restarted is stale, and the next run restarts it",
    "--module-path": "no modules are read",
    "--sftp-extra-args": "sftp is not used",
    "--scp-extra-args": "scp is not used",
}
"""Options of ansible-playbook that are taken with a warning, and why they change nothing."""
_PASSWORDS = {
    "ask_become_pass": "-K",
    "ask_pass": "-k",
    "become_password_file": "--become-password-file",
    "connection_password_file": "--connection-password-file",
}
"""Options that give a password of a host, all refused."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options, under ansible-playbook's names."""
    _add_listing(parser)
    _add_way(parser)
    _add_unused(parser)


def _add_listing(parser: argparse.ArgumentParser) -> None:
    flag = parser.add_argument
    flag("--list-hosts", action="store_true", help="list the hosts of each play, and do nothing else")
    flag("--list-tasks", action="store_true", help="list plays and tasks, and do nothing else")
    flag("--list-tags", action="store_true", help="list the tags of each play, and do nothing else")
    flag("--syntax-check", action="store_true", help="read playbook and inventory, and do nothing else")


def _add_way(parser: argparse.ArgumentParser) -> None:
    """Add what says how to reach the hosts; as in Ansible, the inventory's own variables win."""
    flag = parser.add_argument
    flag("-u", "--user", metavar="REMOTE_USER", help="log in as this user where the inventory names none")
    flag("--private-key", "--key-file", metavar="FILE", help="ssh key where the inventory names none")
    flag("-c", "--connection", choices=("ssh", "local", "smart"), help="where the inventory names none")
    flag("-b", "--become", action="store_true", help="become root with sudo")
    flag("--become-user", default="root", metavar="USER", help="only root will do")
    flag("--become-method", default="sudo", metavar="METHOD", help="only sudo will do")
    flag("-K", "--ask-become-pass", action="store_true", help="refused: sudo must ask for no password")
    flag("-k", "--ask-pass", action="store_true", help="refused: ssh must ask for no password")
    flag("-T", "--timeout", type=int, metavar="SECONDS", help="how long a connection may take (default: 10)")
    flag("--ssh-common-args", metavar="ARGS", help="more arguments of ssh where the inventory names none")
    flag("--ssh-extra-args", metavar="ARGS", help="more arguments of ssh, whatever the inventory names")


def _add_unused(parser: argparse.ArgumentParser) -> None:
    """Add ansible-playbook's options that change nothing here, or cannot be had: each says so."""
    flag = parser.add_argument
    flag("--flush-cache", action="store_true", help="nothing to flush: facts are read anew in every run")
    for name, why in _WITHOUT_EFFECT.items():
        takes: dict[str, Any] = {"metavar": "VALUE"}
        if name == "--force-handlers":
            takes = {"action": "store_true"}
        names = ("-M", name) if name == "--module-path" else (name,)
        flag(*names, help=f"without effect: {why}", **takes)
    flag("--step", action="store_true", help="refused: nothing is asked between tasks; see --check")
    flag("--become-password-file", "--become-pass-file", metavar="FILE", help="refused, as -K is")
    flag("--connection-password-file", "--conn-pass-file", metavar="FILE", help="refused, as -k is")


def require_possible(args: argparse.Namespace) -> None:
    """Refuse what cannot be had, with what to do instead."""
    option = next((option for name, option in _PASSWORDS.items() if getattr(args, name)), "")
    if args.step:
        raise UsageError(
            "step-unavailable",
            "Nidome does not ask between tasks: hosts work side by side",
            where="--step",
            hint=typed(args, "--check", "--diff").replace(" --step", "", 1),
        )
    if option:
        raise UsageError(
            "password-prompt",
            "Nidome types no passwords on hosts",
            where=option,
            hint="ssh: a key (ssh-copy-id HOST); sudo: `USER ALL=(ALL) NOPASSWD: ALL` by visudo on the host",
        )
    if (args.become_user, args.become_method) != ("root", "sudo"):
        raise UsageError(
            "become-other",
            "only root by sudo can set up a node",
            where=f"--become-user {args.become_user} --become-method {args.become_method}",
            hint="leave both out, and use -b",
        )
    if args.forks < 1:
        raise UsageError("forks", "at least one host is worked on at once", where="--forks", hint="--forks 5")
    if args.timeout is not None and args.timeout < 1:
        raise UsageError("timeout", "a connection needs a second or more", where="--timeout", hint="-T 30")


def reached(host: HostSpec, args: argparse.Namespace) -> HostSpec:
    """Return the host with what the command line says of the way to it, where the inventory says nothing."""
    changes: dict[str, Any] = {}
    given = {"user": args.user, "private_key_file": args.private_key, "become": args.become or None}
    given["connection"] = None if args.connection == "smart" else args.connection
    for name, value in given.items():
        if value is not None and getattr(host, name).origin == DEFAULT:
            changes[name] = Sourced(value, _COMMAND_LINE)
    if more := _ssh_words(host, args):
        changes["ssh_common_args"] = more
    return replace(host, **changes) if changes else host


def _ssh_words(host: HostSpec, args: argparse.Namespace) -> Sourced[str] | None:
    """Return the arguments of ssh with those of the command line; None where it names none."""
    common_args, extra = host.ssh_common_args, args.ssh_extra_args or ""
    if args.ssh_common_args and common_args.origin == DEFAULT:
        common_args = Sourced(args.ssh_common_args, _COMMAND_LINE)
    timeout = f"-o ConnectTimeout={args.timeout}" if args.timeout else ""
    words = " ".join(text for text in (common_args.value, extra, timeout) if text)
    origin = common_args.origin if words == common_args.value else _COMMAND_LINE
    return Sourced(words, origin) if words != host.ssh_common_args.value else None


def unused(args: argparse.Namespace) -> Iterator[DeclarationWarning]:
    """Give a warning for each option that changes nothing."""
    for name, why in _WITHOUT_EFFECT.items():
        if getattr(args, name.lstrip("-").replace("-", "_")):
            yield DeclarationWarning("option-unused", f"{name} has no effect: {why}", name, "leave it out")
