from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import nidome
from nidome.engine.transport import agent_code

PACKAGE = Path(nidome.__file__).parent
SENT = sorted(name for name in agent_code()[1] if name != "nidome/__init__.py")


def _tree(name: str) -> ast.Module:
    return ast.parse((PACKAGE.parent / name).read_text(encoding="utf-8"), name, feature_version=(3, 9))


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("name", SENT)
def test_agent_is_python_3_9(name: str) -> None:
    """Every file that is sent to a host is valid for Python 3.9."""
    assert not [node for node in ast.walk(_tree(name)) if type(node).__name__ in ("Match", "TryStar")]


@pytest.mark.parametrize("name", SENT)
def test_agent_needs_only_the_standard_library(name: str) -> None:
    """Every file that is sent to a host imports the standard library, and what is sent with it."""
    for imported in _imported(_tree(name)):
        if imported.split(".")[0] == "nidome":
            path = imported.replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & set(SENT), imported
        else:
            assert imported.split(".")[0] in sys.stdlib_module_names, imported


@pytest.mark.parametrize("name", SENT)
def test_agent_annotations_are_not_evaluated(name: str) -> None:
    """Every annotation in a file that is sent to a host stays a string there: newer types cost it nothing."""
    tree = _tree(name)
    has_any = any(isinstance(n, ast.FunctionDef | ast.AnnAssign) for n in ast.walk(tree))
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert not has_any or any(alias.name == "annotations" for n in imports for alias in n.names)


def test_approver_is_one_file() -> None:
    """The approver runs on a host by itself: it imports nothing of Nidome."""
    assert not [n for n in _imported(_tree("nidome/agent/approver.py")) if n.startswith("nidome")]


def test_agent_uses_nothing_newer_than_3_9() -> None:
    """No file that is sent to a host uses a function that came after Python 3.9."""
    newer = ("bit_count", "removesuffix_", "pairwise", "ExceptionGroup", "StrEnum", "tomllib", "zip_strict")
    for name in SENT:
        used = {n.attr for n in ast.walk(_tree(name)) if isinstance(n, ast.Attribute)}
        assert not used & set(newer), name
        strict = [
            n
            for n in ast.walk(_tree(name))
            if isinstance(n, ast.Call) and any(k.arg in ("strict", "slots", "kw_only") for k in n.keywords)
        ]
        assert not strict, name
