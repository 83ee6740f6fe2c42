"""Streams of events as runs give them, made by hypothesis: any plays, hosts, results and times."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nidome.engine.apply import Recap
from nidome.events import (
    Announced,
    Diagnostic,
    Event,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
)

__all__ = ["runs"]

BEGAN = 1_780_000_000.0
# Names as people give them: brackets, arrows, quotes, stars and other scripts among them.
_NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" []*|:="), min_size=1, max_size=90
)
_TITLES = _NAMES.map(lambda name: f"role : {name.strip()}x")
_SECONDS = st.floats(0, 4000)
_ERROR = {
    "code": "not-held",
    "message": "changed: [node1]\nPLAY RECAP ****",
    "where": "File:/x",
    "hint": "ok: [a]",
}
_CHANGE = {
    "resource": "File:/etc/x",
    "action": "update",
    "deltas": [{"attribute": "content", "before": "a\n", "after": "b\n"}],
    "because": ["x = 1 (all.yml:1)"],
}


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """Return the events of one whole run over up to four hosts that work side by side."""
    hosts = [f"node{n + 1}" for n in range(draw(st.integers(1, 4)))]
    clock = BEGAN
    events: list[Event] = [
        RunStarted("r", "0.1", ("nidome", "playbook"), "/lab", tuple(hosts), "d", at=BEGAN)
    ]
    if draw(st.booleans()):
        events.append(Diagnostic("warning", "variable-unknown", "nobody reads x", "all.yml:1", at=clock))
    recaps = {host: Recap() for host in hosts}
    gone: set[str] = set()
    for name in draw(st.lists(_TITLES, min_size=1, max_size=4, unique=True)):
        concerned = tuple(h for h in hosts if h not in gone and draw(st.integers(0, 5)))
        titles = draw(st.lists(_TITLES, max_size=5, unique=True))
        tasks = tuple(
            Announced(title, draw(st.booleans()), mine)
            for title in titles
            if (mine := tuple(h for h in concerned if draw(st.integers(0, 3))))
        )
        events.append(PlayStarted(name, concerned, tasks, at=clock))
        queues = {h: [t for t in tasks if h in t.hosts] for h in concerned}
        while ready := [h for h, queue in queues.items() if queue]:
            host = draw(st.sampled_from(ready))
            task = queues[host].pop(0)
            clock += draw(_SECONDS)
            event = _finished(draw, host, name, task, clock)
            if draw(st.booleans()):
                events.append(TaskStarted(host, name, task.task, task.handler, at=clock - event.seconds / 2))
            events.append(event)
            recaps[host].add(event.status)
            if event.status in ("failed", "unreachable"):
                gone.add(host)
                queues[host] = []
        if gone == set(hosts):
            break
    counts = {host: recap.to_json() for host, recap in recaps.items()}
    return [*events, RunFinished(counts, clock - BEGAN, {}, not gone, at=clock)]


def _finished(draw: st.DrawFn, host: str, play: str, task: Announced, at: float) -> TaskFinished:
    status = draw(
        st.sampled_from(["ok", "ok", "ok", "changed", "changed", "skipped", "failed", "unreachable"])
    )
    changes: tuple[dict[str, Any], ...] = (_CHANGE,) if status == "changed" else ()
    error = _ERROR if status in ("failed", "unreachable") else None
    seconds = draw(_SECONDS)
    return TaskFinished(host, play, task.task, status, seconds, changes, error, handler=task.handler, at=at)
