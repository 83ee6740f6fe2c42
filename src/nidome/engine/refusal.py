"""A run that ended before its first play, told as that host's failed task: connecting, or a check."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nidome.engine.apply import Recap
from nidome.events import Announced, PlayStarted, RunFinished, TaskFinished
from nidome.roles.checks import CONNECT_TITLE, UNCHANGED_TITLE, check_title
from nidome.roles.preflight import CHECKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nidome.errors import NidomeError
    from nidome.events import Sink
    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import Play

__all__ = ["tell_refusal"]


def _title(error: NidomeError) -> str:
    titles = {f"preflight-{check.name}": check_title(check) for check in CHECKS}
    return {**titles, "immutable-setting": UNCHANGED_TITLE}.get(error.code, CONNECT_TITLE)


def _play(plays: Sequence[Play], title: str) -> str:
    """Return the name of the play whose task tells of it, else of the first."""
    role = title.partition(" : ")[0]
    return next((p.name for p in plays if any(r.name == role for r in p.roles)), plays[0].name)


def tell_refusal(
    spec: ClusterSpec, plays: Sequence[Play], error: NidomeError, sink: Sink, began: float
) -> dict[str, dict[str, int]]:
    """Tell of an error that a host gave before anything was changed; return the recap.

    ``began`` is when the run began, by the monotonic clock.
    """
    named = [h.name for h in spec.hosts if error.where.startswith(h.name)]
    host = max(named, key=len, default=spec.hosts[0].name)
    status = "unreachable" if error.family == "transport" else "failed"
    title, recap = _title(error), Recap()
    play = _play(plays, title)
    recap.add(status)
    sink(PlayStarted(play, (host,), (Announced(title, handler=False, hosts=(host,)),)))
    seconds = time.monotonic() - began
    sink(TaskFinished(host, play, title, status, seconds, (), error.to_json()))
    counts = {host: recap.to_json()}
    sink(RunFinished(counts, seconds, {"connect": seconds}, ok=False))
    return counts
