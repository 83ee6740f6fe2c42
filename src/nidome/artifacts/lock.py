"""The lock: every binary and image by name, with versions, sources, checksums and recipes.

``lock.json`` beside this module is the default. A user's file of the same shape is laid over it, key by
key; it may also be put into the cache directory. Nothing here touches the network or the cache.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nidome.artifacts.settings import Settings

__all__ = ["BinarySpec", "Download", "ImageSpec", "Lock", "Recipe", "Spec", "load_lock"]

_HERE = Path(__file__).parent
BUILD = _HERE / "build"
_TOP_LEVEL = {"format", "toolchain", "sources", "components", "images"}
_SUM = re.compile(r"[0-9a-f]{64}")
_IMAGE_FORMAT = "oci-image/1"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]*")


@dataclass(frozen=True)
class Download:
    """A file of a release: its address, its pinned checksum ("" if none is known), and where sums are."""

    source: str
    url: str
    sums_url: str
    sha256: str

    @property
    def filename(self) -> str:
        """Return the last part of the address."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Recipe:
    """How a component is built: a directory with go.mod and go.sum, what to build in it, and how."""

    component: str
    version: str
    directory: Path
    main: Path | None
    packages: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    ldflags: tuple[str, ...]
    cgo: bool
    libraries: tuple[str, ...]
    toolchain: str

    @property
    def documented(self) -> tuple[str, ...]:
        """Return the packages whose terms go with the binary: C libraries, linked in statically."""
        return (*(f"{library}-dev" for library in self.libraries), "libc6-dev") if self.cgo else ()

    def files(self) -> dict[str, Path]:
        """Return the files of the build directory by the name they have there."""
        files = {"go.mod": self.directory / "go.mod"}
        sums = self.directory / "go.sum"
        if sums.exists():  # a module without requirements has none
            files["go.sum"] = sums
        if self.main:
            files["main.go"] = self.main
        return files

    def digest(self) -> str:
        """Return a checksum of everything that decides what comes out."""
        digest = hashlib.sha256(
            repr((self.packages, self.tags, self.ldflags, self.cgo, self.toolchain)).encode()
        )
        for name, path in self.files().items():
            digest.update(name.encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class BinarySpec:
    """A binary of one version for one architecture, and the ways to get it."""

    name: str
    version: str
    architecture: str
    component: str
    licence: str
    download: Download | None
    member: str
    recipe: Recipe | None
    output: str
    kind: str = "binary"


@dataclass(frozen=True)
class ImageSpec:
    """An image made from one binary. ``user`` is ``uid:gid``."""

    name: str
    version: str
    architecture: str
    binary: BinarySpec
    reference: str
    user: str
    capabilities: str
    kind: str = "image"

    @property
    def component(self) -> str:
        """Return the component its binary belongs to."""
        return self.binary.component

    def digest(self, binary_sha256: str) -> str:
        """Return a checksum of what decides the archive's content."""
        parts = (
            _IMAGE_FORMAT,
            binary_sha256,
            self.reference,
            self.user,
            self.capabilities,
            self.architecture,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


Spec = BinarySpec | ImageSpec


@dataclass(frozen=True)
class Lock:
    """The lock's data; specs are made for the names that are asked for."""

    data: Mapping[str, Any]
    base_urls: Mapping[str, str]
    architecture: str

    def names(self) -> list[str]:
        """Return every name, binaries first, in the order of the lock."""
        binaries = [name for c in self.data["components"].values() for name in c["binaries"]]
        return [*binaries, *self.data["images"]]

    def versions(self, component: str) -> list[str]:
        """Return the versions of a component, the default first."""
        entry = self._component(component)
        return sorted(entry["versions"], key=lambda v: v != entry["default"])

    def components(self) -> Iterator[str]:
        """Return the names that ``versions`` may choose for."""
        return iter(self.data["components"])

    def spec(self, name: str, versions: Mapping[str, str]) -> Spec:
        """Return what ``name`` stands for with these versions; raise where there is no such thing."""
        if name in self.data["images"]:
            return self._image(name, versions)
        for component, entry in self.data["components"].items():
            if name in entry["binaries"]:
                return self._binary(name, component, versions)
        raise ArtifactError(
            "artifact-unknown",
            f"no artifact '{name}'",
            hint="`nidome artifacts list` shows the names",
        )

    def _component(self, component: str) -> dict[str, Any]:
        try:
            entry: dict[str, Any] = self.data["components"][component]
        except KeyError:
            raise ArtifactError(
                "artifact-unknown",
                f"no component '{component}'",
                hint=f"components: {', '.join(self.data['components'])}",
            ) from None
        return entry

    def _image(self, name: str, versions: Mapping[str, str]) -> ImageSpec:
        entry = self.data["images"][name]
        chosen = versions if name not in versions else {**versions, entry["binary"]: versions[name]}
        binary = self.spec(entry["binary"], chosen)
        assert isinstance(binary, BinarySpec)  # noqa: S101 - the lock's own shape, not input
        return ImageSpec(
            name=name,
            version=binary.version,
            architecture=self.architecture,
            binary=binary,
            reference=entry["reference"].format(version=binary.version),
            user=entry["user"],
            capabilities=entry.get("capabilities", ""),
        )

    def _version(self, name: str, component: str, versions: Mapping[str, str]) -> str:
        entry = self._component(component)
        version = (versions.get(name) or versions.get(component) or entry["default"]).removeprefix("v")
        if version not in entry["versions"]:
            raise ArtifactError(
                "artifact-version-unknown",
                f"{component} {version} is not in the lock",
                where=name,
                hint=f"locked: {', '.join(self.versions(component))}; "
                "another one can be added with --lock FILE (docs/artifacts.md)",
            )
        return str(version)

    def _binary(self, name: str, component: str, versions: Mapping[str, str]) -> BinarySpec:
        entry = self._component(component)
        version = self._version(name, component, versions)
        binary = entry["binaries"][name]
        words = {"version": version, "arch": self.architecture}
        return BinarySpec(
            name=name,
            version=version,
            architecture=self.architecture,
            component=component,
            licence=entry["licence"],
            download=self._download(entry, binary["download"], words),
            member=binary.get("member", "").format(**words),
            recipe=self._recipe(component, entry, version),
            output=binary["output"],
        )

    def _download(self, entry: dict[str, Any], label: str, words: dict[str, str]) -> Download | None:
        if not label:
            return None
        download = entry["downloads"][label]
        source = download["source"]
        base = (self.base_urls.get(source) or self.data["sources"][source]).rstrip("/")
        pinned = entry["versions"][words["version"]].get("sha256", {}).get(label, {})
        return Download(
            source=base,
            url=f"{base}/{download['path'].format(**words)}",
            sums_url=f"{base}/{download['sums'].format(**words)}",
            sha256=pinned.get(words["arch"], ""),
        )

    def _recipe(self, component: str, entry: dict[str, Any], version: str) -> Recipe | None:
        recipe = entry["versions"][version].get("recipe", "")
        build = entry.get("build")
        if not (recipe and build):
            return None
        major, minor = (*version.split("."), "0")[:2]
        return Recipe(
            component=component,
            version=version,
            directory=BUILD / recipe,  # a user's lock has made it absolute
            main=BUILD / build["main"] if "main" in build else None,
            packages=tuple(build["packages"].items()),
            tags=tuple(build.get("tags", ())),
            ldflags=tuple(f.format(version=version, major=major, minor=minor) for f in build["ldflags"]),
            cgo=build.get("cgo", False),
            libraries=tuple(build.get("libraries", ())),
            toolchain=self.data["toolchain"],
        )


def load_lock(settings: Settings) -> Lock:
    """Return the package's lock with ``lock.json`` of the cache and then the user's file laid over it."""
    data: dict[str, Any] = json.loads((_HERE / "lock.json").read_bytes())
    in_cache = settings.cache / "lock.json"
    for path in (in_cache if in_cache.exists() else None, settings.lock):
        if path:
            _lay_over(data, _read_user(path, data))
    return Lock(data, settings.base_urls, settings.architecture)


def _lay_over(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = value


def _read_user(path: Path, base: Mapping[str, Any]) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _invalid(path, f"cannot be read as JSON: {error}") from error
    if not isinstance(data, dict) or not set(data) <= _TOP_LEVEL:
        raise _invalid(path, f"must be an object with keys among {', '.join(sorted(_TOP_LEVEL))}")
    if data.get("format", 1) != 1:
        raise _invalid(path, f"format {data['format']} is not known; this release reads format 1")
    components = data.get("components", {})
    if not isinstance(components, dict):
        raise _invalid(path, "'components' must be an object")
    for name, component in components.items():
        _check_component(path, name, component, base["components"])
    sources = data.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(url, str) for url in sources.values()):
        raise _invalid(path, "'sources' must be an object of addresses")
    return data


def _check_component(path: Path, name: str, component: Any, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise _invalid(path, f"no component '{name}'; there are {', '.join(known)}")
    if not isinstance(component, dict) or not isinstance(component.get("versions", {}), dict):
        raise _invalid(path, f"components.{name} must be an object with 'versions' as an object")
    for version, entry in component.get("versions", {}).items():
        where = f"components.{name}.versions.{version}"
        if not _VERSION.fullmatch(version) or not isinstance(entry, dict):
            raise _invalid(path, f"{where} must be a version without 'v', and an object")
        for label, label_sums in _sums(path, where, entry):
            if label not in known[name]["downloads"]:
                raise _invalid(
                    path, f"{where}.sha256.{label}: downloads are {', '.join(known[name]['downloads'])}"
                )
            _check_sums(path, f"{where}.sha256.{label}", label_sums)
        if "recipe" in entry:
            entry["recipe"] = str((path.parent / str(entry["recipe"])).resolve())
            if not Path(entry["recipe"], "go.mod").is_file():
                raise _invalid(path, f"{where}.recipe: {entry['recipe']} has no go.mod")
    default = component.get("default", known[name]["default"])
    if default not in {*known[name]["versions"], *component.get("versions", {})}:
        raise _invalid(path, f"components.{name}: default {default} is not among the versions")


def _sums(path: Path, where: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    sums = entry.get("sha256", {})
    if not isinstance(sums, dict):
        raise _invalid(path, f"{where}.sha256 must be an object")
    return iter(sums.items())


def _check_sums(path: Path, where: str, sums: Any) -> None:
    if not isinstance(sums, dict):
        raise _invalid(path, f"{where} must be an object of architectures")
    for architecture, value in sums.items():
        if not (isinstance(value, str) and _SUM.fullmatch(value)):
            raise _invalid(path, f"{where}.{architecture} must be 64 lower-case hexadecimal digits")


def _invalid(path: Path, message: str) -> ArtifactError:
    return ArtifactError(
        "lock-invalid", message, where=str(path), hint="docs/artifacts.md describes the file"
    )
