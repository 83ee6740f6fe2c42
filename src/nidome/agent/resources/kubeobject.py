"""An object in the Kubernetes API, kept by server-side apply."""

from __future__ import annotations

import copy
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple

from nidome.agent import hiding
from nidome.agent.kube import object_path
from nidome.agent.resources.base import Observed, Resource, failed, unobservable
from nidome.agent.resources.restarts import keeps_ending, seconds_up
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host
    from nidome.agent.kube import Api

__all__ = ["KubeObject", "apply", "note", "observe", "remove", "service_up", "wait_for_api"]

_START_SECONDS = 60.0
_LOOKS = 5
_VOLATILE = ("managedFields", "resourceVersion", "generation")
FILE_REFERENCE = "$file"


@dataclass(frozen=True)
class KubeObject(Resource):
    """The API holds an object with these fields; fields that the manifest does not name belong to others.

    ``access`` is the API server's URL, CA, certificate and key. A value ``{"$file": PATH, "part": N}`` in the
    manifest stands for a file of this host (its N-th dot-separated part), so that secrets stay on it.
    ``unit`` is the API server's unit and ``store`` the store's data: where there is no data, no object
    exists; where there is and the API is down, nothing can be said. ``patch`` never creates the object.
    ``secrets`` are texts in the manifest that are never shown.
    """

    kind: ClassVar[str] = "KubeObject"
    manifest: Dict[str, Any]
    access: Tuple[str, str, str, str]
    unit: str
    store: str
    patch: bool = False
    take_over: bool = field(default=False, compare=False)
    secrets: Tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Kind, namespace and name, with the API path that they have."""
        return object_path(self.manifest)

    @property
    def reads(self) -> Tuple[str, ...]:
        """The files whose content is in the object."""
        return tuple(_referred(self.manifest))

    def desired(self) -> Dict[str, Any]:
        """Return the one attribute: the API server itself says whether applying would change anything."""
        return {"in sync": True}


def _referred(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if FILE_REFERENCE in value:
            yield value[FILE_REFERENCE]
        for inner in value.values():
            yield from _referred(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _referred(inner)


def _resolve(value: Any) -> Any:
    if isinstance(value, dict):
        if FILE_REFERENCE in value:
            with open(value[FILE_REFERENCE], encoding="utf-8") as source:
                text = source.read().strip()
            return text.split(".")[value["part"]] if "part" in value else text
        return {k: _resolve(v) for k, v in value.items()}
    return [_resolve(v) for v in value] if isinstance(value, list) else value


def _bare(thing: Dict[str, Any]) -> Dict[str, Any]:
    """Return what an apply can change: not the status, nor what the server counts."""
    bare = copy.copy(thing)
    bare.pop("status", None)
    bare["metadata"] = {k: v for k, v in thing["metadata"].items() if k not in _VOLATILE}
    return bare


def _differences(before: Any, after: Any, path: str = "") -> Iterator[List[Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from _differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif before != after:
        yield [path, before, after]


def service_up(resource: Any, host: Host) -> Optional[Dict[str, Any]]:
    """Return why objects cannot be seen now, None where they can; wait for an API server that is starting."""
    if not host.comes_up(resource.unit):
        return unobservable(f"{resource.unit} is not running, and the store has data")
    # A unit that is up listens; where nothing answers then, it does so elsewhere.
    active = host.unit(resource.unit).get("ActiveState") == "active"
    hopeless = (*_HOPELESS, "api-unreachable") if active else _HOPELESS
    try:
        wait_for_api(host.api(resource.access), _patience(resource.unit, host), hopeless)
    except ResourceError as error:
        return unobservable(f"the API server does not answer: {error.message}")
    return None


def _patience(unit: str, host: Host) -> float:
    """Return for how many seconds a look may wait: a unit that keeps ending is not waited for."""
    shown = host.unit(unit)
    return 0.0 if keeps_ending(shown) else max(0.0, _START_SECONDS - seconds_up(shown))


# Certificates that are wrong now do not become right by waiting.
_HOPELESS = ("api-credentials", "api-untrusted")


def wait_for_api(api: Api, seconds: float, hopeless: Sequence[str] = ()) -> None:
    """Wait until the API server says that it is ready; raise ResourceError with what it last said.

    An error whose code is ``hopeless`` is raised at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            status, answer = api.request("GET", "/readyz", timeout=5)
            if status == 200:  # noqa: PLR2004 - HTTP OK
                return
            said = str(answer)
        except ResourceError as error:
            if error.code in hopeless:
                raise
            said = error.message
        if time.monotonic() > deadline:
            raise ResourceError(
                "api-not-ready",
                f"the API server is not ready after {seconds:.0f} s: {said[-300:]}",
                where=api.server,
                hint="nidome logs kube-apiserver",
            )
        time.sleep(0.025)


