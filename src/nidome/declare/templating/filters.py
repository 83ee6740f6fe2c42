"""Filters and tests of Ansible's that Jinja2 does not have itself, by name; small ones stand here.

A filter that gives another result at each run (a random number, the time, a salted hash) is left out on
purpose: a declaration that is read twice is the same declaration. ``ABSENT`` says so for each.
"""

from __future__ import annotations

import itertools
import math
import ntpath
import os.path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from jinja2 import Undefined

from nidome.declare.templating import filters_data as data
from nidome.declare.templating import filters_text as text
from nidome.declare.templating.filters_text import as_text
from nidome.declare.templating.problems import FilterError
from nidome.declare.templating.versions import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ABSENT", "FILTERS", "TESTS", "TEXT_FILTERS"]

TEXT_FILTERS = frozenset({"string", "to_json", "to_nice_json", "to_yaml", "to_nice_yaml"})
"""Filters whose text stays text, also where it looks like a list or a mapping."""

_YES = ("yes", "on", "1", "true", 1)
_CHANGES = "its result differs at each run, and a declaration that is read twice must be the same"
ABSENT: Mapping[str, str] = {
    "random": _CHANGES,
    "shuffle": _CHANGES,
    "random_mac": _CHANGES,
    "password_hash": _CHANGES + " (its salt is random)",
    "vault": _CHANGES + " (its salt is random)",
    "strftime": "what depends on the time differs at each run",
    "to_datetime": "what depends on the time differs at each run",
    "json_query": "it needs JMESPath; selectattr, map and dict2items do the same",
}


def to_bool(value: Any) -> Any:
    """Return whether a value is one of yes, on, 1 and true; None stays None."""
    if value is None or isinstance(value, bool):
        return value
    return (value.lower() if isinstance(value, str) else value) in _YES


def ternary(value: Any, true: Any, false: Any, none: Any = None) -> Any:
    """Return the first value for true, the second for false, the third for None where it is given."""
    if value is None and none is not None:
        return none
    return true if value else false


def mandatory(value: Any, msg: str | None = None) -> Any:
    """Return the value; FilterError where it is not defined."""
    if isinstance(value, Undefined):
        name = value._undefined_name  # noqa: SLF001 - Jinja2 has no other way to ask for it
        raise FilterError(msg or f"the variable '{name}' is mandatory and not defined", f"set {name}")
    return value


def logarithm(value: float, base: float = math.e) -> float:
    """Return the logarithm of a number, the natural one by default."""
    return math.log10(value) if base == 10 else math.log(value, base)  # noqa: PLR2004 - exact for powers of ten


def root(value: float, base: float = 2) -> float:
    """Return the root of a number, the square root by default."""
    return math.sqrt(value) if base == 2 else math.pow(value, 1.0 / float(base))  # noqa: PLR2004 - exact for squares


def truthy(value: Any, convert_bool: bool = False) -> bool:
    """Whether a value counts as true; with ``convert_bool``, words such as no and off do not."""
    words = {"y": True, "yes": True, "on": True, "1": True, "true": True, "t": True}
    words |= {"n": False, "no": False, "off": False, "0": False, "false": False, "f": False}
    return words.get(value.lower(), bool(value)) if convert_bool and isinstance(value, str) else bool(value)


def falsy(value: Any, convert_bool: bool = False) -> bool:
    """Whether a value does not count as true."""
    return not truthy(value, convert_bool)


def is_nan(value: Any) -> bool:
    """Whether a value is the number that is none."""
    return isinstance(value, float) and math.isnan(value)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "b64decode": text.b64decode,
    "b64encode": text.b64encode,
    "basename": lambda value: os.path.basename(text.path_text(value)),
    "bool": to_bool,
    "checksum": text.get_hash,
    "combinations": itertools.combinations,
    "combine": data.combine,
    "commonpath": os.path.commonpath,
    "dict2items": data.dict2items,
    "difference": data.difference,
    "dirname": lambda value: os.path.dirname(text.path_text(value)),
    "expanduser": lambda value: os.path.expanduser(text.path_text(value)),
    "extract": data.extract,
    "flatten": lambda items, levels=None, skip_nulls=True: data.flatten(items, levels, skip_nulls=skip_nulls),
    "from_json": text.from_json,
    "from_yaml": text.from_yaml,
    "from_yaml_all": text.from_yaml_all,
    "hash": text.get_hash,
    "intersect": data.intersect,
    "items2dict": data.items2dict,
    "log": logarithm,
    "mandatory": mandatory,
    "md5": lambda value: text.get_hash(value, "md5"),
    "normpath": lambda value: os.path.normpath(text.path_text(value)),
    "path_join": text.path_join,
    "permutations": itertools.permutations,
    "pow": math.pow,
    "product": itertools.product,
    "quote": text.quote,
    "realpath": lambda value: os.path.realpath(text.path_text(value)),
    "regex_escape": text.regex_escape,
    "regex_findall": text.regex_findall,
    "regex_replace": text.regex_replace,
    "regex_search": text.regex_search,
    "relpath": lambda value, start=".": os.path.relpath(text.path_text(value), start),
    "root": root,
    "sha1": text.get_hash,
    "split": text.split,
    "splitext": lambda value: os.path.splitext(text.path_text(value)),
    "subelements": data.subelements,
    "symmetric_difference": data.symmetric_difference,
    "ternary": ternary,
    "to_json": text.to_json,
    "to_nice_json": text.to_nice_json,
    "to_nice_yaml": text.to_nice_yaml,
    "to_uuid": text.to_uuid,
    "to_yaml": text.to_yaml,
    "union": data.union,
    "unique": data.unique,
    "urldecode": lambda value: unquote_plus(as_text(value)),
    "urlsplit": text.url_split,
    "version": compare,
    "version_compare": compare,
    "win_basename": lambda value: ntpath.basename(text.path_text(value)),
    "win_dirname": lambda value: ntpath.dirname(text.path_text(value)),
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}

TESTS: Mapping[str, Callable[..., Any]] = {
    "abs": os.path.isabs,
    "all": all,
    "any": any,
    "contains": lambda items, value: value in items,
    "directory": os.path.isdir,
    "exists": os.path.exists,
    "falsy": falsy,
    "file": os.path.isfile,
    "isnan": is_nan,
    "issubset": lambda left, right: set(left) <= set(right),
    "issuperset": lambda left, right: set(left) >= set(right),
    "link": os.path.islink,
    "match": text.match,
    "nan": is_nan,
    "regex": text.regex,
    "search": text.search,
    "subset": lambda left, right: set(left) <= set(right),
    "superset": lambda left, right: set(left) >= set(right),
    "truthy": truthy,
    "url": text.is_url,
    "version": compare,
    "version_compare": compare,
}
