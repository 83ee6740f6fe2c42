from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nidome.engine.run import Options, Run
from nidome.engine.selection import Selection
from nidome.errors import UsageError
from nidome.events import Diagnostic
from nidome.roles.playbook import CLUSTER
from nidome.roles.tags import KUBESPRAY_TAGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.events import Event
    from nidome.model.spec import ClusterSpec


@pytest.mark.parametrize(
    ("tags", "skip", "mine", "takes"),
    [
        ((), (), (), True),
        ((), (), ("etcd",), True),
        (("etcd",), (), ("etcd", "download"), True),
        (("download",), (), ("etcd", "download"), True),
        (("etcd",), (), ("node",), False),
        (("etcd",), (), (), False),
        (("etcd", "node"), (), ("node",), True),
        ((), ("etcd",), ("etcd", "download"), False),
        ((), ("download",), ("node",), True),
        (("etcd",), ("download",), ("etcd", "download"), False),
        (("etcd",), (), ("always",), True),
        (("etcd",), ("always",), ("always",), False),
        ((), (), ("never",), False),
        ((), (), ("never", "debug"), False),
        (("debug",), (), ("never", "debug"), True),
        (("never",), (), ("never", "debug"), True),
        (("all",), (), ("never",), False),
        (("all",), (), ("etcd",), True),
        (("all",), (), (), True),
        (("all",), ("etcd",), ("etcd",), False),
        (("tagged",), (), ("etcd",), True),
        (("tagged",), (), (), False),
        (("untagged",), (), (), True),
        (("untagged",), (), ("etcd",), False),
        ((), ("tagged",), ("etcd",), False),
        ((), ("tagged",), (), True),
        ((), ("untagged",), (), False),
        ((), ("all",), ("etcd",), False),
        ((), ("all",), ("always",), True),
    ],
)
def test_tags_choose_as_in_ansible(
    tags: tuple[str, ...], skip: tuple[str, ...], mine: tuple[str, ...], *, takes: bool
) -> None:
    """--tags and --skip-tags choose tasks as in Ansible, with always, never, all, tagged and untagged."""
    assert Selection(tags, skip).takes(mine) is takes


def test_a_misspelt_tag_is_found() -> None:
    """A tag that no task has is told, the words with a meaning of their own are not."""
    chosen = Selection(("contianerd", "all", "etcd"), ("never", "nod"))
    assert chosen.unknown(["etcd", "node", "containerd"]) == ("contianerd", "nod")


@pytest.mark.parametrize(
    ("selection", "everything"),
    [
        (Selection(), True),
        (Selection(limit=("node1",)), True),
        (Selection(tags=("etcd",)), False),
        (Selection(skip=("etcd",)), False),
    ],
)
def test_only_a_whole_run_can_tell_what_is_undeclared(selection: Selection, *, everything: bool) -> None:
    """A run with tags removes nothing that its tasks do not name; one limited to hosts may, on those."""
    assert selection.everything is everything


def _checked(spec: ClusterSpec, tags: tuple[str, ...], known: frozenset[str]) -> list[Event]:
    told: list[Event] = []
    options = Options(Selection(tags), known_tags=known)
    Run(spec, CLUSTER, lambda _: {}, told.append, options)._require_known_tags()
    return told


def test_tags_that_only_kubespray_has(declared: Callable[..., ClusterSpec]) -> None:
    """A playbook takes kubespray's tags that nothing here has, with a warning; a misspelt one is an error."""
    spec = declared()
    (warning,) = _checked(spec, ("multus", "calico", "master"), KUBESPRAY_TAGS)
    assert isinstance(warning, Diagnostic)
    assert (warning.severity, warning.code) == ("warning", "tag-unused")
    assert "multus, calico, master" in warning.message
    with pytest.raises(UsageError, match=r"no task has the tag mutlus$"):
        _checked(spec, ("mutlus", "calico"), KUBESPRAY_TAGS)
    with pytest.raises(UsageError):
        _checked(spec, ("calico",), frozenset())