def observe(resources: Sequence[KubeObject], host: Host) -> List[Observed]:
    """Compare each object with what applying it would give."""
    if not resources:
        return []
    first = resources[0]
    if not os.path.exists(first.store):
        return [None for _ in resources]
    down = service_up(first, host)
    return [down or _observe_one(resource, host) for resource in resources]


def _observe_one(resource: KubeObject, host: Host) -> Observed:
    api = host.api(resource.access)
    missing = [path for path in resource.reads if not os.path.exists(path)]
    if missing:
        return unobservable(f"{', '.join(missing)} is not there yet")
    try:
        live, wanted = _both(resource, api)
    except ResourceError as error:
        return failed(error.to_json())
    if live is None or wanted is None:
        return None
    changes = list(_differences(_bare(live), _bare(wanted)))
    return {"in sync": not changes, "$fields": _shown(resource, changes, host)}


def _both(resource: KubeObject, api: Api) -> Tuple[Optional[Dict[str, Any]], Optional[Dict[str, Any]]]:
    """Return the object as it is and as applying would make it, of one and the same version of it."""
    live = wanted = None
    for _ in range(_LOOKS):
        live = api.get(resource.key)
        if live is None:
            return None, None
        wanted = api.apply(_resolve(resource.manifest), dry_run=True, force=resource.take_over)
        if wanted["metadata"].get("resourceVersion") == live["metadata"]["resourceVersion"]:
            break
        # A controller changed it between the two questions.
    return live, wanted


def _shown(resource: KubeObject, changes: List[List[Any]], host: Host) -> List[List[Any]]:
    """Return the differences as far as they may be shown: what held a secret when it was applied, may not."""
    hidden = (host.ledger.entries.get(resource.id) or {"data": None})["data"]
    return [
        [path, *(_told(resource, path, side, (hidden or {}).get("hidden", ())) for side in sides)]
        for path, *sides in changes
    ]


def _told(resource: KubeObject, path: str, value: Any, hidden: Sequence[str]) -> Any:
    if value is None:
        return None
    if resource.manifest["kind"] == "Secret":
        return hiding.HIDDEN
    return hiding.without(value, hidden, resource.secrets, path)


def note(resource: KubeObject, host: Host) -> None:
    """Enter the object in the ledger, with the fields that hold secrets, or have held them."""
    known = (host.ledger.entries.get(resource.id) or {}).get("data") or {}
    holding = {
        path for path, text in hiding.leaves(resource.manifest) if hiding.places(text, resource.secrets)
    }
    hidden = sorted({*known.get("hidden", ()), *holding})
    data: Dict[str, Any] = {"access": list(resource.access)}
    host.ledger.add(resource.kind, resource.key, data={**data, "hidden": hidden} if hidden else data)


def apply(resource: KubeObject, host: Host) -> None:
    """Apply the manifest on the server's side."""
    api = host.api(resource.access)
    wait_for_api(api, 120)
    if resource.patch and api.get(resource.key) is None:
        raise ResourceError(
            "object-missing",
            "the object to be labelled does not exist",
            where=resource.key,
            hint="nidome logs kubelet says why the node has not registered",
        )
    if not resource.patch:
        note(resource, host)
    _apply_when_possible(resource, api)


def _apply_when_possible(resource: KubeObject, api: Api) -> None:
    """Apply; an API server in its first second may lack a namespace or an account that it makes itself."""
    deadline = time.monotonic() + 15
    while True:
        try:
            api.apply(_resolve(resource.manifest), force=resource.take_over)
        except ResourceError as error:
            early = error.code == "api-refused" and (
                "HTTP 404" in error.message or "HTTP 403" in error.message
            )
            if not early or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def remove(entry: Dict[str, Any], host: Host) -> None:
    """Delete the object."""
    host.api(entry["data"]["access"]).delete(entry["key"])
