"""Certificates that a kubelet got and rotates by itself: of the present authority, or gone.

A kubelet prefers what it has kept over what it is given. After the authority was made anew everybody
refuses that, and it would go on showing it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Sequence, Tuple

from nidome.agent.resources.base import Observed, Resource
from nidome.agent.resources.certificate import is_issued_by
from nidome.agent.system import run

if TYPE_CHECKING:
    from nidome.agent.host import Host

__all__ = ["IssuedCertificates", "apply", "observe"]


@dataclass(frozen=True)
class IssuedCertificates(Resource):
    """None of these files, where they exist, is of another authority than ``ca``.

    ``unit`` reads them at its start only: it is restarted when one is removed, if it runs.
    """

    kind: ClassVar[str] = "IssuedCertificates"
    files: Tuple[str, ...]
    ca: str
    unit: str

    @property
    def key(self) -> str:
        """The directory of the first file."""
        return os.path.dirname(self.files[0])

    @property
    def reads(self) -> Tuple[str, ...]:
        """The authority's certificate."""
        return (self.ca,)

    def desired(self) -> Dict[str, Any]:
        """Return that none is of another authority."""
        return {"of another authority": []}


def _foreign(resource: IssuedCertificates, host: Host) -> List[str]:
    there = [path for path in resource.files if os.path.exists(path)]
    return [path for path in there if not is_issued_by(path, resource.ca, host)]


def observe(resources: Sequence[IssuedCertificates], host: Host) -> List[Observed]:
    """Compare each certificate's issuer with the authority."""
    return [{"of another authority": _foreign(resource, host)} for resource in resources]


def apply(resource: IssuedCertificates, host: Host) -> None:
    """Remove those of another authority, and have the unit ask for new ones."""
    for path in _foreign(resource, host):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    run(["systemctl", "try-restart", "--no-block", "--", resource.unit])
