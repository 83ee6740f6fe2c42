"""Jinja2 in the values of an inventory: rendered for each host, and only where a value is used.

=============  =================================================================================
``values``     the values of each host, templates rendered on demand; the rest of Nidome uses this
``engine``     Jinja2 with Ansible's rules, in a sandbox
``bounds``     limits of time, memory and size
``filters``    filters and tests of Ansible's; ``versions`` compares versions, ``network`` is ansible.utils
``lookups``    ``lookup`` and ``query``
``names``      which variables a template refers to, without rendering it
``places``     in which line of a file a template's problem stands
``problems``   what goes wrong before file and line are known
=============  =================================================================================

Only ``values`` and ``problems`` may be imported by what runs always: the others import Jinja2.
"""
