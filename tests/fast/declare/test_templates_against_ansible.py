"""The same templates, rendered by Nidome and by the real Ansible: values and their types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nidome.declare.inventory import read_inventory
from nidome.declare.templating.values import HostValues, Templates
from nidome.errors import DeclarationError

_RENDER = Path(__file__).with_name("render_with_ansible.py")
_HOSTS = """\
[kube_control_plane]
node1 ansible_host=10.0.0.1 ip=10.0.0.1 zone=a
node2.example.org ansible_host=10.0.0.2 ip=10.0.0.2 zone=b
[etcd]
node1
[kube_node]
node[3:4] zone=c ip=10.0.1.3
[k8s_cluster:children]
kube_control_plane
kube_node
"""

# Each case: the files of an inventory; the hosts are those above where it has no inventory.ini of its own.
_CASES: dict[str, dict[str, str]] = {
    "types of a lone variable, of text and of what looks like data": {
        "group_vars/all.yml": r"""
number: 5
real: 1.5
flag: true
nothing: ~
text: "07"
date: 2020-01-31
number_ref: "{{ number }}"
number_twice: "{{ number_ref }}"
flag_ref: "{{ flag }}"
flag_twice: "{{ flag_ref }}"
nothing_ref: "{{ nothing }}"
nothing_twice: "{{ nothing_ref }}"
nothing_inside: "<{{ nothing }}>"
text_ref: "{{ text }}"
date_ref: "{{ date }}"
sum: "{{ number + 1 }}"
compared: "{{ number > 3 }}"
spaces: " {{ number }} "
concatenated: "{{ text ~ number }}"
list: [1, "2", "{{ number }}", {deep: ["{{ flag }}", "{{ text }}"]}]
list_ref: "{{ list }}"
first: "{{ list[0] }}"
mapping: {a: 1, b: {c: "{{ text }}/c"}, "{{ number }}": not a template}
mapping_ref: "{{ mapping }}"
mapping_part: "{{ mapping.b }}"
leaf: "{{ mapping['b'].c }}"
looks_like_a_list: "[ {{ number }}, {{ flag }}, null, true ]"
looks_like_a_list_in_quotes: "{{ '[1, 2]' }}"
is_not_a_list: "[10.0.0.0/8]"
is_a_broken_list: "[{{ number }}"
looks_like_a_mapping: "{\"a\": {{ number }}, 'b': [none]}"
json_stays_text: "{{ mapping | to_json }}"
string_stays_text: "{{ list | string }}"
word: "{{ 'True' }}"
tuple: "{{ (1, 2) }}"
generator: "{{ list | map('string') }}"
numbers: "{{ range(3) }}"
pairs: "{{ mapping.items() }}"
only_a_comment: "a{# c #}b"
not_a_template: "{ {x} }"
negative: "{{ -number }}"
""",
    },
    "statements, white space and lines": {
        "group_vars/all/text.yml": r"""
flag: true
number: 5
block: |
  {% if flag %}
  yes {{ number }}
  {% else %}
  no
  {% endif %}
  end
folded: >-
  {%- if missing is defined -%}
  [{{ missing }}]
  {%- else -%}
  []
  {%- endif -%}
loop: "{% for host in groups['k8s_cluster'] | sort %}{{ host }}{% if not loop.last %},{% endif %}{% endfor %}"
loop_as_list: "[{% for host in groups['k8s_cluster'] | sort %}'{{ hostvars[host].ip }}',{% endfor %}]"
set: "{% set x = number * 2 %}{{ x }}"
macro: "{% macro wrapped(x) %}[{{ x }}]{% endmacro %}{{ wrapped(number) }}"
raw: "{% raw %}{{ number }}{% endraw %}"
ends_with_lines: "{{ number }}\n\n"
namespace: "{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"
nothing_at_all: "{{ 'a' if not flag }}"
backslash: "{{ 'a.b' | regex_replace('^(.*)\\.b$', '\\1') }}"
newline: "{{ 'a\nb' }}"
escaped: '{{ "a\nb" }}'
statement_escape: '{% set x = "a\nb" %}{{ x }}'
""",
    },
    "what is missing": {
        "group_vars/all.yml": r"""
