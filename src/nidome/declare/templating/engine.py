"""Jinja2 as Ansible 2.18 uses it, in a sandbox and within bounds: a text and a scope give a value.

What differs from plain Jinja2 is Ansible's: a lone ``{{ name }}`` keeps a number's or a boolean's type, other
results are text, and text that looks like a list, a mapping or a boolean becomes one; backslashes in an
expression stand for themselves; what is missing stays missing through ``.`` and ``[]``, so that ``default``
works on it; generators become lists.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import TemplateError
from jinja2.nativetypes import NativeEnvironment
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from yaml import YAMLError

from nidome.declare.templating import filters
from nidome.declare.templating.bounds import MAX_STEPS, OPERATIONS, Guard, check_text, guarded, unrolled
from nidome.declare.templating.lookups import GLOBALS
from nidome.declare.templating.problems import FilterError, OutOfBounds, Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    class Scope(Protocol):
        """The variables of a host, as a template sees them."""

        def find(self, name: str) -> Any:
            """Return a variable's rendered value, Jinja2's ``missing`` where nobody has set it."""

        def written(self, name: str) -> Any:
            """Return a variable's value as it is written."""

        def names(self) -> list[str]:
            """Return the names that ``find`` knows."""


__all__ = ["ABSENT_NAMES", "NETWORK_FILTERS", "Engine", "Undefined"]

_LONE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
_FILE = "<template>"
_SHOWN = 60
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_FACTS = "facts are gathered from hosts later than a declaration is read; write the value itself"
ABSENT_NAMES: Mapping[str, str] = {
    "ansible_facts": _FACTS,
    "ansible_check_mode": "it is known only while Ansible runs",
    "ansible_play_hosts": "it is known only while Ansible runs; groups holds the hosts",
    "ansible_play_hosts_all": "it is known only while Ansible runs; groups holds the hosts",
    "ansible_version": "there is no Ansible here",
    "now": "what depends on the time differs at each run",
    "play_hosts": "it is known only while Ansible runs; groups holds the hosts",
    "playbook_dir": "there is no playbook here; inventory_dir is the inventory's directory",
    "role_path": "there is no role here; inventory_dir is the inventory's directory",
}
"""Names of Ansible's that have no value when a declaration is read, and why."""
_FACT = re.compile(
    r"ansible_(all_ipv[46]|apparmor|architecture|bios|board|cmdline|date|default_ipv[46]|devices|distribution|dns|"
    r"domain|env|eth|ens|enp|fips|form|fqdn|hostname|interfaces|kernel|lo|lsb|machine|mem|mounts|nodename|os_|pkg|"
    r"processor|product|python|selinux|service|ssh_host_key|swap|system|uptime|user_|virtualization)\w*"
)
_NOT_IN_VALUES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class _Text(str):
    """A text that stays one, although it may look like a list: the result of to_json and its like."""

    __slots__ = ()


class _UndefinedNameError(UndefinedError):
    """Something undefined was used; ``undefined`` is what."""

    def __init__(self, message: str, undefined: Undefined) -> None:
        super().__init__(message)
        self.undefined = undefined


class Undefined(StrictUndefined):
    """What nobody has set; ``cause`` is the error of a variable whose own template misses something."""

    __slots__ = ("cause",)

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: Any = UndefinedError,  # Jinja2 raises what it returns for a message
        *,
        cause: Exception | None = None,
    ) -> None:
        refusal: Any = self._refusal
        super().__init__(hint, obj, name, refusal if exc is UndefinedError else exc)
        self.cause = cause

    def _refusal(self, message: str) -> Exception:
        """Return what is raised where it is used."""
        return self.cause or _UndefinedNameError(message, self)

    def __getattr__(self, name: str) -> Any:
        """Return itself: what is in something undefined is undefined."""
        if name[:2] == "__":
            raise AttributeError(name)
        return self

    def __getitem__(self, _key: Any) -> Any:
        """Return itself, as above."""
        return self


class _Context(Context):
    """Looks names up in a scope, each only when it is used."""

    def resolve_or_missing(self, key: str) -> Any:
        if key in self.vars:
            return self.vars[key]
        found = self.parent.find(key)  # type: ignore[attr-defined] # new_context is given a Scope
        return self.environment.globals.get(key, missing) if found is missing else found

    def get_all(self) -> dict[str, Any]:
        return dict(self.vars)


