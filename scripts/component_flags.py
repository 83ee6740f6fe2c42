"""Make src/nidome/model/flags.json: the flags of each Kubernetes component, by what the binaries say.

    .venv/bin/python scripts/component_flags.py           write the table
    .venv/bin/python scripts/component_flags.py --check   fail where it is not what the binaries say

Every supported release must be in the artifact cache: nidome artifacts fetch --use kubernetes=VERSION.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from nidome.artifacts import obtain
from nidome.artifacts.settings import Settings
from nidome.declare.variables import KUBE_VERSIONS
from nidome.model.flags import EVERY, TABLE
from nidome.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
_FLAG = re.compile(r"^ +(?:-\w, )?--([A-Za-z0-9][A-Za-z0-9_-]*)", re.MULTILINE)


def said_by(binary: Path, component: str) -> set[str]:
    """Return the flags that a component lists itself; the binary is told by its name what to be."""
    done = subprocess.run(
        [component, "--help"], executable=binary, capture_output=True, text=True, check=True
    )
    return set(_FLAG.findall(done.stdout))


def table() -> dict[str, dict[str, list[str]]]:
    """Return each component's flags: those of every release, and what single releases have beside them."""
    found: dict[str, dict[str, set[str]]] = {component: {} for component in COMPONENTS}
    for version in KUBE_VERSIONS:
        binaries = obtain(
            COMPONENTS, versions={"kubernetes": version}, settings=Settings(), progress=Progress()
        )
        for component in COMPONENTS:
            found[component][version] = said_by(binaries[component].path, component)
    return {component: _shared(flags) for component, flags in found.items()}


def _shared(flags: dict[str, set[str]]) -> dict[str, list[str]]:
    every = set.intersection(*flags.values())
    single = {version: sorted(own - every) for version, own in flags.items() if own - every}
    return {EVERY: sorted(every), **single}


def main() -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    text = json.dumps(table(), indent=1) + "\n"
    if not parser.parse_args().check:
        TABLE.write_text(text, encoding="utf-8")
    elif TABLE.read_text(encoding="utf-8") != text:
        print(f"{TABLE} is out of date: scripts/component_flags.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
