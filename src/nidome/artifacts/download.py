"""Downloads over HTTP: resumed where they stopped, tried again where they stall, proxies respected."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from nidome import __version__
from nidome.artifacts.store import cache_errors, write_all
from nidome.errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

    from nidome.progress import Item

__all__ = ["Servers", "Unavailable"]

_ATTEMPTS = 4
_PARTIAL_CONTENT = 206
_RANGE_REFUSED = 416
_SERVER_ERROR = 500
_SMALL_FILE = 1 << 20
_READ = 1 << 16
_HEADERS = {"User-Agent": f"nidome/{__version__}", "Accept-Encoding": "identity"}


class Unavailable(Exception):  # noqa: N818 - not an error yet: the next provider may have it
    """This source does not have the file; the text says why."""


@dataclass
class Servers:
    """Release servers, with what was found out about them in this run."""

    reach_timeout: float
    stall_timeout: float
    retry_pause: float
    _reached: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def small(self, base: str, url: str) -> bytes:
        """Return the content of a small file such as one with checksums."""
        self._require(base)
        try:
            with self._open(url, 0) as response:
                return bytes(response.read(_SMALL_FILE))
        except HTTPError as error:
            raise Unavailable(f"{url}: {_status(error)}") from error
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{url}: {_reason(error)}") from error

    def download(self, base: str, url: str, target: Path, item: Item) -> bool:
        """Bring ``url`` to ``target``, whose beginning may be there already; say whether that was so.

        Raises :class:`Unavailable`; what has come so far then stays, for the next attempt or run.
        """
        self._require(base)
        resumed = target.exists()
        furthest, attempt, reason = 0, 0, ""
        while attempt < _ATTEMPTS:
            try:
                self._fetch(url, target, item)
            except HTTPError as error:
                reason = _status(error)
                if error.code < _SERVER_ERROR:
                    raise Unavailable(f"{url}: {reason}") from error
            except _Stopped as error:
                resumed, reason = True, str(error)
            except ArtifactError:
                target.unlink(missing_ok=True)  # no space for it: do not keep what there was space for
                raise
            else:
                return resumed
            # An attempt that came further than all before is not counted.
            attempt = 0 if _length(target) > furthest else attempt + 1
            furthest = max(furthest, _length(target))
            time.sleep(self.retry_pause * attempt)
        raise Unavailable(f"{url}: {reason} ({_ATTEMPTS} attempts)")

    def _open(self, url: str, start: int) -> Any:
        headers = {**_HEADERS, "Range": f"bytes={start}-"} if start else _HEADERS
        request = Request(url, headers=headers)  # noqa: S310 - a release server's address from the lock
        return urlopen(request, timeout=self.stall_timeout)  # noqa: S310 - as above

    def _fetch(self, url: str, target: Path, item: Item) -> None:
        start = _length(target)
        try:
            with self._open(url, start) as response:
                if response.status != _PARTIAL_CONTENT:
                    start = 0  # the server sends everything again
                _copy(response, target, start, item)
        except HTTPError as error:
            if error.code != _RANGE_REFUSED:
                raise
            error.close()  # what is there is as long as the file or longer: its checksum will tell
        except (OSError, HTTPException) as error:
            raise _Stopped(_reason(error)) from error

    def _require(self, base: str) -> None:
        with self._lock:
            if base not in self._reached:
                self._reached[base] = self._probe(base)
            reason = self._reached[base]
        if reason:
            raise Unavailable(f"{base} cannot be reached: {reason}")

    def _probe(self, base: str) -> str:
        """Return why a server cannot be reached, "" if it can. Any answer is one, whatever its status.

        It runs in a thread because a name look-up has no time limit of its own.
        """
        outcome: list[str] = []
        thread = threading.Thread(target=lambda: outcome.append(self._ask(base)), daemon=True)
        thread.start()
        thread.join(self.reach_timeout)
        return outcome[0] if outcome else f"no answer within {self.reach_timeout:g} s"

    def _ask(self, base: str) -> str:
        request = Request(base, headers=_HEADERS, method="HEAD")  # noqa: S310 - as in _open
        try:
            with urlopen(request, timeout=self.reach_timeout):  # noqa: S310 - as in _open
                return ""
        except HTTPError as error:
            error.close()
            return ""
        except (OSError, HTTPException, ValueError) as error:
            return _reason(error)


class _Stopped(Exception):  # noqa: N818 - a reason to try again, not an error
    """The transfer ended before the file did."""


def _copy(response: Any, target: Path, start: int, item: Item) -> None:
    length = response.headers.get("Content-Length")
    expected = int(length) if length and length.isdigit() else None
    item.update(done=start, total=start + expected if expected is not None else 0)
    received = 0
    with cache_errors(target.parent):
        file = target.open("ab" if start else "wb", buffering=0)
    with file:
        while chunk := response.read1(_READ):
            with cache_errors(target.parent):
                write_all(file.fileno(), chunk)
            received += len(chunk)
            item.advance(len(chunk))
    if expected is not None and received < expected:
        raise _Stopped(f"the connection ended after {received} of {expected} bytes")


def _status(error: HTTPError) -> str:
    error.close()  # it holds the connection
    return f"{error.code} {error.reason}"


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", None)
    if isinstance(inner, BaseException):
        return _reason(inner)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
