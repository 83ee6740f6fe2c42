"""Plays told without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fast.conftest import FACTS

from nidome.roles import listing
from nidome.roles.playbook import CLUSTER, FACTS_ONLY, RESET, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from nidome.model.spec import ClusterSpec
    from nidome.roles.base import HostContext


def test_a_listing_knows_every_fact() -> None:
    """A role that looks at any fact of a host can be listed without one."""
    assert set(listing._FACTS) == set(FACTS)


@pytest.mark.parametrize("variables", [{}, {"helm_enabled": True}, {"etcd_deployment_type": "kine"}])
def test_what_is_listed_is_what_runs(
    declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext], variables: dict[str, object]
) -> None:
    """The tasks that are listed are those that a host gets, with the same tags and in the same order."""
    spec = declared(**variables)
    context = context_of(spec, systemd=247)
    run = {play.play.name: [(t.title, t.tags) for t in play.tasks] for play in evaluate(CLUSTER, context)}
    told = listing.listing(CLUSTER, spec, spec.hosts)
    assert {play.name: [(t.title, t.tags) for t in play.tasks] for play in told if play.tasks} == run
    assert all(play.hosts == ("node1",) for play in told if play.tasks)


def test_nobody_is_named_where_a_play_concerns_nobody(declared: Callable[..., ClusterSpec]) -> None:
    """Plays for hosts that are not there are listed with no host."""
    spec = declared()
    plays = {play.name: play for play in listing.listing(CLUSTER, spec, spec.hosts)}
    assert plays["Install bastion ssh config"].hosts == ()
    assert plays["Patch Kubernetes for Windows"].hosts == ("node1",)
    assert [len(each) for each in (FACTS_ONLY, RESET, CLUSTER)] == [5, 6, 15]
