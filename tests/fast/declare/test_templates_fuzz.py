"""Any text as a template: a value or an error with its place, in bounded time, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from nidome.declare.resolve import load
from nidome.declare.templating.filters import FILTERS, TESTS
from nidome.errors import DeclarationError

_HOSTS = "[kube_control_plane]\nnode1 ip=192.168.50.5\n[etcd]\nnode1\n[kube_node]\nnode1\n"
_NAMES = ("number", "text", "list", "mapping", "missing", "self_made", "hostvars", "groups", "vars", "omit")
_VARIABLES = {
    "number": 5,
    "text": "a {b}",
    "list": [1, "2", None, [3]],
    "mapping": {"a": {"b": "{{ number }}"}, "c": None},
    "self_made": "{{ '{{' }} number {{ '}}' }}",
}
_ATOMS = st.sampled_from(
    [*_NAMES, "1", "-1", "10**9", "'x'", "[1, 2]", "{'k': 1}", "none", "true", "1.5", "range(9)", "()"]
) | st.integers().map(str)
_FILTERS = st.sampled_from(
    [*FILTERS, "default", "join", "map", "select", "replace", "center", "ipaddr", "ipsubnet", "int", "tojson"]
)
_ARGUMENTS = st.sampled_from(
    ["", "(1)", "('a')", "('a', 'b')", "([1])", "(10**9)", "({'a': 1})", "('.*', '\\\\1')"]
)
_TESTS = st.sampled_from([*TESTS, "defined", "none", "string", "mapping", "in"])
_OPERATORS = st.sampled_from(["+", "-", "*", "**", "/", "//", "%", "~", "==", "<", "in", "and", "or", "if"])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, _FILTERS, _ARGUMENTS).map(lambda p: f"({p[0]} | {p[1]}{p[2]})"),
        st.tuples(inner, _TESTS, _ARGUMENTS).map(lambda p: f"({p[0]} is {p[1]}{p[2]})"),
        st.tuples(inner, _OPERATORS, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, st.sampled_from(["a", "upper()", "_x", "__class__", "items()"])).map(".".join),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}[{p[1]}])"),
    ),
    max_leaves=6,
)
_TEXTS = st.one_of(
    _EXPRESSIONS.map(lambda e: f"{{{{ {e} }}}}"),
    _EXPRESSIONS.map(lambda e: f"[{{{{ {e} }}}}]\n"),
    st.tuples(_EXPRESSIONS, _EXPRESSIONS).map(
        lambda p: f"{{% for x in {p[0]} %}}{{{{ {p[1]} }}}}{{% endfor %}}"
    ),
    st.tuples(_EXPRESSIONS, _EXPRESSIONS).map(
        lambda p: f"{{% if {p[0]} %}}\n{{{{ {p[1]} }}}}\n{{% endif %}}"
    ),
    _EXPRESSIONS.map(lambda e: f"{{% set x = {e} %}}{{{{ x }}}}{{{{ x ~ x }}}}"),
    st.lists(
        st.sampled_from(
            ["{{", "}}", "{%", "%}", "{#", "#}", "'", "|", "(", "[", " x ", "for", "\\", "\n", "é", "\x00"]
        )
    ).map("".join),
    st.text().map(lambda t: f"{{{{ {t} }}}}"),
)


@given(
    text=_TEXTS, kind=st.sampled_from(["bin_dir", "kubelet_max_pods", "helm_enabled", "kubelet_custom_flags"])
)
def test_any_template_is_a_value_or_an_error(text: str, kind: str) -> None:
    """Whatever a template is, reading it gives a cluster or a DeclarationError with file and line."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "inventory.ini").write_text(_HOSTS)
        (root / "group_vars").mkdir()
        (root / "group_vars" / "all.json").write_text(json.dumps({**_VARIABLES, kind: text}))
        error = _error(root / "inventory.ini")
        assert error is None or (error.where.startswith(f"{root}/") and error.hint)


def _error(inventory: Path) -> DeclarationError | None:
    try:
        load(inventory)
    except DeclarationError as error:
        return error
    return None
