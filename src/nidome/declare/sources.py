"""What ``-i`` names: files, directories of files, programs, and lists of hosts such as ``host1,host2,``.

All of them add to one draft, in order, so that what comes later wins, as in Ansible.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nidome.declare.files import fail, is_executable
from nidome.declare.patterns import check_host_name, split_port
from nidome.declare.yamlgroups import read_groups
from nidome.declare.yamlmarks import Node, Source, parse_yaml, read_source
from nidome.errors import DeclarationError
from nidome.model.findings import DeclarationWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nidome.declare.groups import InventoryDraft
    from nidome.declare.vault import Vault

__all__ = ["LIST", "Given", "bases", "given", "listing", "read_sources"]

LIST = "-i"
"""The place of what stands in a list of hosts."""

_YAML = (".yaml", ".yml", ".json")
_IGNORED = (
    ".bak", ".cfg", ".md", ".orig", ".pyc", ".pyo", ".retry", ".rpm", ".rst", ".swp", ".txt", "~",
)  # fmt: skip
_NOT_INVENTORIES = ("group_vars", "host_vars", "vars_plugins")
# What kubespray itself puts beside an inventory, or reads from there: kubeconfigs, passwords, manifests.
_KUBESPRAYS = ("artifacts", "credentials", "patches")
_DEEPEST = 16
_ELF = b"\x7fELF"


class Given(NamedTuple):
    """One value of ``-i``: a path, or a list of hosts (``path`` is then None)."""

    text: str
    path: Path | None


def given(values: Sequence[str | Path]) -> tuple[Given, ...]:
    """Return what the values of ``-i`` name: what holds a comma and is no file is a list of hosts."""
    found = []
    for value in values:
        text = str(value)
        is_list = isinstance(value, str) and "," in text and not _exists(Path(text))
        found.append(Given(text, None if is_list else Path(text)))
    return tuple(found)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def bases(sources: Sequence[Given]) -> tuple[Path, ...]:
    """Return the directories that have group_vars and host_vars, perhaps; of equal ones the last counts."""
    found: dict[Path, None] = {}
    for source in sources:
        if source.path is not None:
            base = source.path if source.path.is_dir() else source.path.parent
            found.pop(base, None)
            found[base] = None
    return tuple(found)


def read_sources(
    sources: Sequence[Given], draft: InventoryDraft, vault: Vault, warnings: list[DeclarationWarning]
) -> None:
    """Add everything that the sources say to the draft."""
    for source in sources:
        if source.path is None:
            _read_list(source.text, draft)
            continue
        for file in _files(source.path, warnings):
            _read_file(file, draft, vault)


def _read_list(text: str, draft: InventoryDraft) -> None:
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, port = split_port(word)
        draft.add_host(check_host_name(name, LIST, 0), "ungrouped", port, (LIST, 0))


def _files(path: Path, warnings: list[DeclarationWarning]) -> Iterator[Path]:
    """Give the files of a source; a directory must hold one."""
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        fail("file-unreadable", f"the inventory cannot be read: {reason}", str(path))
    if not is_folder:
        yield path
        return
    files = list(_beneath(path, 0, warnings))
    if not files:
        fail("inventory-empty", "the directory holds no inventory file", str(path), 0, "add a hosts.yaml")
    yield from files


def _beneath(folder: Path, level: int, warnings: list[DeclarationWarning]) -> Iterator[Path]:
    if level > _DEEPEST:
        hint = "look for a link to a parent"
        fail("file-unreadable", "the directories are nested too deeply", str(folder), 0, hint)
    for name in sorted(listing(folder)):
        entry = folder / name
        if name.startswith(".") or name.endswith(_IGNORED) or name in _NOT_INVENTORIES:
            continue
        if entry.is_dir():
            if name not in _KUBESPRAYS:
                yield from _beneath(entry, level + 1, warnings)
        elif entry.is_file():
            yield entry
        else:
            message = "the file is not read: it is no regular file"
            warnings.append(DeclarationWarning("file-not-read", message, str(entry)))


def listing(folder: Path) -> set[str]:
    """Return the names in a directory."""
    try:
        return {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        fail("file-unreadable", f"the directory cannot be read: {error.strerror}", str(folder))


def _read_file(path: Path, draft: InventoryDraft, vault: Vault) -> None:
    file = str(path)
    if not _exists(path):
        fail("file-unreadable", "there is no such inventory", file, 0, "give a file or a directory with -i")
    if is_executable(path) and _is_program(path):
        from nidome.declare.dynamic import read_dynamic  # noqa: PLC0415 - only a dynamic inventory pays for it

        read_dynamic(path, draft, vault)
        return
    source = read_source(path, vault)
    if source.text.startswith("#!"):
        fail("inventory-kind", "it begins as a program and is not executable", file, 1, f"chmod +x {file}")
    if path.suffix in _YAML:
        read_groups(parse_yaml(source.text, file, vault=vault, secret=source.secret), draft)
    elif path.suffix == ".toml":
        fail("inventory-kind", "TOML inventories are not supported", file, 0, "use YAML or INI")
    elif path.suffix == "" and (root := _as_mapping(source, file, vault)) is not None:
        read_groups(root, draft)
    else:
        from nidome.declare.ini import read_ini  # noqa: PLC0415 - only an INI inventory pays for its parser

        read_ini(source.text, file, draft, secret=source.secret)


def _is_program(path: Path) -> bool:
    """Tell whether a file can be run; on some file systems every file is marked executable."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_ELF)).startswith((b"#!", _ELF))
    except OSError:
        return False


def _as_mapping(source: Source, file: str, vault: Vault) -> Node | None:
    """Return the YAML mapping that a file without a suffix holds, None where it is something else."""
    try:
        root = parse_yaml(source.text, file, vault=vault, secret=source.secret)
    except DeclarationError as error:
        if error.code in ("yaml-syntax", "yaml-key", "yaml-tab"):
            return None
        raise
    return root if isinstance(root.value, dict) else None
