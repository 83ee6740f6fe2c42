"""What is really there: a file's text, a process's arguments, an object in the API, as found just now."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence

from nidome.agent import hiding
from nidome.agent.system import DIRECTORY, open_file, read_text
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["evidence"]


def evidence(questions: Sequence[Dict[str, Any]], host: Host) -> List[Dict[str, Any]]:
    """Answer each question, ``{"file": PATH}``, ``{"unit": NAME}`` or ``{"object": PATH, "access": [...]}``.

    ``{"text": …}``, ``{"argv": […]}`` and ``{"object": …}`` are the answers, {} where there is no such thing,
    where the API does not say or where it may not be shown. ``id`` is the resource's, ``secrets`` are those
    of its declaration: neither they nor those that the ledger knows of are in an answer.
    """
    return [_answer(question, host) for question in questions]


def _answer(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    kind = next(kind for kind in _ANSWERS if kind in question)
    try:
        return _ANSWERS[kind](question, host)
    except ResourceError:
        return {}


def _known(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    entry = host.ledger.entries.get(question.get("id", "")) or {}
    return entry.get("data") or {}


def _file(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    text = read_text(question["file"])
    if text is None:
        return {}
    private = not os.stat(question["file"]).st_mode & stat.S_IROTH
    found = hiding.shown(text, _known(question, host), question.get("secrets", ()), private=private)
    return {} if found is None else {"text": found}


def _unit(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    shown = host.unit(question["unit"], fresh=True)
    if shown.get("ActiveState") != "active":
        return {}
    try:
        with open_file(f"/proc/{shown['ExecMainPID']}/cmdline") as source:
            words = source.read().decode(errors="replace")
    except FileNotFoundError:
        return {}
    return {"argv": [_argument(word, question, host) for word in words.rstrip("\0").split("\0")]}


def _argument(word: str, question: Dict[str, Any], host: Host) -> str:
    """Return an argument; the value of one that held a secret once is shown where the unit file shows it."""
    data, secrets = _known(question, host), question.get("secrets", ())
    name, told = word.partition("=")[0], hiding.hide(word, secrets)
    if name not in data.get("flags", ()) or told == f"{name}={hiding.HIDDEN}":
        return told
    text = read_text(f"{DIRECTORY}/{question['unit']}") or ""
    visible = hiding.shown(text, data, secrets, private=False) or ""
    return told if told in visible.split() else f"{name}={hiding.EARLIER}"


def _object(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    found = host.api(question["access"]).get(question["object"])
    if found is None:
        return {}
    hidden = _known(question, host).get("hidden", ())
    return {"object": hiding.without(found, hidden, question.get("secrets", ()))}


_ANSWERS: Dict[str, Callable[[Dict[str, Any], "Host"], Dict[str, Any]]] = {
    "file": _file,
    "object": _object,
    "unit": _unit,
}
