from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from nidome.errors import NidomeError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)


def test_the_page_of_error_codes_is_what_the_source_says() -> None:
    """docs/errors.md lists the codes, messages and next steps of the source, and is written by a script."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "error_codes.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_codes_have_one_form() -> None:
    """Every error code is lower case, its words joined by hyphens."""
    codes = [match.group(1) for match in ROW.finditer(PAGE)]
    assert len(codes) > 100
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in codes)


def test_what_the_command_line_says_itself_is_listed() -> None:
    """Codes of bad usage, of signals and of records that a report lacks are on the page like all others."""
    codes = {match.group(1) for match in ROW.finditer(PAGE)}
    assert {"usage", "system", "interrupted", "terminated", "forks"} <= codes
    assert {"report-no-first", "report-no-second", "report-no-tags"} <= codes


def test_errors_have_a_next_step() -> None:
    """Every error, wherever it is made, says what to do next."""
    kinds = {kind.__name__ for kind in NidomeError.__subclasses__()}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in kinds:
                assert {"hint", None} & {k.arg for k in call.keywords}, f"{path}:{call.lineno}"
