"""Compare what must be with what was found. Pure: nothing here touches a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nidome.agent.hiding import HIDDEN, hide

if TYPE_CHECKING:
    from nidome.agent.resources.base import Observed, Resource

__all__ = ["Change", "Delta", "Difference", "compare"]

_ACTIONS = {"Restart": "restart"}
_TEXTS = {"File": "content", "Unit": "text"}


@dataclass(frozen=True)
class Delta:
    """One attribute: as found and as it must be. Texts are compared line by line by whoever shows them."""

    attribute: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        """Return the delta as plain data."""
        return {"attribute": self.attribute, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Change:
    """What will be done to one resource: ``action`` is create, update, restart or delete."""

    resource: str
    action: str
    deltas: tuple[Delta, ...] = ()
    because: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {
            "resource": self.resource,
            "action": self.action,
            "deltas": [d.to_json() for d in self.deltas],
            "because": list(self.because),
        }


@dataclass(frozen=True)
class Difference:
    """The outcome of a comparison; all empty where the resource is as it must be.

    ``change`` is certain. ``unknown`` says why nothing can be said. ``waiting`` says what a condition still
    lacks: waiting for it changes nothing. ``error`` is a NidomeError as data.
    """

    change: Change | None = None
    unknown: str = ""
    waiting: str = ""
    error: dict[str, str] | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do."""
        return self == Difference()


def compare(resource: Resource, observed: Observed) -> Difference:
    """Return how what was found differs from what must be."""
    desired = resource.desired()
    if observed is None:
        deltas = (
            () if resource.kind in _TEXTS else tuple(Delta(k, None, v) for k, v in sorted(desired.items()))
        )
        return Difference(Change(resource.id, "create", deltas or _new_text(resource)))
    if "$unobservable" in observed:
        return Difference(unknown=observed["$unobservable"])
    if "$error" in observed:
        return Difference(error=observed["$error"])
    different = {k: v for k, v in desired.items() if observed.get(k) != v}
    if not different:
        return Difference()
    if resource.kind == "Condition":
        return Difference(waiting=observed.get("$detail") or "it does not hold")
    action = _ACTIONS.get(resource.kind, "update")
    return Difference(Change(resource.id, action, tuple(_deltas(resource, observed, different))))


def _new_text(resource: Resource) -> tuple[Delta, ...]:
    return (Delta(_TEXTS[resource.kind], None, _text(resource)),)


def _text(resource: Resource) -> str:
    """Return a resource's text, as it may be shown."""
    text: str = getattr(resource, _TEXTS[resource.kind])
    return hide(text, getattr(resource, "secrets", ()))


def _deltas(resource: Resource, observed: dict[str, Any], different: dict[str, Any]) -> list[Delta]:
    if "$fields" in observed:
        return [Delta(path, before, after) for path, before, after in observed["$fields"]]
    deltas = []
    for name, wanted in sorted(different.items()):
        if name == "sha256" and resource.kind in _TEXTS:
            deltas.append(_text_delta(resource, observed))
        else:
            found = (
                observed.get("$state") if name == "running" and "$state" in observed else observed.get(name)
            )
            deltas.append(Delta(name, found, wanted))
    return deltas


def _text_delta(resource: Resource, observed: dict[str, Any]) -> Delta:
    name = _TEXTS[resource.kind]
    if observed.get("$hidden"):
        return Delta(name, HIDDEN, HIDDEN)
    if "$text" not in observed:
        return Delta(name, f"sha256 {observed.get('sha256')}", f"sha256 {resource.desired()['sha256']}")
    return Delta(name, observed["$text"], _text(resource))
