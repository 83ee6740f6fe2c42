"""One run: connect, observe, plan, and where asked, apply. The only place where the parts meet."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from nidome import __version__
from nidome.agent.resources.base import encode
from nidome.agent.resources.binary import Binary
from nidome.agent.resources.image import Image
from nidome.agent.resources.kubeobject import KubeObject
from nidome.engine.apply import HostRun
from nidome.engine.hostpatterns import chosen
from nidome.engine.masking import masking
from nidome.engine.plan import VERSION_KEY, HostPlan, Plan, announced, plan_host
from nidome.engine.rehearsal import Rehearsal
from nidome.engine.reset import unaccounted_for
from nidome.engine.selection import Selection
from nidome.engine.session import Session
from nidome.errors import StateError, UsageError
from nidome.events import Diagnostic, PlanReady, PlayStarted, RunFinished, Staged, Staging
from nidome.roles.base import HostContext, InstalledArtifact
from nidome.roles.listing import OPTIONAL_TAGS
from nidome.roles.playbook import HostPlay, artifact_names, evaluate, first_hosts
from nidome.roles.preflight import directories, require_fit, require_known, tolerated
from nidome.roles.upgrade import BEGUN, begun, require_whole, touches_kubernetes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nidome.agent.resources.base import Observed, Resource
    from nidome.artifacts.settings import Artifact
    from nidome.events import Sink
    from nidome.model.spec import ClusterSpec, HostSpec
    from nidome.roles.base import Play

__all__ = ["Options", "Run", "begun_at", "ledger_damaged", "overridden", "require_same", "task_unknown"]

_LIKE = 0.6
"""How like a title must be to what was typed, to be named as near to it."""

Fetch = Callable[[Sequence[str]], Mapping[str, "Artifact"]]


@dataclass(frozen=True)
class Options:
    """How a run is to go about it; ``fresh`` trusts no hash that an earlier run computed.

    ``forks`` is how many hosts are worked on at once. ``partial`` says that the plays are not the whole
    cluster: what they do not name is no less declared. ``known_tags`` may be chosen although no
    task has them.
    """

    selection: Selection = field(default_factory=Selection)
    ignore_preflight: tuple[str, ...] = ()
    take_over: bool = False
    fresh: bool = False
    forks: int = 20
    partial: bool = False
    known_tags: frozenset[str] = frozenset()


class Run:
    """A declaration on its way to its hosts.

    ``fetch`` gives artifacts by name, from wherever they come. Use as a context manager: it holds one agent
    per host. :meth:`plan` changes nothing on any host; :meth:`apply` carries a plan out.
    """

    def __init__(
        self, spec: ClusterSpec, plays: Sequence[Play], fetch: Fetch, sink: Sink, options: Options
    ) -> None:
        self.spec = spec
        self.options = options
        self.phases: dict[str, float] = {}
        self._plays = plays
        self._fetch = fetch
        self._sink = masking(sink, spec.secrets)
        self._began = time.monotonic()
        self._artifacts: Mapping[str, Artifact] = {}
        self._session = Session(chosen(spec, options.selection.limit), self._sink, forks=options.forks)
        self.contexts: dict[str, HostContext] = {}
        """What the roles were asked with, by host; there once planned."""
        self.observed: dict[str, Mapping[str, Observed]] = {}
        """What was found, by host and resource id; there once planned."""
        self._host_plays: dict[str, list[HostPlay]] = {}

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - began

    def __enter__(self) -> Self:
        """Connect to the hosts."""
        with self._phase("connect"):
            self._session.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        """End the agents."""
        self._session.close()

    # Looking.

    def lock(self) -> None:
        """Take the run lock of every host, for a run that will change something."""
        self._session.lock()

    def plan(self) -> Plan:
        """Observe every host and return what is to be done."""
        with self._phase("facts"):
            facts = self._session.call("reading facts", "facts", directories=directories(self.spec))
        ignored = (*self.options.ignore_preflight, *tolerated(self.spec))
        require_known(ignored)
        for host in self._session.hosts:
            for warning in ledger_damaged(host.name, facts[host.name]["unaccounted"]):
                self._sink(warning)
            require_fit(self.spec, host, facts[host.name], ignored)
        with self._phase("artifacts"):
            self._artifacts = self._fetch(artifact_names(self._plays, self.spec))
        installed = {
            n: InstalledArtifact(a.version, a.sha256, a.size, a.reference) for n, a in self._artifacts.items()
        }
        for host in self._session.hosts:
            context = HostContext(self.spec, host, facts[host.name], installed)
            self.contexts[host.name] = context
            self._host_plays[host.name] = evaluate(self._plays, context)
        self._require_known_tags()
        self._host_plays = begun_at(self._plays, self._host_plays, self.options.selection)
        plans = self._session.each_host(self._plan_host)
        if not self.options.selection.everything:
            for plan in filter(_changes_kubernetes, plans):
                require_whole(self.spec, self._declared(plan.host))
        return Plan(self.spec.source, self.spec.digest, tuple(plans), self.spec.secrets)

    def _require_known_tags(self) -> None:
        plays = [play for plays in self._host_plays.values() for play in plays]
        tags = {t for play in plays for task in play.tasks for t in task.tags}
        tags |= {t for play in plays for handler in play.handlers for t in handler.tags}
        tags |= {t for play in self._plays for t in play.tags} | OPTIONAL_TAGS
        unknown = self.options.selection.unknown(tags)
        known = [word for word in unknown if word in self.options.known_tags]
        if known:
            message = f"nothing here has the tag {', '.join(known)}, which kubespray has"
            hint = "--list-tags shows those that there are"
            self._sink(Diagnostic("warning", "tag-unused", message, "--tags, --skip-tags", hint))
        if len(unknown) > len(known):
            unknown = tuple(word for word in unknown if word not in known)
            raise UsageError(
                "tag-unknown",
                f"no task has the tag {', '.join(unknown)}",
                where="--tags, --skip-tags",
                hint="tags: " + ", ".join(sorted(tags)),
            )

    def _plan_host(self, host: HostSpec) -> HostPlan:
        context = self.contexts[host.name]
        resources = list(self._resources(self._host_plays[host.name]))
        with self._phase("observe"):
            states: list[Observed] = self._session.ask(
                host,
                f"looking at {len(resources)} resources",
                "observe",
                resources=[encode(r) for r in resources],
                forgetful=self.options.fresh,
            )
        observed = {r.id: state for r, state in zip(resources, states, strict=True)}
        self.observed[host.name] = observed
        for warning in overridden(host.name, observed):
            self._sink(warning)
        with self._phase("diff"):
            return plan_host(
                context,
                self._host_plays[host.name],
                observed,
                self.options.selection,
                () if self.options.partial else context.facts["ledger"],
            )

    def _resources(self, plays: Sequence[HostPlay]) -> Iterator[Resource]:
        """Give what must be looked at: the chosen tasks' resources, and every handler's unit."""
        if self.options.take_over:
            plays[:] = [replace(p, tasks=tuple(map(_taking_over, p.tasks))) for p in plays]  # type: ignore[index] # a list of our own
        for mine in plays:
            for task in mine.tasks:
                if self.options.selection.takes(task.tags):
                    yield from task.resources
            for handler in mine.handlers:
                yield handler.restart

    def evidence(self, host: str, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask a host what is really there (see :mod:`nidome.agent.evidence`)."""
        found: list[dict[str, Any]] = self._session.agents[host].call("evidence", questions=list(questions))
        return found

    # Doing.

    def apply(self, plan: Plan) -> bool:
        """Carry the plan out; return whether every host succeeded."""
        self._sink(PlanReady(plan.to_json()))
        self._session.each_host(lambda h: self._begin(_of(plan, h)))
        with self._phase("stage"):
            self._session.each_host(lambda h: self._stage(_of(plan, h)))
        runs = {
            h.host.name: HostRun(h, self._session.agents[h.host.name], self._sink, phases=self.phases)
            for h in plan.hosts
        }
        with self._phase("apply"):
            self._play_all(plan, runs)
        ok = not any(run.failed for run in runs.values())
        if ok and self.options.selection.everything and not self.options.partial:
            self._session.each_host(self._declare)
        self.finish({name: run.recap.to_json() for name, run in runs.items()}, ok=ok)
        return ok

    def rehearse(self, plan: Plan) -> bool:
        """Tell what carrying the plan out would do, and touch nothing; return whether it would succeed."""
        self._sink(PlanReady(plan.to_json()))
        runs = {h.host.name: Rehearsal(h, self._sink, self.phases) for h in plan.hosts}
        self._play_all(plan, runs)
        ok = not any(run.failed for run in runs.values())
        self.finish({name: run.recap.to_json() for name, run in runs.items()}, ok=ok)
        return ok

    def _play_all(self, plan: Plan, runs: Mapping[str, HostRun] | Mapping[str, Rehearsal]) -> None:
        """Go through the plays; one that nobody is left for is only announced, and none once all failed."""
        for play in self._plays:
            left = [h for h in plan.hosts if not runs[h.host.name].failed]
            if plan.hosts and not left:
                return
            mine = [h for h in left if play.concerns(h.host, first_hosts(self.spec))]
            self._sink(PlayStarted(play.name, tuple(h.host.name for h in mine), announced(play.name, mine)))
            if any(s.play == play.name for h in mine for s in h.steps):
                self._session.each_host(lambda h: runs[h.name].play(play.name))  # noqa: B023 - called at once

    def _stage(self, plan: HostPlan) -> None:
        """Send the artifacts that the plan installs and the host does not have."""
        wanted = {
            r.sha256
            for s in plan.steps
            for r, d in zip(s.resources, s.differences, strict=True)
            if isinstance(r, Binary | Image) and not d.settled
        }
        if not wanted:
            return
        agent = self._session.agents[plan.host.name]
        missing = agent.call("missing", blobs=sorted(wanted))
        by_sum = {a.sha256: a for a in self._artifacts.values()}
        size, done = sum(by_sum[digest].size for digest in missing), 0
        for digest in missing:
            self._sink(Staging(plan.host.name, done, size))
            agent.put(by_sum[digest].path, digest)
            done += by_sum[digest].size
        if missing:
            self._sink(Staged(plan.host.name, len(missing), size))

    def _declared(self, host: HostSpec) -> dict[str, Any]:
        found: dict[str, Any] = self.contexts[host.name].facts["declared"] or {}
        return found

    def _begin(self, plan: HostPlan) -> None:
        """Note on the host, before its first component changes, which release this run brings."""
        declared, version = self._declared(plan.host), self.spec.kube_version.value
        if begun(declared) != version and _changes_kubernetes(plan):
            values = {**declared, BEGUN: version}
            self._session.agents[plan.host.name].call("declare", values=values)

    def _declare(self, host: HostSpec) -> None:
        values = {VERSION_KEY: __version__, **self.spec.values(), **host.values()}
        resources = self._resources(self._host_plays[host.name])
        holding = [encode(r) for r in resources if getattr(r, "secrets", ())]
        self._session.agents[host.name].call("declare", values=values, resources=holding)

    def finish(self, recap: dict[str, dict[str, int]], *, ok: bool) -> None:
        """Say how it ended."""
        self._sink(RunFinished(recap, time.monotonic() - self._began, dict(self.phases), ok))


