"""Templates in values, as the commands see them: typed values with their places, warnings, errors, limits."""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nidome.cli import common
from nidome.declare.inventory import read_inventory
from nidome.declare.resolve import load, resolve
from nidome.declare.templating import engine, filters, lookups
from nidome.declare.templating.values import HostValues, Templates
from nidome.errors import DeclarationError
from nidome.provenance import DEFAULT

if TYPE_CHECKING:
    from nidome.model.spec import ClusterSpec

Make = Callable[[Mapping[str, str]], Path]

_ALL = "group_vars/all.yml"
_TWO = """\
[kube_control_plane]
node1 ansible_host=192.168.50.5
[etcd]
node1
[kube_node]
node1
node2 ansible_host=192.168.50.6
"""


def _load(inventory: Make, text: str, **options: Any) -> ClusterSpec:
    return load(inventory({_ALL: text}), **options)[0]


def _error(inventory: Make, text: str, **options: Any) -> tuple[str, str, str, str]:
    """Return code, message, place and hint of the error that a file of variables makes."""
    root = inventory({_ALL: text})
    with pytest.raises(DeclarationError) as caught:
        load(root, **options)
    error = caught.value
    assert error.hint
    return error.code, error.message, error.where.removeprefix(f"{root}/"), error.hint


def test_a_template_gives_a_typed_value_with_its_place(inventory: Make) -> None:
    """A rendered value has the type of its variable, the line of its template, and the variables it used."""
    spec = _load(
        inventory,
        """\
base: /etc/k8s
spare: 10
kube_config_dir: "{{ base }}/conf"
kubelet_max_pods: "{{ 100 + spare }}"
helm_enabled: "{{ kubelet_max_pods | int > 100 }}"
upstream_dns_servers: ["{{ dns | default('1.1.1.1') }}", 9.9.9.9]
eviction_hard: {memory.available: "{{ spare }}%"}
supplementary_addresses_in_ssl_keys: "[{% for h in groups['all'] %}'{{ h }}.lab', {% endfor %}]"
""",
    )
    assert (spec.kube_config_dir.value, spec.kubelet_max_pods.value) == ("/etc/k8s/conf", 110)
    assert (spec.helm_enabled.value, spec.upstream_dns_servers.value) == (True, ("1.1.1.1", "9.9.9.9"))
    assert spec.eviction_hard.value == {"memory.available": "10%"}
    assert spec.supplementary_addresses_in_ssl_keys.value == ("node1.lab",)
    assert str(spec.kube_config_dir.origin).endswith(f"{_ALL}:3")
    assert (spec.kube_config_dir.uses, spec.kubelet_max_pods.uses) == (("base",), ("spare",))
    assert (spec.helm_enabled.uses, spec.kube_log_level.uses) == (("kubelet_max_pods",), ())


def test_a_template_sees_the_default_of_a_supported_variable(inventory: Make) -> None:
    """A supported variable that nobody has set has its default in a template, computed ones too."""
    spec = _load(
        inventory,
        """\
kube_config_dir: "{{ base }}"
base: /srv/k8s
etcd_data_dir: "{{ kube_cert_dir }}/etcd"
containerd_storage_dir: "{{ bin_dir }}/images"
supplementary_addresses_in_ssl_keys:
  - "{{ kube_service_addresses | ansible.utils.ipaddr('1') | ipaddr('address') }}"
kubelet_max_pods: "{{ kube_network_node_prefix }}"
""",
    )
    assert spec.etcd_data_dir.value == "/srv/k8s/ssl/etcd"
    assert spec.containerd_storage_dir.value == "/usr/local/bin/images"
    assert spec.supplementary_addresses_in_ssl_keys.value == ("10.233.0.1",)
    assert spec.kubelet_max_pods.value == 24


def test_an_address_has_no_default_in_a_template(inventory: Make) -> None:
    """A chain of defaults over ip and ansible_host ends at what the host has."""
    spec = _load(inventory, 'access_ip: "{{ ip | default(ansible_host) }}"\n')
    assert spec.hosts[0].access_ip.value == "192.168.50.5"