missing_ref: "{{ missing }}"
defaulted: "{{ missing | default('d') }}"
default_of_default: "{{ missing | d(other | d('e')) }}"
deep: "{{ missing.a['b'].c | default('g') }}"
through_a_variable: "{{ missing_ref | default('e') }}"
empty: "{{ '' | default('f', true) }}"
empty_kept: "{{ '' | default('f') }}"
defined: "{{ missing_ref is defined }} {{ empty is defined }} {{ missing is undefined }}"
in_a_list: ["{{ missing }}", 1]
list_ref: "{{ in_a_list | default([]) }}"
not_taken: "{{ 1 if true else missing }}"
required: "{{ missing | mandatory }}"
key: "{{ {'a': 1}.b | default('no b') }}"
key_needed: "{{ {'a': 1}.b }}"
index: "{{ [1][4] | default('no 4') }}"
member: "{{ {'a': [{'b': 1}]}.a[0].b }}"
unknown_filter: "{{ 1 | nofilter }}"
broken: "{{ 1 "
""",
    },
    "hosts, groups and layers": {
        "group_vars/all.yml": r"""
where: all
where_ref: "from {{ where }}"
me: "{{ inventory_hostname }} {{ inventory_hostname_short }}"
mine: "{{ group_names }}"
control_plane: "{{ groups['kube_control_plane'] }}"
first_ip: "{{ hostvars[groups['kube_control_plane'][0]].ip }}"
first_name: "{{ hostvars[groups['kube_control_plane'] | first]['named'] }}"
addresses: "{{ groups['kube_control_plane'] | map('extract', hostvars, 'ip') | list }}"
joined: "{{ groups['kube_control_plane'] | map('extract', hostvars, ['ip']) | join(',') }}"
named: "{{ zone }}-{{ inventory_hostname }}"
in_group: "{{ 'etcd' in group_names }}"
others: "{{ groups['k8s_cluster'] | difference([inventory_hostname]) | sort }}"
my_ip: "{{ hostvars[inventory_hostname].ip }}"
zones: "{{ groups['all'] | map('extract', hostvars, 'zone') | unique | sort }}"
directory: "{{ inventory_dir | basename }}/{{ inventory_file | basename }}"
a_host_that_is_not: "{{ hostvars['nobody'].ip | default('none') }}"
from_the_command_line: "{{ given }} {{ given2 | default('-') }}"
""",
        "group_vars/kube_node.yml": "where: nodes\n",
        "group_vars/etcd/a.yml": 'where: "etcd {{ zone }}"\n',
        "host_vars/node2.example.org.yml": 'where: "host {{ where2 }}"\nwhere2: "{{ ip }}"\n',
        "-e": "given=x\ngiven2={{zone}}-given",
    },
    "templates in INI": {
        "inventory.ini": """\
[kube_control_plane]
node1 ip=10.0.0.1 url="https://{{ ip }}:{{ port }}" short={{inventory_hostname}}-x list="['{{ ip }}', 5]"
node2 ip=10.0.0.2 url={{base}}/{{ip}}
[kube_control_plane:vars]
port=6443
base=/opt
path={{ base }}/{{ inventory_hostname }}
number={{ port + 1 }}
flag={{ port == 6443 }}
text='{{ base }}'
mapping={'a': '{{ base }}'}
""",
    },
    "filters for lists and mappings": {
        "group_vars/all.yml": r"""
base: {a: {x: 1, l: [1, 2]}, b: 1}
more: {a: {y: 2, l: [2, 3]}, c: 3}
combined: "{{ base | combine(more) }}"
combined_deep: "{{ base | combine(more, recursive=True) }}"
appended: "{{ base | combine(more, recursive=True, list_merge='append') }}"
prepended: "{{ base | combine(more, recursive=True, list_merge='prepend') }}"
appended_new: "{{ base | combine(more, recursive=True, list_merge='append_rp') }}"
prepended_new: "{{ base | combine(more, recursive=True, list_merge='prepend_rp') }}"
kept: "{{ base | combine(more, recursive=True, list_merge='keep') }}"
combined_many: "{{ [base, more, {'z': 1}] | combine }}"
combined_wrong: "{{ base | combine('text') }}"
items: "{{ base | dict2items }}"
named_items: "{{ base | dict2items(key_name='k', value_name='v') }}"
mapping: "{{ [{'key': 'a', 'value': 1}] | items2dict }}"
flat: "{{ [1, [2, [3, none]]] | flatten }}"
flat_once: "{{ [1, [2, [3]]] | flatten(levels=1) }}"
unique: "{{ [1, 1, 'a', 'A', 2] | unique }}"
union: "{{ [3, 1] | union([2, 1]) | sort }}"
intersect: "{{ [1, 2, 3] | intersect([3, 2]) | sort }}"
difference: "{{ [1, 2, 3] | difference([2]) | sort }}"
symmetric: "{{ [1, 2] | symmetric_difference([2, 3]) | sort }}"
subset: "{{ [1] is subset([1, 2]) }} {{ [1, 2] is superset([3]) }}"
contains: "{{ [1, 2] is contains(2) }} {{ 3 in [1, 2] }}"
zipped: "{{ [1, 2] | zip(['a', 'b']) }}"
zipped_long: "{{ [1, 2] | zip_longest(['a'], fillvalue='-') | list }}"
product: "{{ [1, 2] | product(['a']) | list }}"
selected: "{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) }}"
mapped: "{{ [{'a': 1}, {'a': 2}] | map(attribute='a') }}"
rejected: "{{ [1, none, 2] | reject('none') }}"
elements: "{{ [{'n': 'a', 'l': [1, 2]}] | subelements('l') }}"
extracted: "{{ ['x'] | map('extract', base.a) }}"
sorted: "{{ base | dictsort }}"
largest: "{{ [1, 3, 2] | max }} {{ [1, 3] | sum }} {{ [1, 3] | min }}"
ternary: "{{ base.b == 1 | ternary('y', 'n') }} {{ none | ternary(1, 2, 3) }}"
all_of: "{{ [true, 1] is all }} {{ [0, none] is any }}"
""",
    },
    "filters for texts": {
        "group_vars/all.yml": r"""
