#!/usr/bin/env python3
"""Writes the names of kubespray's variables, one a line: src/nidome/declare/kubespray_names.txt.

Usage: kubespray_names.py GIT_DIRECTORY REVISION…. Takes the names, and nothing else, that the defaults of
roles and the sample inventory have at any of the revisions, also those that the sample has commented out.
The file was made of v2.20.0, the first release of each later minor version, and the head after v2.31.0.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_PAGE = Path(__file__).resolve().parent.parent / "src/nidome/declare/kubespray_names.txt"
_FILES = re.compile(r"roles/.*/defaults/.*\.ya?ml|inventory/sample/.*\.ya?ml")
_NAME = re.compile(r"^([a-z][a-z0-9_]*):|^# ?([a-z][a-z0-9]*_[a-z0-9_]*):(?= |$)", re.MULTILINE)


def _git(directory: str, *words: str) -> str:
    return subprocess.run(["git", "-C", directory, *words], check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Write the names."""
    directory, *revisions = sys.argv[1:]
    blobs = {
        line.split()[2]
        for revision in revisions
        for line in _git(directory, "ls-tree", "-r", revision).splitlines()
        if _FILES.fullmatch(line.partition("\t")[2])
    }
    texts = [_git(directory, "cat-file", "blob", blob) for blob in sorted(blobs)]
    names = {name for text in texts for pair in _NAME.findall(text) for name in pair if name}
    _PAGE.write_text("\n".join(sorted(names)) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
