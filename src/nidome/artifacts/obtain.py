"""Bring the artifacts that are asked for into the cache, from the first provider that has them.

Where everything is there already this reads the lock and the index and looks at sizes: a few
milliseconds, nothing hashed, no provider imported.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nidome.artifacts.lock import BinarySpec, ImageSpec, Spec, load_lock
from nidome.artifacts.settings import Artifact
from nidome.artifacts.store import Entry, Key, Store
from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nidome.artifacts.settings import Settings
    from nidome.progress import Progress

__all__ = ["cached", "obtain", "take_user_images", "user_images"]

_USER = "image:"
_LEFT_OVER_SECONDS = 24 * 3600.0


def obtain(
    names: Sequence[str], *, versions: Mapping[str, str], settings: Settings, progress: Progress
) -> dict[str, Artifact]:
    """Return each named artifact, fetched or built where the cache lacks it.

    ``versions`` chooses by component (``kubernetes``) or by name (``kubelet``); what it does not mention
    has the lock's default. ``image:REFERENCE`` names an image that the user added. Raises ArtifactError
    with the reason of each provider; whatever was got until then stays in the cache.
    """
    store = Store(settings.cache)
    lock = load_lock(settings)
    specs = {name: lock.spec(name, versions) for name in names if not name.startswith(_USER)}
    cache = _Cache(store, settings)
    missing = [spec for spec in specs.values() if cache.lookup(spec) is None]
    if missing:
        _Fetch(store, settings, progress).run(missing)
        cache = _Cache(store, settings)
    users = [name for name in names if name.startswith(_USER)]
    if settings.bundle and any(cache.user_image(name) is None for name in users):
        take_user_images(settings, progress)
        cache = _Cache(store, settings)
    found = {name: cache.require(spec) for name, spec in specs.items()}
    found |= {name: cache.require_user_image(name) for name in users}
    return {name: _artifact(found[name], store) for name in names}


def cached(
    names: Sequence[str], *, versions: Mapping[str, str], settings: Settings
) -> dict[str, Artifact | None]:
    """Return what is in the cache for each name; nothing is fetched."""
    store = Store(settings.cache)
    lock = load_lock(settings)
    cache = _Cache(store, settings)
    entries = {name: cache.lookup(lock.spec(name, versions)) for name in names}
    return {name: _artifact(entry, store) if entry else None for name, entry in entries.items()}


def user_images(settings: Settings) -> list[Artifact]:
    """Return the images that the user added for this architecture."""
    store = Store(settings.cache)
    return [
        _artifact(entry, store)
        for entry in store.entries().values()
        if entry.provider == "user" and entry.architecture == settings.architecture
    ]


def take_user_images(settings: Settings, progress: Progress) -> list[Artifact]:
    """Bring the images that the bundle's maker had added of their own into the cache."""
    from nidome.artifacts import bundle  # noqa: PLC0415 - a provider is imported when it is needed

    if settings.bundle is None or "bundle" not in settings.providers:
        return []
    store = Store(settings.cache)
    return [_artifact(entry, store) for entry in bundle.user_images(settings.bundle, store, progress)]


def _artifact(entry: Entry, store: Store) -> Artifact:
    return Artifact(
        name=entry.name,
        version=entry.version,
        kind=entry.kind,
        sha256=entry.sha256,
        size=entry.size,
        path=store.blob(entry.sha256),
        provider=entry.provider,
        reference=entry.reference,
    )


def _key(spec: Spec) -> Key:
    return (spec.name, spec.version, spec.architecture)


@dataclass
class _Cache:
    """What the index had when it was read."""

    store: Store
    settings: Settings
    entries: dict[Key, Entry] = field(init=False)
    _digests: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = self.store.entries()

    def lookup(self, spec: Spec) -> Entry | None:
        """Return the entry if it is still what the lock asks for, from a provider in use, and whole."""
        entry = self.entries.get(_key(spec))
        if entry is None or entry.provider not in self.settings.providers:
            return None
        if not self.store.has(entry.sha256, entry.size):
            return None
        return entry if self._current(entry, spec) else None

    def require(self, spec: Spec) -> Entry:
        """Return the entry or raise: it was there a moment ago."""
        entry = self.lookup(spec)
        if entry is None:
            raise ArtifactError(
                "cache-changed",
                f"{spec.name} {spec.version} has gone from the cache",
                where=str(self.store.root),
                hint="something else removes files there; run it again",
            )
        return entry

    def user_image(self, name: str) -> Entry | None:
        """Return the entry of ``image:REFERENCE``, if a user added that for this architecture."""
        for entry in self.entries.values():
            mine = entry.provider == "user" and entry.architecture == self.settings.architecture
            if mine and entry.name == name and self.store.has(entry.sha256, entry.size):
                return entry
        return None

    def require_user_image(self, name: str) -> Entry:
        """Return the entry of a user's image or raise."""
        entry = self.user_image(name)
        if entry is None:
            raise ArtifactError(
                "artifact-unknown",
                f"no image '{name.removeprefix(_USER)}' was added for {self.settings.architecture}",
                hint="nidome artifacts image add FILE",
            )
        return entry

    def _current(self, entry: Entry, spec: Spec) -> bool:
        if entry.provider == "bundle":
            return True  # its maker decided; the manifest's checksum holds
        if isinstance(spec, ImageSpec):
            binary = self.lookup(spec.binary)
            return binary is not None and entry.recipe == spec.digest(binary.sha256)
        if entry.provider == "release":
            pinned = spec.download.sha256 if spec.download else ""
            return entry.recipe == pinned if pinned else entry.sums == "server"
        return spec.recipe is not None and entry.recipe == self._digest(spec)

    def _digest(self, spec: BinarySpec) -> str:
        if spec.recipe is None:
            return ""
        key = f"{spec.component}/{spec.version}"
        if key not in self._digests:
            self._digests[key] = spec.recipe.digest()
        return self._digests[key]


