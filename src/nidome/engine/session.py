"""Connections to all hosts of a run, and what is asked of every host at once."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from nidome.engine.transport import AgentConnection
from nidome.errors import ResourceError
from nidome.events import Waited, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from nidome.events import Sink
    from nidome.model.spec import HostSpec

__all__ = ["Session"]

T = TypeVar("T")
_FORKS = 20


@dataclass
class Session:
    """Agents on hosts, side by side. The first error of a host ends the run before anything is changed.

    ``sink`` is told of each host that is waited for.
    """

    hosts: Sequence[HostSpec]
    sink: Sink
    agents: dict[str, AgentConnection] = field(default_factory=dict)
    forks: int = _FORKS

    def __enter__(self) -> Self:
        """Connect to every host; if one cannot be reached, none is kept."""
        try:
            self.each_host(self._connect)
        except BaseException:
            self.close()
            raise
        return self

    def _connect(self, host: HostSpec) -> None:
        with self._telling(host, "connecting"):
            self.agents[host.name] = AgentConnection(host)

    @contextmanager
    def _telling(self, host: HostSpec, what: str) -> Iterator[None]:
        self.sink(Waiting(host.name, what))
        ok = False
        try:
            yield
            ok = True
        finally:
            self.sink(Waited(host.name, ok))

    def each_host(self, work: Callable[[HostSpec], T]) -> list[T]:
        """Do something for every host, side by side; raise the first error after all have ended."""
        if len(self.hosts) == 1:
            return [work(self.hosts[0])]
        with ThreadPoolExecutor(self.forks) as pool:
            futures = [pool.submit(work, host) for host in self.hosts]
        return [future.result() for future in futures]

    def ask(self, host: HostSpec, what: str, operation: str, **arguments: Any) -> Any:
        """Ask one host's agent; ``what`` says what it does meanwhile."""
        with self._telling(host, what):
            return self.agents[host.name].call(operation, **arguments)

    def call(self, what: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Ask all agents for the same; return the results by host."""
        results = self.each_host(lambda h: self.ask(h, what, operation, **arguments))
        return dict(zip((h.name for h in self.hosts), results, strict=True))

    def lock(self) -> None:
        """Take the run lock of every host, for a run that will change something."""
        who = f"pid {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        self.each_host(lambda host: self._lock(host, who))

    def _lock(self, host: HostSpec, who: str) -> None:
        try:
            self.agents[host.name].call("lock", who=who, patience=0)
        except ResourceError as error:
            if error.code != "run-locked":
                raise
            self.ask(host, f"waiting, {error.message}", "lock", who=who)

    def close(self) -> None:
        """End the agents."""
        for agent in self.agents.values():
            agent.close()
        self.agents = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the agents."""
        self.close()