def test_omit_leaves_a_variable_at_its_default(inventory: Make) -> None:
    """A value that is omitted is the default, and says so."""
    spec = _load(inventory, 'kube_apiserver_port: "{{ port | default(omit) }}"\n')
    assert (spec.kube_apiserver_port.value, spec.kube_apiserver_port.origin) == (6443, DEFAULT)


def test_each_host_has_its_own_value(tmp_path: Path) -> None:
    """One template of group_vars is rendered for each host, with what that host has."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "inventory.ini").write_text(_TWO)
    (tmp_path / _ALL).write_text(
        "where: rack\nlabel: '{{ where }}-{{ inventory_hostname }}'\n"
        "node_labels:\n  name: '{{ label }}'\n  rack: '{{ where }}'\n"
        "  other: '{{ hostvars[other].ansible_host }}'\n"
        "other: '{{ groups.kube_node | difference([inventory_hostname]) | first }}'\n"
    )
    labels = {host.name: host.node_labels.value for host in resolve(read_inventory(tmp_path)).hosts}
    assert labels == {
        "node1": {"name": "rack-node1", "other": "192.168.50.6", "rack": "rack"},
        "node2": {"name": "rack-node2", "other": "192.168.50.5", "rack": "rack"},
    }


def test_hosts_that_render_differently_disagree_about_the_cluster(tmp_path: Path) -> None:
    """A setting of the whole cluster whose template gives two hosts two values is an error."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "inventory.ini").write_text(_TWO)
    (tmp_path / _ALL).write_text("cluster_name: '{{ inventory_hostname }}.local'\n")
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path / "inventory.ini")
    assert (caught.value.code, caught.value.where) == ("variable-differs", f"{tmp_path}/{_ALL}:1")


def test_a_template_given_on_the_command_line_wins(inventory: Make) -> None:
    """A template of -e sees the variables of the files and wins over them."""
    extra = {"kube_cert_dir": "{{ kube_config_dir }}/pki"}
    spec = _load(inventory, "kube_config_dir: /srv\nkube_cert_dir: /x\n", extra_vars=extra)
    assert (spec.kube_cert_dir.value, str(spec.kube_cert_dir.origin)) == ("/srv/pki", "command line")


def test_what_only_templates_use_is_not_unknown(inventory: Make) -> None:
    """What the template of a used variable refers to is used, also in a branch that is not taken."""
    root = inventory(
        {
            _ALL: """\
direct: /a
untaken: /b
through: "{{ behind }}"
behind: c
of_a_host: d
by_name: e
loop: f
unused: g
typo_only: h
typo: "{{ typo_only }}"
bin_dir: "{% if false %}{{ untaken | ipaddr }}{% endif %}{{ direct }}/{{ through }}"
kube_cert_dir: "/{{ hostvars['node1'].of_a_host }}/{{ lookup('vars', 'by_name') }}"
kubelet_custom_flags: "[{% for loop_item in [1] %}'--v={{ loop_item }}'{% endfor %}]"
registry_host: used.example
containerd_metrics_address: "{{ '' if registry_host else '' }}"
kube_script_dir: "{{ for_known }}"
for_known: i
"""
        }
    )
    _, warnings = load(root)
    named = {warning.message.split()[0]: warning.code for warning in warnings}
    unknown = dict.fromkeys(("loop", "unused", "typo", "typo_only"), "variable-unknown")
    assert named == {**unknown, "kube_script_dir": "variable-unsupported"}