_Outcome = tuple[list[Entry], dict[str, str]]


class _Fetch:
    """One run over the providers, for what the cache lacks."""

    def __init__(self, store: Store, settings: Settings, progress: Progress) -> None:
        self._store = store
        self._settings = settings
        self._progress = progress
        self._reasons: dict[str, dict[str, str]] = {}

    def run(self, missing: Sequence[Spec]) -> None:
        """Get everything or raise; one process at a time does so for a cache."""
        with self._alone():
            cache = _Cache(self._store, self._settings)
            missing = [spec for spec in missing if cache.lookup(spec) is None]
            if "bundle" in self._settings.providers and self._settings.bundle:
                missing = self._from_bundle(missing)
            binaries = {spec.name: spec for spec in missing if isinstance(spec, BinarySpec)}
            images = [spec for spec in missing if isinstance(spec, ImageSpec)]
            for image in images:
                if cache.lookup(image.binary) is None:
                    binaries.setdefault(image.binary.name, image.binary)
            self._binaries(list(binaries.values()))
            self._images(images)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the cache's fetch lock; while another process has it, that is what the progress says."""
        with ExitStack() as stack:
            with self._progress.item("wait for another nidome that fills the same cache"):
                stack.enter_context(self._store.exclusive("fetch"))
            self._clear_left_overs()
            yield

    def _clear_left_overs(self) -> None:
        """Remove what killed processes left behind, a day later."""
        import shutil  # noqa: PLC0415 - only where something is missing

        limit = time.time() - _LEFT_OVER_SECONDS
        for path in (*self._store.temporary().iterdir(), *self._store.partials()):
            if path.stat().st_mtime < limit:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _from_bundle(self, specs: Sequence[Spec]) -> list[Spec]:
        from nidome.artifacts import bundle  # noqa: PLC0415 - a provider is imported when it is needed

        assert self._settings.bundle is not None  # noqa: S101 - the caller has looked
        entries, reasons = bundle.fetch(specs, self._store, self._settings.bundle, self._progress)
        self._note("bundle", reasons)
        got = {entry.name for entry in entries}
        return [spec for spec in specs if spec.name not in got]

    def _binaries(self, missing: Sequence[BinarySpec]) -> None:
        for name, provide in self._providers():
            if not missing:
                return
            entries, reasons = provide(missing)
            self._note(name, reasons)
            got = {entry.name for entry in entries}
            missing = [spec for spec in missing if spec.name not in got]
        if missing:
            raise self._unavailable(missing)

    def _providers(self) -> Iterator[tuple[str, Callable[[Sequence[BinarySpec]], _Outcome]]]:
        store, settings, progress = self._store, self._settings, self._progress
        for name in settings.providers:
            if name == "release":
                from nidome.artifacts import release  # noqa: PLC0415 - as for the bundle

                yield name, lambda specs: release.fetch(specs, store, settings, progress)
            elif name == "build":
                from nidome.artifacts import gobuild  # noqa: PLC0415 - as for the bundle

                yield name, lambda specs: gobuild.fetch(specs, store, settings, progress)

    def _images(self, specs: Sequence[ImageSpec]) -> None:
        from nidome.artifacts.images import make_image  # noqa: PLC0415 - only where one is made

        cache = _Cache(self._store, self._settings)
        self._store.record([make_image(spec, cache.require(spec.binary), self._store) for spec in specs])

    def _note(self, provider: str, reasons: Mapping[str, str]) -> None:
        for name, reason in reasons.items():
            self._reasons.setdefault(name, {})[provider] = reason

    def _unavailable(self, missing: Sequence[BinarySpec]) -> ArtifactError:
        lines = []
        for spec in missing:
            reasons = self._reasons.get(spec.name, {})
            tried = "; ".join(f"{provider}: {reason}" for provider, reason in reasons.items())
            lines.append(f"{spec.name} {spec.version} ({spec.architecture}): {tried or 'no provider'}")
        return ArtifactError(
            "artifact-unavailable",
            "no provider has\n  " + "\n  ".join(lines),
            hint="a bundle made elsewhere (`nidome artifacts bundle`) can be given with --bundle; "
            f"providers in use: {', '.join(self._settings.providers)}",
        )