def _changes_kubernetes(plan: HostPlan) -> bool:
    return any(
        touches_kubernetes(r for r, d in zip(s.resources, s.differences, strict=True) if not d.settled)
        for s in plan.steps
    )


def _taking_over(task: Any) -> Any:
    resources = tuple(replace(r, take_over=True) if isinstance(r, KubeObject) else r for r in task.resources)
    return replace(task, resources=resources)


def _of(plan: Plan, host: HostSpec) -> HostPlan:
    return next(p for p in plan.hosts if p.host.name == host.name)


def overridden(host: str, observed: Mapping[str, Observed]) -> Iterator[Diagnostic]:
    """Give a warning for each resource that files of somebody else's override."""
    for identity, state in observed.items():
        files = (state or {}).get("$overrides")
        if files:
            yield Diagnostic(
                "warning",
                "unit-overridden",
                f"{', '.join(files)} changes what is declared, and is not Nidome's",
                f"{host}: {identity}",
                "declare it by a variable (docs/variables.md) and remove the file, or keep it knowingly",
            )


def ledger_damaged(host: str, unaccounted: Mapping[str, Sequence[Any]]) -> Iterator[Diagnostic]:
    """Give a warning where a host's ledger does not tell all that Nidome made there."""
    error = unaccounted_for(unaccounted)
    if error is not None:
        yield Diagnostic("warning", error.code, error.message, f"{host}: {error.where}", error.hint)