# Each case: the file of variables, the error's code, words of its message, its line, words of its hint.
_WRONG = [
    ('bin_dir: "{{ my_bse }}/x"\nmy_base: /a\n', "template-undefined", "my_bse", 1, "did you mean my_base?"),
    ('bin_dir: "{{ a }}"\na: "{{ b }}"\nb: "{{ c }}"\n', "template-undefined", "variable c,", 3, "set c"),
    ('bin_dir: "{{ d.keyy }}"\nd: {key: /a}\n', "template-undefined", "a mapping for 'keyy'", 1, "mean key?"),
    ("bin_dir:\n  '{{ hostvars.node9.ip }}'\n", "template-undefined", "'node9'", 2, "did you mean node1?"),
    ('bin_dir: "{{ [1][nobody] }}"\n', "template-undefined", "variable nobody,", 1, "set nobody"),
    ('bin_dir: "{{ ansible_env.HOME }}"\n', "template-undefined", "ansible_env", 1, "facts are gathered"),
    ('bin_dir: "{{ playbook_dir }}"\n', "template-undefined", "playbook_dir", 1, "inventory_dir"),
    ('bin_dir: "{{ undef(hint=\'choose one\') }}"\n', "template-undefined", "choose one", 1, "set"),
    ('bin_dir: "{{ x | mandatory }}"\n', "template-failed", "'x' is mandatory", 1, "set x"),
    ('bin_dir: "{{ hostvars | string }}"\n', "template-failed", "as a whole", 1, "name what is meant"),
    ('bin_dir: "/{{ vars }}"\n', "template-failed", "as a whole", 1, "name what is meant"),
    ('bin_dir: "{{ a }"\n', "template-syntax", "unexpected '}'", 1, "docs/inventory.md"),
    ('bin_dir: "{% if a %}x"\n', "template-syntax", "endif", 1, "docs/inventory.md"),
    ("bin_dir: |\n  /a\n  {% fi %}\n", "template-syntax", "unknown tag 'fi'", 3, "docs/inventory.md"),
    ("bin_dir: \"{% include 'x' %}\"\n", "template-syntax", "cannot include", 1, "write the value"),
    ('bin_dir: "{{ 1 | defalt(2) }}"\n', "template-filter", "no filter defalt", 1, "did you mean default?"),
    ('bin_dir: "{{ 1 is defind }}"\n', "template-filter", "no test defind", 1, "did you mean defined?"),
    ('bin_dir: "{{ [1] | random }}"\n', "template-filter", "random does not exist", 1, "write the value"),
    ('bin_dir: "{{ 1 | a.b.ipadr }}"\n', "template-filter", "no filter a.b.ipadr", 1, "mean ipaddr?"),
    ("bin_dir: |\n  {% if 1 %}\n  {{ x | upper }}\n  {% endif %}\n", "template-undefined", "x,", 3, "set x"),
    ("bin_dir: >-\n  /a\n  /{{ x }}\nz: 1\n", "template-undefined", "x,", 3, "set x"),
    ('bin_dir: "/a\n  /{{ x }}"\n', "template-undefined", "x,", 2, "set x"),
    ("bin_dir: |\n  {{ 1 }}\n  {{ 1 / 0 }}\n", "template-failed", "division by zero", 3, "correct"),
    ("bin_dir: |\n  {{ 1 }}\n  {{ '1.1.1.1' | ipaddr('q') }}\n", "template-failed", "'q'", 3, "use a"),
    ("node_labels: [a, {b: ['{{ x }}']}]\n", "template-undefined", "x,", 1, "set x"),
    ('kubelet_max_pods: "{{ a }}x"\na: 5\n', "variable-type", "template that uses a)", 1, "correct the"),
    ('bin_dir: "{{ 5 > 3 }}"\n', "variable-type", "found true (the value is a template", 1, "correct"),
    ('kube_proxy_mode: "{{ m }}"\nm: ipvs\n', "variable-choice", "'ipvs' is not supported", 1, "correct the"),
    ('bin_dir: "{{ kube_cert_dir }}"\nkube_cert_dir: "{{ x }}"\n', "template-undefined", "x,", 2, "set x"),
    ("bin_dir: \"{{ lookup('file', 'no.txt') }}\"\n", "template-failed", "cannot be read", 1, "beside"),
    ("bin_dir: \"{{ lookup('file', '/dev/zero') }}\"\n", "template-failed", "it is a device", 1, "beside"),
    ("bin_dir: \"{{ lookup('password', 'x') }}\"\n", "template-failed", "would write a file", 1, "write the"),
    ("bin_dir: \"{{ lookup('flie', 'x') }}\"\n", "template-failed", "flie does not exist", 1, "mean file?"),
    ("bin_dir: \"{{ lookup('pipe', 'id') }}\"\n", "template-failed", "a command", 1, "--allow-pipe-lookup"),
    ("bin_dir: \"{{ lookup('vars', 'no') }}\"\n", "template-failed", "nobody has set", 1, "default"),
    ("bin_dir: \"{{ 'a' | b64decode }}\"\n", "template-failed", "b64decode", 1, "correct"),
    ("bin_dir: \"{{ 'a: [' | from_yaml }}\"\n", "template-failed", "cannot be rendered", 1, "correct"),
    ("bin_dir: \"{{ 'x' | regex_search('(') }}\"\n", "template-failed", "cannot be rendered", 1, "correct"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "words", "line", "hint"), _WRONG)