class _Environment(ImmutableSandboxedEnvironment, NativeEnvironment):
    """The sandbox, with Ansible's settings; ``steps`` counts loops and macros of the value being rendered."""

    context_class = _Context
    intercepted_binops = frozenset(OPERATIONS)

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, undefined=Undefined, finalize=_finalize)
        self.steps = 0
        self.filters = _with_prefixes(_filters(self.filters))
        self.tests = _with_prefixes({**self.tests, **filters.TESTS})
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals.update(GLOBALS)
        self.globals["undef"] = lambda hint="": Undefined(hint=hint or "the value must be set")

    def tick(self) -> None:
        """Count a round of a loop."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise OutOfBounds(f"the template loops more than {MAX_STEPS:,} times", "write the value itself")

    def joined(self, *parts: Any) -> str:
        """Return what ``~`` makes of its parts."""
        return check_text("".join(map(str, parts)))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ARG002 - Jinja2's
        """Compute with operators whose result may be large."""
        return OPERATIONS[operator](left, right)


def _finalize(value: Any) -> Any:
    """Return what is put into the result: a list for a generator, nothing for None."""
    if isinstance(value, Iterator) or type(value) in _VIEWS:
        value = unrolled(value)
    _check_defined(value)
    return "" if value is None else value


_VIEWS: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))


def _check_defined(value: Any) -> None:
    if isinstance(value, Undefined):
        str(value)  # raises
    elif isinstance(value, dict):
        for item in value.values():
            _check_defined(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_defined(item)


def _concat(parts: Iterable[Any]) -> Any:
    """Return a template's value from its parts, as Ansible does without native types."""
    found = unrolled(parts)
    if len(found) == 1 and isinstance(found[0], _Text):
        return str(found[0])
    text = check_text("".join([part.decode() if isinstance(part, bytes) else str(part) for part in found]))
    return _converted(text) if text[:1] in ("{", "[") or text in ("True", "False") else text


def _converted(text: str) -> Any:
    """Return the value that a text looks like, or the text."""
    try:
        tree = ast.parse(text, mode="eval")
        return ast.literal_eval(_Words().visit(tree))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


class _Words(ast.NodeTransformer):
    """JSON's words as Python's."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(_WORDS[node.id]), node) if node.id in _WORDS else node


def _filters(own: Mapping[str, Any]) -> dict[str, Any]:
    every = {**own, **filters.FILTERS, **{name: _network_filter(name) for name in NETWORK_FILTERS}}
    return {name: _wrapped(name, function) for name, function in every.items() if name not in filters.ABSENT}


def _wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter whose generators are lists and whose results are within bounds."""
    keep = name in filters.TEXT_FILTERS

    @wraps(function, assigned=())
    def run(*args: Any, **words: Any) -> Any:
        if name in _WIDE and not all(map(_is_narrow, (*args[1:], *words.values()))):
            raise OutOfBounds(f"the filter {name} is given a number above {_WIDEST:,}", "give a smaller one")
        value = function(*args, **words)
        if isinstance(value, Iterator):
            return unrolled(value)
        if isinstance(value, str):
            return _Text(check_text(value)) if keep else check_text(value)
        return value

    return run


def _is_narrow(argument: Any) -> bool:
    return not isinstance(argument, int) or abs(argument) <= _WIDEST


_WIDEST = 100_000
_WIDE = frozenset(
    {"batch", "center", "indent", "slice", "tojson", "to_json", "to_nice_json", "to_nice_yaml", "to_yaml"}
)

NETWORK_FILTERS = (
    "cidr_merge", "hwaddr", "ip4_hex", "ipaddr", "ipmath", "ipsubnet", "ipv4", "ipv6", "ipwrap", "macaddr",
    "network_in_network", "network_in_usable", "next_nth_usable", "nthhost", "previous_nth_usable",
    "reduce_on_network",
)  # fmt: skip


def _network_filter(name: str) -> Callable[..., Any]:
    def run(*args: Any, **words: Any) -> Any:
        from nidome.declare.templating import network  # noqa: PLC0415 - netaddr costs as much as Jinja2

        _check_defined(list(args))
        return network.FILTERS[name](*args, **words)

    return run


