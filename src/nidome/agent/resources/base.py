"""What every resource kind shares: identity, encoding, and the marks an observation can carry."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Collection, Dict, FrozenSet, Mapping, Optional, Tuple

__all__ = ["Observed", "PathResource", "Resource", "encode", "failed", "freeze", "unobservable"]

Observed = Optional[Dict[str, Any]]
"""Attributes found on the host, or None where the thing does not exist."""


@dataclasses.dataclass(frozen=True)
class Resource:
    """Something that must be so on a host.

    A kind's :meth:`desired` gives the attributes that must hold; its module's ``observe`` gives the
    same attributes as found. The engine compares the two without touching a host.
    """

    kind: ClassVar[str] = ""

    @property
    def key(self) -> str:
        """What the resource is about: a path, a unit's name, an object's address."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        """The kind and the key: unique on a host, and the name under which the ledger keeps it."""
        return f"{self.kind}:{self.key}"

    def desired(self) -> Dict[str, Any]:
        """Return the attributes that must hold; comparing them to the observed ones is the diff."""
        raise NotImplementedError

    @property
    def paths(self) -> Tuple[str, ...]:
        """Files this resource writes: units that read them are restarted when they change."""
        return ()

    def rewrites(self, attributes: Collection[str]) -> Tuple[str, ...]:
        """Return those of ``paths`` whose content is new once these attributes are as they must be."""
        return self.paths if attributes else ()

    @property
    def reads(self) -> Tuple[str, ...]:
        """Files that what must be depends on: what an earlier task makes of them is not known before."""
        return ()


@dataclasses.dataclass(frozen=True)
class PathResource(Resource):
    """What is kept in one file, at ``path``; a difference in ``content_attributes`` writes the file anew."""

    content_attributes: ClassVar[FrozenSet[str]] = frozenset({"content", "sha256"})
    path: str

    @property
    def key(self) -> str:
        """The path."""
        return self.path

    @property
    def paths(self) -> Tuple[str, ...]:
        """The path itself."""
        return (self.path,)

    def rewrites(self, attributes: Collection[str]) -> Tuple[str, ...]:
        """Return the path where the content is to change."""
        return self.paths if self.content_attributes & set(attributes) else ()


def encode(resource: Resource) -> Dict[str, Any]:
    """Return the resource as plain data for the wire."""
    return {"kind": resource.kind, **dataclasses.asdict(resource)}


def unobservable(reason: str) -> Dict[str, Any]:
    """Return an observation that says why nothing can be said."""
    return {"$unobservable": reason}


def failed(error: Mapping[str, str]) -> Dict[str, Any]:
    """Return an observation that carries an error (the form of ``NidomeError.to_json``)."""
    return {"$error": dict(error)}


def freeze(value: Any) -> Any:
    """Turn a JSON list back into the tuple that a frozen dataclass holds."""
    return tuple(value) if isinstance(value, list) else value