def test_a_wrong_template_is_an_error_at_its_line(
    inventory: Make, text: str, code: str, words: str, *, line: int, hint: str
) -> None:
    """What is wrong with a template is said with the line inside of the value, and the next step."""
    found = _error(inventory, text)
    assert (found[0], found[2]) == (code, f"{_ALL}:{line}")
    assert words in found[1]
    assert hint in found[3]


def test_variables_that_define_each_other_are_an_error(inventory: Make) -> None:
    """A cycle is named with every variable in it and its place."""
    code, message, where, _ = _error(inventory, 'bin_dir: "{{ a }}"\na: "{{ b }}"\nb: "{{ a }}"\n')
    assert (code, where) == ("template-recursion", f"{_ALL}:2")
    assert re.sub(r"\(\S*/", "(", message) == (
        "the variable a is defined by itself: a (all.yml:2) → b (all.yml:3) → a"
    )


def test_a_cycle_through_a_default_is_an_error(inventory: Make) -> None:
    """A default that follows from a variable whose template uses that default is a cycle too."""
    code, message, _, _ = _error(inventory, 'kube_config_dir: "{{ kube_cert_dir }}"\n')
    assert (code, "kube_config_dir is defined by itself" in message) == ("template-recursion", True)


def test_a_very_long_chain_is_an_error(inventory: Make) -> None:
    """More variables in a row than any declaration has are an error, not a crash."""
    chain = "".join(f'v{n}: "{{{{ v{n + 1} }}}}"\n' for n in range(3000))
    code, message, _, _ = _error(inventory, f'bin_dir: "{{{{ v0 }}}}"\n{chain}')
    assert (code, "refer to one another" in message) == ("template-recursion", True)


@pytest.mark.parametrize(
    "expression",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{{ 'a' * 10**10 }}",
        "{{ [0] * 10**9 }}",
        "{{ 9**9**9**9 }}",
        "{% set n = namespace(x='a') %}{% for i in [1]*99 %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='') %}{% for i in [1]*60 %}{% set n.x = n.x+'a'+n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
        "{{ 'a' | center(10**10) }}",
        "{{ 'a'.ljust(10**10) }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ '{:>10000000000}'.format(1) }}",
        "{{ range(10) | permutations | list }}",
        "{{ (('a' * 40) ~ 'b') | regex_search('^(a+)+$') }}",
        "{{ range(10**9) | list }}",
        "{{ 10**4000 ~ '' }}",
    ],
)
def test_a_template_without_end_is_an_error(inventory: Make, expression: str) -> None:
    """A template that would need endless time or memory is stopped with an error."""
    code, *_ = _error(inventory, f'bin_dir: "{expression}"\n')
    assert code in ("template-bounds", "template-failed", "variable-type")


