"""Filters for lists and mappings: merge, flatten, compare as sets, turn one into the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import Undefined, pass_environment
from jinja2.filters import do_unique

from nidome.declare.templating.problems import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jinja2 import Environment

__all__ = [
    "combine", "dict2items", "difference", "extract", "flatten", "intersect", "is_list", "items2dict", "kind",
    "subelements", "symmetric_difference", "union", "unique",
]  # fmt: skip


def is_list(value: Any) -> bool:
    """Whether a value is a list, however Python calls it."""
    return isinstance(value, list | tuple | set)


def kind(value: Any) -> str:
    """Return what a value is, in words; an undefined one raises."""
    if isinstance(value, Undefined):
        str(value)  # raises: an undefined variable is said to be one
    kinds = ((Mapping, "a mapping"), ((list, tuple), "a list"), (str, "a text"), (type(None), "nothing"))
    return next((name for each, name in kinds if isinstance(value, each)), f"the value {value!s:.40}")


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> Any:
    """Return the mappings merged into one; the later one wins."""
    if list_merge not in _LISTS:
        raise FilterError(f"combine: list_merge is one of {', '.join(_LISTS)}")
    merged: dict[Any, Any] = {}
    for term in flatten(terms, levels=1, skip_nulls=True):
        if not isinstance(term, Mapping):
            raise FilterError(f"combine: a mapping is needed, found {kind(term)}")
        merged = _merge(merged, term, deep=recursive, lists=list_merge)
    return merged


_LISTS: Mapping[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "replace": lambda _, new: new,
    "keep": lambda old, _: old,
    "append": lambda old, new: old + new,
    "prepend": lambda old, new: new + old,
    "append_rp": lambda old, new: [item for item in old if item not in new] + new,
    "prepend_rp": lambda old, new: new + [item for item in old if item not in new],
}


def _merge(old: Mapping[Any, Any], new: Mapping[Any, Any], *, deep: bool, lists: str) -> dict[Any, Any]:
    merged = dict(old)
    for key, value in new.items():
        present = merged.get(key)
        if deep and isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(present, value, deep=True, lists=lists)
        elif isinstance(present, list) and isinstance(value, list):
            merged[key] = _LISTS[lists](present, value)
        else:
            merged[key] = value
    return merged


def flatten(items: Iterable[Any], levels: int | None = None, *, skip_nulls: bool = True) -> list[Any]:
    """Return a list without lists in it, or with that many levels of them taken away."""
    found: list[Any] = []
    for item in items:
        if skip_nulls and item in (None, "None", "null"):
            continue
        if is_list(item) and (levels is None or levels >= 1):
            below = None if levels is None else int(levels) - 1
            found.extend(flatten(item, below, skip_nulls=skip_nulls))
        else:
            found.append(item)
    return found


@pass_environment
def unique(
    environment: Environment, items: Any, case_sensitive: bool | None = None, attribute: str | None = None
) -> list[Any]:
    """Return the items without those that came before; lists and mappings are compared too."""
    try:
        return list(do_unique(environment, items, case_sensitive=bool(case_sensitive), attribute=attribute))
    except TypeError:
        if case_sensitive is False or attribute:
            raise
        return _once(items)


def _once(items: Iterable[Any]) -> list[Any]:
    every = list(items)
    try:
        return list(dict.fromkeys(every))
    except TypeError:  # an item that cannot be hashed, such as a mapping
        found: list[Any] = []
        for item in every:
            if item not in found:
                found.append(item)
        return found


def union(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return the items of both, each once, in order."""
    return _once([*left, *right])


def intersect(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return the items that are in both, each once, in the order of the first."""
    return _once(item for item in left if item in list(right))


def difference(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return the items of the first that are not in the second, each once."""
    return _once(item for item in left if item not in list(right))


def symmetric_difference(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return the items that are in one of the two only, each once."""
    return [*difference(left, right), *difference(right, left)]


def dict2items(mapping: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """Return a mapping as a list of mappings with a key and a value."""
    if not isinstance(mapping, Mapping):
        raise FilterError(f"dict2items: a mapping is needed, found {kind(mapping)}")
    return [{key_name: key, value_name: value} for key, value in mapping.items()]


def items2dict(items: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """Return a list of mappings with a key and a value as one mapping."""
    if not is_list(items):
        raise FilterError(f"items2dict: a list is needed, found {kind(items)}")
    try:
        return {item[key_name]: item[value_name] for item in items}
    except (KeyError, TypeError):
        message = f"items2dict: each item must be a mapping with '{key_name}' and '{value_name}'"
        raise FilterError(message) from None


@pass_environment
def extract(environment: Environment, item: Any, container: Any, morekeys: Any = None) -> Any:
    """Return what a container holds under a key, and further keys inside of that."""
    more = [] if morekeys is None else morekeys if isinstance(morekeys, list) else [morekeys]
    for key in [item, *more]:
        container = environment.getitem(container, key)
    return container


def subelements(value: Any, path: Any, skip_missing: bool = False) -> list[tuple[Any, Any]]:
    """Return each mapping of a list paired with each item of a list inside of it."""
    keys = path.split(".") if isinstance(path, str) else list(path)
    pairs: list[tuple[Any, Any]] = []
    for element in value.values() if isinstance(value, Mapping) else value:
        inner = element
        for key in keys:
            if key not in inner and skip_missing:
                inner = []
                break
            inner = inner[key]
        pairs.extend((element, item) for item in inner)
    return pairs
