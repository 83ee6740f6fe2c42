"""Which variables the templates of an inventory refer to, found without rendering any.

A name counts in a branch that is not taken, too. Of what is reached by words (``hostvars[host].name``,
``vars['name']``, ``lookup('vars', 'name')``), every word of the template counts. Jinja2's own search
(``jinja2.meta``) generates code, which computes constants outside of the sandbox; this only parses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment, TemplateSyntaxError, nodes

from nidome.declare.templating.values import templates_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nidome.declare.yamlmarks import Node

__all__ = ["reached", "referred"]

_PARSER = Environment(autoescape=False)  # noqa: S701 - it renders nothing
_BY_WORDS = frozenset({"hostvars", "vars", "lookup", "query", "q"})


def reached(start: Iterable[str], written: Mapping[str, list[Node]]) -> set[str]:
    """Return the names that the templates of some variables refer to, directly or through other templates."""
    found: set[str] = set()
    waiting = list(start)
    done: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in done:
            done.add(name)
            used = {other for node in written.get(name, ()) for other in referred(node)}
            found |= used
            waiting.extend(used)
    return found


def referred(node: Node) -> set[str]:
    """Return the names that the templates in a value refer to; nothing for one that is not valid."""
    found: set[str] = set()
    for text in templates_in(node):
        try:
            tree = _PARSER.parse(text)
        except (TemplateSyntaxError, RecursionError):
            continue  # said when it is used
        found |= _names(tree)
    return found


def _names(tree: nodes.Template) -> set[str]:
    every = list(tree.find_all((nodes.Name, nodes.Getattr, nodes.Const)))
    names = {node.name for node in every if isinstance(node, nodes.Name) and node.ctx == "load"}
    if not _BY_WORDS.isdisjoint(names):
        names |= {node.attr for node in every if isinstance(node, nodes.Getattr)}
        names |= {
            node.value for node in every if isinstance(node, nodes.Const) and isinstance(node.value, str)
        }
    return names - _own_names(tree)


def _own_names(tree: nodes.Template) -> set[str]:
    """Return the names that loops and macros give to their own values."""
    loops = (target for loop in tree.find_all(nodes.For) for target in loop.target.find_all(nodes.Name))
    targets = (loop.target for loop in tree.find_all(nodes.For) if isinstance(loop.target, nodes.Name))
    macros: list[Any] = [*tree.find_all(nodes.Macro), *tree.find_all(nodes.CallBlock)]
    arguments = (argument for macro in macros for argument in macro.args)
    return {"loop", "caller", *(name.name for name in (*loops, *targets, *arguments))}
