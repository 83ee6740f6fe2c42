"""A host: how it is reached, its addresses, and what its node is marked with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nidome.declare.kinds import BOOL, IP, choice, list_of, map_of, text
from nidome.declare.variables.control_plane import PORT
from nidome.declare.variables.table import NAME, Computed, Variable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLE"]

_HOST_NAME = text("a host name or an address", r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
_WORD = text("a user name", r"[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")
_FILE = text("the path of a file", r"[^\s-].*", "path")
_LINE = text("one line of text", r".*")
_LABEL_PREFIX = rf"({NAME}(\.{NAME})*/)?"
_LABEL_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABELS = map_of(_LABEL_PREFIX + _LABEL_WORD, f"({_LABEL_WORD})?", "a mapping of label names to values")
_TAINT = text(
    "a taint such as key=value:NoSchedule",
    rf"{_LABEL_PREFIX}{_LABEL_WORD}(=({_LABEL_WORD})?)?:(NoSchedule|PreferNoSchedule|NoExecute)",
)


def _address(known: Mapping[str, Any]) -> str:
    """Return ansible_host where it is an IPv4 address; a host name's address is not asked for."""
    parts = str(known["ansible_host"]).split(".")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= len("255")]
    valid = len(parts) == len(numbers) == len("ipv4") and max(numbers) <= 255  # noqa: PLR2004 - an octet
    return ".".join(map(str, numbers)) if valid else ""


TABLE = (
    Variable(
        "ansible_host",
        _HOST_NAME,
        Computed("the host's name", lambda known: known["name"]),
        "Name or address that ssh connects to.",
        scope="host",
        field="address",
    ),
    Variable(
        "ansible_connection",
        choice("ssh", "local"),
        "ssh",
        "ssh, or local for the machine nidome runs on.",
        scope="host",
        field="connection",
    ),
    Variable(
        "ansible_user",
        _WORD,
        None,
        "User that ssh logs in as; unset is ssh's own choice.",
        scope="host",
        field="user",
    ),
    Variable(
        "ansible_port",
        PORT,
        None,
        "Port of the ssh server; unset is ssh's own choice.",
        scope="host",
        field="port",
    ),
    Variable(
        "ansible_ssh_private_key_file",
        _FILE,
        None,
        "Private key for ssh; unset is ssh's own choice.",
        scope="host",
        field="private_key_file",
    ),
    Variable(
        "ansible_ssh_common_args", _LINE, "", "More arguments of ssh.", scope="host", field="ssh_common_args"
    ),
    Variable(
        "ansible_become",
        BOOL,
        default=False,
        meaning="Whether to become root with sudo.",
        scope="host",
        field="become",
    ),
    Variable(
        "ansible_python_interpreter",
        _FILE,
        None,
        "Python on the host; unset looks for python3.",
        scope="host",
        field="python",
    ),
    Variable(
        "ip",
        IP,
        Computed("ansible_host, where it is an address", _address, "ansible_host"),
        "Address that the host's components listen on and advertise.",
        scope="host",
        difference="kubespray's default is the address of the host's default route.",
    ),
    Variable(
        "access_ip",
        IP,
        Computed("ip", lambda known: known["ip"], "ip"),
        "Address that other hosts reach the host at.",
        scope="host",
    ),
    Variable("node_labels", _LABELS, {}, "Labels of the node.", scope="host"),
    Variable("node_taints", list_of(_TAINT, "taints"), (), "Taints of the node.", scope="host"),
)