def _with_prefixes(functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions under their short names and those of the collection that they are in."""
    known = dict(functions)
    for name, function in functions.items():
        collections = (
            ("ansible.utils", "ansible.netcommon") if name in NETWORK_FILTERS else ("ansible.builtin",)
        )
        known.update((f"{collection}.{name}", function) for collection in collections)
    return known


class Engine:
    """Compiles each text once, and renders it for a scope.

    ``guard`` is that of the whole reading; without one, each value has its own.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard
        self.environment = _Environment()
        self.environment.concat = _concat  # type: ignore[assignment] # a value, not a text
        self._compiled: dict[str, Template] = {}
        self._depth = 0

    def render(self, text: str, scope: Scope) -> Any:
        """Return the value of a text; Problem where it has none."""
        lone = _LONE.fullmatch(text.removesuffix("\n"))
        if lone:
            written = scope.written(lone[1])
            if written is None or isinstance(written, bool | int | float):
                found = scope.find(lone[1])  # noted as used; a lone variable's type is kept
                return found if not isinstance(found, Undefined) else written
        try:
            return self._within_bounds(text, scope)
        except _UndefinedNameError as error:
            raise self._undefined(text, error.undefined, scope) from None
        except TemplateSyntaxError as error:
            message = f"the template is not valid: {error.message}"
            raise Problem("template-syntax", message, hint=_SYNTAX, line=error.lineno) from None
        except OutOfBounds as error:
            raise Problem(
                "template-bounds", str(error), hint=error.hint, line=_line(error, self._compiled.get(text))
            ) from None
        except _FAILURES as error:
            message = f"the template cannot be rendered: {_said(error)}"
            line = _line(error, self._compiled.get(text))
            raise Problem(
                "template-failed", message, hint=getattr(error, "hint", "") or _FAILED, line=line
            ) from None

    def _within_bounds(self, text: str, scope: Scope) -> Any:
        if self._depth:  # inside of another value's template, whose bounds hold for both
            return self._render(text, scope)
        self.environment.steps = 0
        self._depth = 1
        try:
            with nullcontext(self._guard) if self._guard else guarded() as guard, guard.value():
                return self._render(text, scope)
        finally:
            self._depth = 0

    def _render(self, text: str, scope: Scope) -> Any:
        template = self._compiled.get(text)
        if template is None:
            template = self._compiled[text] = self._compile(text)
        context = template.new_context(scope, shared=True)  # type: ignore[arg-type] # _Context asks it by find
        value = self.environment.concat(template.root_render_func(context))
        if isinstance(value, str) and text.endswith("\n"):
            lost = len(text) - len(text.rstrip("\n")) - (len(value) - len(value.rstrip("\n")))
            value += "\n" * lost
        return value

    def _compile(self, text: str) -> Template:
        tree = self.environment.parse(self._escaped(text))
        self._check(tree)
        _count_steps(tree)
        code = self.environment.compile(tree, filename=_FILE)
        return Template.from_code(self.environment, code, self.environment.globals)

    def _escaped(self, text: str) -> str:
        r"""Return the text with each backslash of an expression's strings doubled: ``'\\1'`` is a group."""
        if "\\" not in text or "{{" not in text:
            return text
        parts, inside = [], False
        for _, kind, value in self.environment.lex(text):
            inside = kind == "variable_begin" or (inside and kind != "variable_end")
            parts.append(value.replace("\\", "\\\\") if inside and kind == "string" else value)
        return "".join(parts)

    def _check(self, tree: nodes.Template) -> None:
        for node in tree.find_all(_NOT_IN_VALUES):
            hint = "write the value itself"
            raise Problem("template-syntax", "a value cannot include or import", hint=hint, line=node.lineno)
        for used in tree.find_all(nodes.Filter):
            self._check_name(used, "filter", self.environment.filters)
        for test in tree.find_all(nodes.Test):
            self._check_name(test, "test", self.environment.tests)

    def _check_name(self, node: nodes.Filter | nodes.Test, what: str, known: Mapping[str, Any]) -> None:
        if node.name in known:
            return
        short = node.name.rpartition(".")[2]
        if short in filters.ABSENT and what == "filter":
            message, hint = (
                f"the filter {node.name} does not exist here: {filters.ABSENT[short]}",
                "write the value itself",
            )
        else:
            message = f"there is no {what} {node.name}"
            hint = nearest(node.name, list(known)) or nearest(short, list(known))
            hint = hint or f"docs/inventory.md lists the {what}s"
        raise Problem("template-filter", message, hint=hint, line=node.lineno, name=node.name)

    def _undefined(self, text: str, undefined: Undefined, scope: Scope) -> Exception:
        """Return the error for something undefined, or for the key that it was asked by."""
        name: Any = undefined._undefined_name  # noqa: SLF001 - Jinja2 has no other way to ask for it
        if isinstance(name, Undefined):
            return name.cause or self._undefined(text, name, scope)
        name = "" if name is None else str(name)
        holder = undefined._undefined_obj  # noqa: SLF001 - as above
        if holder is not missing:
            keys = [str(key) for key in holder] if isinstance(holder, Mapping) else []
            hint = nearest(name, keys) or f"set it, or give it a default: {name} | default(…)"
            message = f"the template asks {_kind(holder)} for '{name}', which it does not have"
        elif undefined._undefined_hint:  # noqa: SLF001 - as above
            message, hint = str(undefined._undefined_hint), "set the value"  # noqa: SLF001 - as above
        else:
            message = f"the template uses the variable {name}, which nobody has set"
            hint = ABSENT_NAMES.get(name, _FACTS if _FACT.fullmatch(name) else "")
            hint = (
                hint
                or nearest(name, scope.names())
                or f"set {name}, or give it a default: {name} | default(…)"
            )
        return Problem("template-undefined", message, hint=hint, line=self._line_of(text, name), name=name)

    def _line_of(self, text: str, name: str) -> int:
        """Return the line of a text's first use of a name, 1 where there is none."""
        tree = self.environment.parse(self._escaped(text))
        uses = chain(
            (node for node in tree.find_all(nodes.Name) if node.name == name),
            (node for node in tree.find_all(nodes.Getattr) if node.attr == name),
        )
        return min((node.lineno for node in uses), default=1)


_FAILURES = (
    FilterError, TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError,
    AssertionError, re.error, OSError, RuntimeError, YAMLError,
)  # fmt: skip
_SYNTAX = "correct the expression; docs/inventory.md says what a template may hold"
_FAILED = "correct the expression, or write the value itself"


def _count_steps(tree: nodes.Template) -> None:
    """Put a count into each loop and macro, and the bounded form of ``~`` in place of Jinja2's."""
    for node in tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
        node.body.insert(0, nodes.ExprStmt(_own("tick", node.lineno), lineno=node.lineno))  # type: ignore[attr-defined] # each of them has a body
    _replace_concat(tree)


def _replace_concat(node: nodes.Node) -> None:
    for child in node.iter_child_nodes():
        _replace_concat(child)
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Concat):
            setattr(node, field, _own("joined", value.lineno, value.nodes))
        elif isinstance(value, list):
            value[:] = [
                _own("joined", item.lineno, item.nodes) if isinstance(item, nodes.Concat) else item
                for item in value
            ]


def _own(method: str, line: int, args: Iterable[nodes.Expr] = ()) -> nodes.Call:
    function = nodes.EnvironmentAttribute(method, lineno=line)
    return nodes.Call(function, list(args), [], None, None, lineno=line)


def _line(error: BaseException, template: Template | None) -> int:
    """Return the line of the template at which an error was raised, 0 where that is not known."""
    place, line = error.__traceback__, 0
    while place is not None and template is not None:
        if place.tb_frame.f_code.co_filename == _FILE:
            line = template.get_corresponding_lineno(place.tb_lineno)
        place = place.tb_next
    return line


def _said(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it calls itself too often"
    if isinstance(error, KeyError):
        return f"there is no key {error}"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 2 * _SHOWN else text[: 2 * _SHOWN] + "…"


def _kind(value: Any) -> str:
    kinds = ((Mapping, "a mapping"), ((list, tuple), "a list"), (str, "a text"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "a value")