@pytest.mark.parametrize(
    "expression",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ lookup.__globals__ }}",
        "{{ hostvars._templates }}",
        "{{ hostvars['node1']._values }}",
        "{{ vars.__init__.__globals__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ [''] | map(attribute='__class__') }}",
        "{{ groups['all'].append('x') }}",
        "{{ hostvars['node1'].update({}) }}",
        "{{ self.__init__ }}",
        "{{ cycler.__init__ }}",
        "{{ namespace.__init__ }}",
    ],
)
def test_a_template_cannot_reach_behind_its_values(inventory: Make, expression: str) -> None:
    """Python's internals and changes to the inventory are out of a template's reach."""
    code, *_ = _error(inventory, f'bin_dir: "{expression}"\n')
    assert code in ("template-failed", "template-undefined")


def test_a_template_in_another_thread_is_bounded_by_what_is_counted(inventory: Make) -> None:
    """Outside of the main thread, where no timer can stop it, a template's loops are still counted."""
    root = inventory(
        {_ALL: 'bin_dir: "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"\n'}
    )
    codes: list[str] = []

    def read() -> None:
        try:
            load(root)
        except DeclarationError as error:
            codes.append(error.code)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert codes == ["template-bounds"]


@pytest.mark.parametrize("expression", ["{{ '/' ~ 'a' }}", "{{ nobody }}", "{{ 'a'.ljust(10**10) }}"])
def test_limits_end_with_the_reading(inventory: Make, expression: str) -> None:
    """The limits of time and memory that templates have are gone when the inventory is read, or refused."""
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)
    with suppress(DeclarationError):
        load(inventory({_ALL: f'bin_dir: "{expression}"\n'}))
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_what_is_the_same_for_all_hosts_is_rendered_once(tmp_path: Path) -> None:
    """Hosts share a rendered value where all that it used is the same for them, and only there."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "inventory.ini").write_text(_TWO.replace("192.168.50.6", "192.168.50.6 own=2"))
    (tmp_path / _ALL).write_text(
        "own: 1\nbase: a\nshared: '{{ base }}-{{ deeper }}'\ndeeper: '{{ base }}'\n"
        "differs: '{{ deeper2 }}'\ndeeper2: '{{ own }}'\nnamed: '{{ inventory_hostname }}'\n"
        "fixed: '{{ hostvars.node2.differs }}'\n"
    )
    templates = Templates(read_inventory(tmp_path / "inventory.ini"), _no_default)
    one, two = templates.of("node1"), templates.of("node2")
    same = {name: one.get(name) is two.get(name) for name in ("shared", "differs", "named", "fixed")}
    assert same == {"shared": True, "differs": False, "named": False, "fixed": True}
    assert [values.find("differs") for values in (one, two)] == ["1", "2"]
    assert [values.find("fixed") for values in (one, two)] == ["2", "2"]


def _no_default(_values: HostValues, name: str) -> Any:
    raise KeyError(name)


def test_pipe_runs_a_command_only_where_it_is_allowed(inventory: Make) -> None:
    """With the flag, a template may run a command beside the inventory; a command that fails is an error."""
    text = "bin_dir: \"/{{ lookup('pipe', 'ls hosts.yaml') }}\"\n"
    assert _load(inventory, text, allow_pipe=True).bin_dir.value == "/hosts.yaml"
    assert _error(inventory, text)[0] == "template-failed"
    failing = "bin_dir: \"{{ lookup('pipe', 'echo no >&2; exit 3') }}\"\n"
    code, message, _, _ = _error(inventory, failing, allow_pipe=True)
    assert (code, "ended with 3: no" in message) == ("template-failed", True)


def test_the_command_line_allows_pipe(inventory: Make) -> None:
    """``--allow-pipe-lookup`` is an option of each command that reads an inventory."""
    root = inventory({_ALL: "bin_dir: \"/{{ lookup('pipe', 'ls hosts.yaml') }}\"\n"})
    parser = argparse.ArgumentParser()
    common.add_inventory(parser)
    allowed = parser.parse_args([f"--inventory={root}", "--allow-pipe-lookup"])
    assert common.declared(allowed)[0].bin_dir.value == "/hosts.yaml"
    with pytest.raises(DeclarationError):
        common.declared(parser.parse_args([f"--inventory={root}"]))


def test_a_file_beside_the_inventory_can_be_looked_up(inventory: Make) -> None:
    """A relative path of a lookup is beside the inventory, wherever one stands."""
    root = inventory({"pods.txt": "64\n", _ALL: "kubelet_max_pods: \"{{ lookup('file', 'pods.txt') }}\"\n"})
    assert load(root)[0].kubelet_max_pods.value == 64


def test_vars_is_the_hosts_own_variables(inventory: Make) -> None:
    """``vars`` gives a variable by its name, rendered."""
    spec = _load(inventory, "a: /x\nb: '{{ a }}/y'\nbin_dir: \"{{ vars['b'] }}\"\n")
    assert spec.bin_dir.value == "/x/y"


def test_what_is_not_used_is_not_rendered(inventory: Make) -> None:
    """A wrong template in a variable that nothing reads stops nothing."""
    _, warnings = load(inventory({_ALL: 'mine: "{{ nobody }}"\nworse: "{{ }}"\n'}))
    assert [warning.code for warning in warnings] == ["variable-unknown"] * 2


def test_text_that_is_unsafe_is_not_rendered(inventory: Make) -> None:
    """A text marked !unsafe is used as it is written."""
    spec = _load(inventory, 'kubelet_custom_flags: [!unsafe "--node-labels={{ b }}"]\n')
    assert spec.kubelet_custom_flags.value == ("--node-labels={{ b }}",)


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("bin_dir: /opt/bin\n", {"jinja2": False, "netaddr": False}),
        ('mine: "{{ x }}"\n', {"jinja2": False, "netaddr": False}),
        ("bin_dir: \"{{ x | default('/a') }}\"\n", {"jinja2": True, "netaddr": False}),
    ],
)
def test_only_a_template_that_is_used_costs_its_imports(
    inventory: Make, text: str, imported: dict[str, bool]
) -> None:
    """Jinja2 is imported when a used value holds a template, netaddr when a filter for addresses is used."""
    code = (
        "import sys; from pathlib import Path; from nidome.declare.resolve import load;"
        f"load(Path({str(inventory({_ALL: text}))!r}));"
        f"print({{name: name in sys.modules for name in {list(imported)!r}}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(imported)


def _row(name: str) -> list[str]:
    page = Path(__file__).parents[3] / "docs" / "inventory.md"
    row = next(line for line in page.read_text().splitlines() if line.startswith(f"| {name} | "))
    return re.findall(r"`(\w+)`", row.split("; with")[0].split(" and ", 1)[-1])


def test_the_page_lists_what_exists() -> None:
    """docs/inventory.md lists exactly the filters, tests and lookups that Nidome adds to Jinja2's own."""
    assert _row("filters") == sorted(filters.FILTERS)
    assert _row("tests") == sorted(filters.TESTS)
    assert _row("lookups") == sorted(lookups.LOOKUPS)
    assert _row("for addresses") == sorted(engine.NETWORK_FILTERS)
    text = (Path(__file__).parents[3] / "docs" / "inventory.md").read_text()
    assert all(f"`{name}`" in text for name in (*filters.ABSENT, *lookups.ABSENT))


def test_a_lookup_does_not_wait_for_a_pipe(inventory: Make, tmp_path: Path) -> None:
    """A template that reads a named pipe is an error at once: nobody may ever write to it."""
    os.mkfifo(tmp_path / "pipe")
    code, message, *_ = _error(inventory, f"bin_dir: \"{{{{ lookup('file', '{tmp_path}/pipe') }}}}\"\n")
    assert (code, "it is a pipe" in message) == ("template-failed", True)
