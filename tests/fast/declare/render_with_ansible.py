"""Render every variable of every host of an inventory with the real Ansible; print them as JSON.

Usage: render_with_ansible.py INVENTORY [NAME=VALUE ...]. A program of its own: Ansible keeps global state.
A value that cannot be rendered is {"undefined": true} or {"error": true}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleUndefinedVariable
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted(map(_plain, value))
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)


def _rendered(templar: Templar, value: Any) -> Any:
    try:
        return _plain(templar.template(value))
    except AnsibleUndefinedVariable:
        return {"undefined": True}
    except Exception:  # noqa: BLE001 - a filter's own error reaches here as it is
        return {"error": True}


def main() -> None:
    """Print the rendered variables, by host and name."""
    path, *pairs = sys.argv[1:]
    context.CLIARGS = ImmutableDict(extra_vars=tuple(pairs), inventory=path)
    init_plugin_loader()
    loader = DataLoader()
    loader.set_basedir(path.rpartition("/")[0])
    inventory = InventoryManager(loader=loader, sources=[path])
    variables = VariableManager(loader=loader, inventory=inventory)
    variables._hostvars = HostVars(
        inventory=inventory, variable_manager=variables, loader=loader
    )  # as a play does
    found = {}
    for host in inventory.get_hosts():
        every = variables.get_vars(host=host)
        own = {**host.get_vars(), **variables.get_vars(host=host, include_hostvars=False)}
        names = [name for name in own if not name.startswith(("ansible_", "playbook", "omit", "vars"))]
        templar = Templar(loader=loader, variables=every)
        found[host.name] = {name: _rendered(templar, every[name]) for name in names if name in every}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