def begun_at(
    plays: Sequence[Play], host_plays: Mapping[str, list[HostPlay]], selection: Selection
) -> dict[str, list[HostPlay]]:
    """Return the plays without the tasks before the one that the run begins with.

    Handlers stay: a process that has not read its files yet is restarted in any case.
    """
    if not selection.start_at:
        return dict(host_plays)
    titles = [
        (number, task.title)
        for number, play in enumerate(plays)
        for mine in host_plays.values()
        for each in mine
        if each.play is play
        for task in each.tasks
    ]
    first = next((found for found in titles if selection.starts_at(found[1])), None)
    if first is None:
        raise task_unknown(selection.start_at, [title for _, title in titles])
    return {host: [_from(plays, each, *first) for each in mine] for host, mine in host_plays.items()}


def _from(plays: Sequence[Play], mine: HostPlay, number: int, title: str) -> HostPlay:
    here = next(n for n, play in enumerate(plays) if play is mine.play)
    titles = [task.title for task in mine.tasks]
    skipped = titles.index(title) if here == number and title in titles else 0
    return replace(mine, tasks=() if here < number else mine.tasks[skipped:])


def task_unknown(wanted: str, titles: Sequence[str]) -> UsageError:
    """Return the error for a task to begin with that no play has; it names those that are near."""
    text = wanted.strip("*?").lower()
    likeness = {title: _likeness(text, title.lower()) for title in titles}
    found = [title for title in sorted(likeness, key=lambda t: -likeness[t])[:3] if likeness[title] > _LIKE]
    return UsageError(
        "task-unknown",
        f"no task matches '{wanted}'",
        where="--start-at-task",
        hint=f"near: {'; '.join(found)}" if found else "--list-tasks shows them all; * matches anything",
    )


def _likeness(wanted: str, title: str) -> float:
    """Return how like a title is to what was typed: as a whole, by its name, or by one of its words."""
    name = title.partition(" : ")[2]
    forms = (title, name, *(name.split() if " " not in wanted else ()))
    return max(difflib.SequenceMatcher(None, wanted, form).ratio() for form in forms)


def require_same(planned: Mapping[str, Any], now: Plan) -> None:
    """Raise StateError unless a stored plan is what would be planned now."""
    current = now.to_json()
    # What is only waited for comes and goes by itself, and a plan file has more in it than the plan.
    if all(planned.get(key) == value for key, value in current.items() if key != "waiting"):
        return
    hint = "make a new plan: nidome plan -o FILE"
    if planned.get("declaration") != current["declaration"]:
        message = "the declaration is not the one that the plan was made with"
        raise StateError("plan-outdated", message, where=now.cluster, hint=hint)
    moved = [
        host for host in current["hosts"] if planned.get("hosts", {}).get(host) != current["hosts"][host]
    ]
    message = "the hosts have changed since the plan was made, or other options were given"
    raise StateError("plan-outdated", message, where=", ".join(moved) or now.cluster, hint=hint)
