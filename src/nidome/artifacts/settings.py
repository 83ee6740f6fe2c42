"""Where artifacts may come from, and the words for what was got."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nidome.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROVIDERS", "Artifact", "Settings", "default_cache", "host_architecture"]

PROVIDERS = ("bundle", "release", "build")
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Artifact:
    """A binary or an image archive in the cache.

    ``kind`` is ``binary`` or ``image``; ``provider`` says how it came (``bundle``, ``release``, ``build``,
    ``user``); ``reference`` is an image's full name.
    """

    name: str
    version: str
    kind: str
    sha256: str
    size: int
    path: Path
    provider: str
    reference: str = ""


def default_cache() -> Path:
    """Return ``$NIDOME_CACHE_DIR``, else ``nidome`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    chosen = os.environ.get("NIDOME_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification of base directories says that a relative path is to be ignored.
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "nidome"


def host_architecture() -> str:
    """Return this machine's architecture as Go names it."""
    machine = os.uname().machine
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        raise UsageError(
            "architecture-unsupported",
            f"no artifacts for a machine of type '{machine}'",
            hint=f"supported: {', '.join(sorted(set(_ARCHITECTURES.values())))}",
        ) from None


@dataclass(frozen=True)
class Settings:
    """Where to look, in which order, and what to trust.

    ``base_urls`` replaces a release server by a mirror with the same paths (keys: ``dl.k8s.io``,
    ``github.com``, ``get.helm.sh``). Times are in seconds: ``reach_timeout`` until a server counts as
    unreachable, ``stall_timeout`` without a byte until a download is tried again,
    ``retry_pause`` before that (longer each time).
    """

    cache: Path = field(default_factory=default_cache)
    bundle: Path | None = None
    providers: tuple[str, ...] = PROVIDERS
    trust_server_sums: bool = False
    architecture: str = field(default_factory=host_architecture)
    lock: Path | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict)
    reach_timeout: float = 4.0
    stall_timeout: float = 30.0
    retry_pause: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a provider that does not exist."""
        for provider in self.providers:
            if provider not in PROVIDERS:
                raise UsageError(
                    "provider-unknown",
                    f"no provider '{provider}'",
                    hint=f"providers: {', '.join(PROVIDERS)}",
                )