json: "{{ {'b': [1, none, true], 'a': 'é'} | to_json }}"
nice_json: "{{ {'b': [1], 'a': 'x'} | to_nice_json }}"
yaml: "{{ {'b': [1, 2], 'a': {'c': 'x'}} | to_yaml }}"
nice_yaml: "{{ {'b': [1, 2], 'a': {'c': 'x'}} | to_nice_yaml(indent=2) }}"
yaml_of_text: "{{ 'x' | to_yaml }}"
json_read: "{{ '{\"a\": [1]}' | from_json }}"
yaml_read: "{{ 'a: [1, yes]' | from_yaml }}"
encoded: "{{ 'hällo' | b64encode }}"
decoded: "{{ 'aMOkbGxv' | b64decode }}"
replaced: "{{ 'node1.example' | regex_replace('\\..*$', '') }}"
replaced_case: "{{ 'aAa' | regex_replace('a', 'b', ignorecase=True) }}"
searched: "{{ 'abc123' | regex_search('([a-z]+)(?P<n>[0-9]+)', '\\1', '\\g<n>') }}"
searched_not: "{{ 'abc' | regex_search('x') }}"
found: "{{ 'a1b2' | regex_findall('[0-9]') }}"
escaped: "{{ 'a.b' | regex_escape }} {{ 'a.b' | regex_escape('posix_basic') }}"
matches: "{{ 'abc' is match('b') }} {{ 'abc' is search('b') }} {{ 'abc' is regex('^A', ignorecase=True) }}"
hash: "{{ 'x' | hash('sha256') }} {{ 'x' | md5 }} {{ 'x' | sha1 }} {{ 'x' | checksum }}"
uuid: "{{ 'x' | to_uuid }}"
quoted: "{{ 'a b' | quote }} {{ none | quote }}"
split: "{{ 'a,b c' | split(',') }} {{ 'a b' | split }}"
paths: "{{ '/a/b.c' | basename }} {{ '/a/b.c' | dirname }} {{ '/a/b.c' | splitext | first }}"
joined: "{{ ['/a', 'b', 'c'] | path_join }} {{ '/a/../b' | normpath }} {{ '/a/b' | relpath('/a') }}"
url: "{{ 'https://u@h.org:8443/p?q=1#f' | urlsplit('hostname') }} {{ 'http://h/p' | urlsplit }}"
version: "{{ '1.30.2' is version('1.29', '>=') }} {{ '1.9' is version('1.10', 'lt') }}"
version_strict: "{{ '1.0a1' is version('1.0', '<', strict=True) }}"
version_semver: "{{ '1.0.0-rc.2' is version('1.0.0-rc.10', '<', version_type='semver') }}"
version_wrong: "{{ 'v1.2' is version('1.2', '<') }}"
booleans: "{{ 'yes' | bool }} {{ 'no' | bool }} {{ 1 | bool }} {{ 'nope' | bool }} {{ none | bool }}"
numbers: "{{ '5' | int + 1 }} {{ 'x' | int(7) }} {{ 2 | pow(3) }} {{ 9 | root }} {{ 100 | log(10) }}"
truthy: "{{ 'no' is truthy }} {{ 'no' is truthy(convert_bool=True) }} {{ '' is falsy }}"
full_names: "{{ 'x' | ansible.builtin.b64encode }} {{ '1.1' is ansible.builtin.version('1.0', '>') }}"
methods: "{{ 'a,b'.split(',') | map('upper') | join('-') }} {{ {'a': 1}.get('b', 2) }} {{ 'x'.upper() }}"
formatted: "{{ '%s-%02d' | format('a', 5) }} {{ '{}:{}'.format('h', 1) }} {{ '%d' % 5 }}"
""",
    },
    "lookups": {
        "group_vars/all.yml": r"""
