"""Why a value is what it is: what it reaches on a host, and whether it is in force there."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nidome.agent.hiding import hide
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit
from nidome.agent.system import DIRECTORY
from nidome.prove.origins import alternatives, model_field
from nidome.prove.reach import cited, reach
from nidome.roles.base import InstalledArtifact
from nidome.roles.playbook import CLUSTER, artifact_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nidome.agent.resources.base import Observed, Resource
    from nidome.declare.resolve import Declaration
    from nidome.engine.diff import Difference
    from nidome.engine.plan import HostPlan
    from nidome.engine.run import Run
    from nidome.model.spec import ClusterSpec
    from nidome.prove.reach import Place, Reached
    from nidome.roles.base import HostContext

    _Live = Callable[[Any, Place, Mapping[str, Any]], "Found"]

__all__ = ["Effect", "Found", "effects", "look", "questions"]

IN_FORCE = "in force"
NOT_APPLIED = "not yet applied"
NOT_READ = "not yet read"
OVERRIDDEN = "overridden"
ABSENT = "not wanted"
UNKNOWN = "not known"


@dataclass(frozen=True)
class Found:
    """A place that holds the value, and the live value there; None where nothing of the kind is there."""

    where: str
    wanted: str
    live: str | None


@dataclass(frozen=True)
class Effect:
    """What a value does to one resource of a task, and whether that is so now.

    ``state`` is "in force", "not yet applied", "not yet read" (a process runs with what it read before),
    "overridden" (by somebody's drop-in) or "not known"; "not wanted" is what another value would bring
    about. ``detail`` says more.
    """

    task: str
    tags: tuple[str, ...]
    resource: str
    state: str
    detail: str
    found: tuple[Found, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the effect as plain data."""
        return {
            "task": self.task,
            "tags": list(self.tags),
            "resource": self.resource,
            "state": self.state,
            "detail": self.detail,
            "places": [{"where": f.where, "wanted": f.wanted, "live": f.live} for f in self.found],
        }


def look(key: str, declaration: Declaration, run: Run, plan: HostPlan) -> list[Effect]:
    """Return what a value does on a planned host, with what is live there asked of it."""
    host = plan.host.name
    base = run.contexts[host]
    reached = _reached(key, declaration, base)
    asked = questions(reached)
    answers = run.evidence(host, asked) if asked else []
    told = {question["id"]: answer for question, answer in zip(asked, answers, strict=True)}
    return effects(reached, plan, run.observed[host], told)


def _reached(key: str, declaration: Declaration, base: HostContext) -> list[Reached]:
    """Return what the first other value makes a difference for that makes one at all."""
    field, others = model_field(key), 0
    for others, other in enumerate(alternatives(key, declaration, base.host.name), start=1):  # noqa: B007 - counted
        reached = reach(base, _with(base, other), CLUSTER)
        if reached:
            return reached
    return cited(base, CLUSTER, field) if field and not others else []


def _with(base: HostContext, other: ClusterSpec) -> HostContext:
    """Return the host's context with another declaration, and any artifact for what only that one needs."""
    have, version = base.artifacts, base.spec.kube_version.value
    gone = [n for n, a in have.items() if a.version == version != other.kube_version.value]
    missing = [name for name in artifact_names(CLUSTER, other) if name not in have]
    any_other = InstalledArtifact(other.kube_version.value, "0" * 64)
    artifacts = {**have, **dict.fromkeys([*gone, *missing], any_other)}
    return replace(base, spec=other, host=other.host(base.host.name), artifacts=artifacts)


def questions(reached: Sequence[Reached]) -> list[dict[str, Any]]:
    """Return what a host must be asked for the live values, each question once."""
    asked: dict[str, dict[str, Any]] = {}
    for each in reached:
        resource = each.resource
        if isinstance(resource, File):
            asked[resource.id] = {"file": resource.path, "secrets": list(resource.secrets)}
        elif isinstance(resource, Unit):
            asked[resource.id] = {"unit": resource.name, "secrets": list(resource.secrets)}
        elif isinstance(resource, KubeObject) and resource.manifest["kind"] != "Secret":
            asked[resource.id] = {
                "object": resource.key,
                "access": list(resource.access),
                "secrets": list(resource.secrets),
            }
    return [{**question, "id": identity} for identity, question in asked.items()]


def effects(
    reached: Sequence[Reached],
    plan: HostPlan,
    observed: Mapping[str, Observed],
    answers: Mapping[str, Mapping[str, Any]],
) -> list[Effect]:
    """Return each reached resource's state on a host: by its plan, by what was observed and answered."""
    differences = {
        r.id: d for s in plan.steps for r, d in zip(s.resources, s.differences, strict=True) if not s.handler
    }
    return [_effect(each, differences, observed, answers) for each in reached]


def _effect(
    each: Reached,
    differences: Mapping[str, Difference],
    observed: Mapping[str, Observed],
    answers: Mapping[str, Mapping[str, Any]],
) -> Effect:
    resource = each.resource
    if each.absent:
        return Effect(
            each.task.title, each.task.tags, resource.id, ABSENT, "with another value it would be", ()
        )
    live: _Live = _LIVE.get(resource.kind, _no_live)
    answer = answers.get(resource.id, {})
    found = tuple(live(resource, place, answer) for place in each.places)
    state, detail = _state(resource, differences.get(resource.id), observed)
    if state == NOT_APPLIED and found and all(place.live == place.wanted for place in found):
        # What else differs in the resource is not this value's.
        state, detail = _read_state(resource, observed)
    overrides = (observed.get(resource.id) or {}).get("$overrides")
    if state == IN_FORCE and overrides and any(place.live != place.wanted for place in found):
        state, detail = OVERRIDDEN, f"{', '.join(overrides)} changes the unit"
    return Effect(each.task.title, each.task.tags, resource.id, state, detail, found)


def _state(
    resource: Resource, difference: Difference | None, observed: Mapping[str, Observed]
) -> tuple[str, str]:
    if difference is None:
        return UNKNOWN, "the task was not looked at"
    unknown = difference.error["message"] if difference.error else difference.unknown or difference.waiting
    if unknown:
        return UNKNOWN, unknown
    if difference.change:
        return NOT_APPLIED, "nidome apply"
    return _read_state(resource, observed)


def _read_state(resource: Resource, observed: Mapping[str, Observed]) -> tuple[str, str]:
    """Return the state of a value that stands where it must."""
    late = [unit for unit, stale in _stale(observed) if stale & _read_from(resource)]
    if late:
        return NOT_READ, f"{', '.join(late)} runs with what it read before: nidome apply"
    return IN_FORCE, ""


def _stale(observed: Mapping[str, Observed]) -> Iterator[tuple[str, set[str]]]:
    for identity, state in observed.items():
        kind, _, unit = identity.partition(":")
        if kind == "Restart" and state and state.get("$running"):
            yield unit, set(state["stale"])


def _read_from(resource: Resource) -> set[str]:
    return {f"{DIRECTORY}/{resource.name}"} if isinstance(resource, Unit) else set(resource.paths)


# The live value at a place.


def _no_live(resource: Resource, place: Place, answer: Mapping[str, Any]) -> Found:
    del answer
    del resource
    return Found(place.name, place.text, None)


def _in_file(resource: File, place: Place, answer: Mapping[str, Any]) -> Found:
    where = f"{resource.path}:{place.line}"
    if "text" not in answer:
        return Found(where, place.text, None)
    return Found(
        where, place.text, _aligned(hide(resource.content, resource.secrets), answer["text"], place.line)
    )


def _aligned(wanted: str, live: str, line: int) -> str | None:
    """Return the line of a live text that stands where this line of the wanted one would stand."""
    lines, found, index = wanted.splitlines(), live.splitlines(), line - 1
    blocks = difflib.SequenceMatcher(a=lines, b=found, autojunk=False).get_opcodes()
    first, last = next((j1, j2) for _, i1, i2, j1, j2 in blocks if i1 <= index < i2)
    near = difflib.get_close_matches(lines[index], found[first:last], n=1, cutoff=0)
    return near[0].strip() if near else None


def _in_process(resource: Unit, place: Place, answer: Mapping[str, Any]) -> Found:
    """Return the argument of the running process that has the flag's name."""
    wanted = place.text.removesuffix("\\").strip().strip('"')
    if not wanted.startswith("-"):
        return Found(f"{DIRECTORY}/{resource.name}:{place.line}", wanted, None)
    flag = wanted.partition("=")[0]
    live = [word for word in answer.get("argv", ()) if word.partition("=")[0] == flag]
    return Found(f"process of {resource.name}", wanted, live[-1] if live else None)


def _in_object(resource: KubeObject, place: Place, answer: Mapping[str, Any]) -> Found:
    where = f"{resource.key} {place.name}"
    live = _field(answer.get("object"), place.path)
    if live is None:
        return Found(where, place.text, None)
    if place.line and isinstance(live, str):
        wanted = hide(_field(resource.manifest, place.path), resource.secrets)
        return Found(f"{where}:{place.line}", place.text, _aligned(wanted, live, place.line))
    return Found(where, place.text, live if isinstance(live, str) else json.dumps(live))


def _field(thing: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        try:
            thing = thing[step]
        except (KeyError, IndexError, TypeError):
            return None
    return thing


_LIVE: dict[str, _Live] = {
    "File": _in_file,
    "KubeObject": _in_object,
    "Unit": _in_process,
}
