"""What is really there: a file's text, a process's arguments, an object in the API, as found just now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence

from nidome.agent.system import open_file, read_text
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["evidence"]


def evidence(questions: Sequence[Dict[str, Any]], host: Host) -> List[Dict[str, Any]]:
    """Answer each question, ``{"file": PATH}``, ``{"unit": NAME}`` or ``{"object": PATH, "access": [...]}``.

    ``{"text": …}``, ``{"argv": […]}`` and ``{"object": …}`` are the answers, {} where there is no such thing
    or where the API does not say.
    """
    return [_answer(question, host) for question in questions]


def _answer(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    kind = next(kind for kind in _ANSWERS if kind in question)
    try:
        return _ANSWERS[kind](question, host)
    except ResourceError:
        return {}


def _file(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    del host
    text = read_text(question["file"])
    return {} if text is None else {"text": text}


def _unit(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    shown = host.unit(question["unit"], fresh=True)
    if shown.get("ActiveState") != "active":
        return {}
    try:
        with open_file(f"/proc/{shown['ExecMainPID']}/cmdline") as source:
            words = source.read().decode(errors="replace")
    except FileNotFoundError:
        return {}
    return {"argv": words.rstrip("\0").split("\0")}


def _object(question: Dict[str, Any], host: Host) -> Dict[str, Any]:
    found = host.api(question["access"]).get(question["object"])
    return {} if found is None else {"object": found}


_ANSWERS: Dict[str, Callable[[Dict[str, Any], "Host"], Dict[str, Any]]] = {
    "file": _file,
    "object": _object,
    "unit": _unit,
}