home: "{{ lookup('env', 'NIDOME_TEST_WORD') }}"
unset: "{{ lookup('env', 'NIDOME_TEST_UNSET') }}|"
unset_default: "{{ lookup('ansible.builtin.env', 'NIDOME_TEST_UNSET', default='d') }}"
file: "{{ lookup('file', inventory_dir + '/some.txt') }}"
file_kept: "{{ lookup('file', inventory_dir + '/some.txt', rstrip=false) }}"
file_is_no_template: "{{ lookup('file', inventory_dir + '/braces.txt') }}"
no_file: "{{ lookup('file', inventory_dir + '/none.txt') }}"
no_file_ignored: "{{ lookup('file', inventory_dir + '/none.txt', errors='ignore') | default('x', true) }}"
queried: "{{ query('list', 'a', 'b') }} {{ q('items', [1, 2]) }}"
pairs: "{{ lookup('dict', {'a': 1, 'b': 2}) }}"
a_pair: "{{ lookup('dict', {'a': 1}) }}"
variable: "{{ lookup('vars', 'number') }}"
variables: "{{ lookup('vars', 'number', 'text') }}"
no_variable: "{{ lookup('vars', 'none_such', default='d') }}"
number: 5
text: "{{ number }}x"
found: "{{ lookup('first_found', [inventory_dir + '/none.txt', inventory_dir + '/some.txt']) | basename }}"
sequence: "{{ query('sequence', 'start=1 end=5 stride=2') }} {{ query('sequence', 'count=2 format=n%02d') }}"
together: "{{ query('together', [1, 2], ['a', 'b']) }} {{ query('nested', [1, 2], ['a']) }}"
indexed: "{{ query('indexed_items', ['a', 'b']) }}"
no_lookup: "{{ lookup('nolookup', 1) }}"
""",
        "some.txt": "first\nsecond\n\n",
        "braces.txt": "{{ number }}",
    },
    "values that are no templates": {
        "group_vars/all.yml": r"""
number: 5
kept: !unsafe "{{ number }}"
kept_ref: "{{ kept }}"
kept_inside: "<{{ kept }}>"
kept_in_list: [!unsafe "{{ number }}", "{{ number }}"]
made: "{{ '{{' }} number }}"
made_ref: "{{ made }}"
cycle_a: "{{ cycle_b }}"
cycle_b: "{{ cycle_a }}"
itself: "{{ itself }}"
""",
    },
}


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in {"inventory.ini": _HOSTS, **files}.items():
        if name != "-e":
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)


def _ansible(path: Path, home: Path, extra: list[str]) -> dict[str, dict[str, Any]]:
    environment = {
        **os.environ,
        "HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }
    command = [sys.executable, str(_RENDER), str(path), *extra]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def _rendered(values: HostValues, name: str) -> Any:
    if name not in values.raw:
        return _plain(values.find(name))
    try:
        entry = values.get(name)
    except DeclarationError as error:
        return {"undefined" if error.code == "template-undefined" else "error": True}
    assert entry is not None
    return _plain(entry.node.value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _no_default(_values: HostValues, name: str) -> Any:
    raise KeyError(name)


@pytest.mark.parametrize("case", _CASES)
def test_templates_render_as_ansible_renders_them(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every variable of every host has the value, and the type, that it has in Ansible."""
    monkeypatch.setenv("NIDOME_TEST_WORD", "a [word]")
    root, home = tmp_path / "inventory", tmp_path / "home"
    home.mkdir()
    _write(root, _CASES[case])
    extra = _CASES[case].get("-e", "").splitlines()
    theirs = _ansible(root / "inventory.ini", home, extra)

    given = dict(pair.split("=", 1) for pair in extra)
    read = read_inventory(root / "inventory.ini", extra_vars=given, derive=False)
    templates = Templates(read, _no_default)
    assert theirs.keys() == set(read.hosts)
    for host, expected in theirs.items():
        names = [name for name in expected if name not in ("hostvars", "groups")]
        ours = {name: _rendered(templates.of(host), name) for name in names}
        # JSON tells true from 1 and 1 from 1.0.
        assert {k: json.dumps(v) for k, v in ours.items()} == {k: json.dumps(expected[k]) for k in names}
