"""Plans as data: what must be, what was found, and the steps that follow."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from nidome import __version__
from nidome.agent.resources.base import unobservable
from nidome.agent.resources.certificate import Certificate
from nidome.agent.resources.condition import Condition
from nidome.agent.resources.file import File
from nidome.agent.resources.unit import Unit
from nidome.engine.plan import PARTLY_KEY, REMOVAL, VERSION_KEY, HostPlan, Plan, Step, plan_host, seen_by
from nidome.engine.selection import Selection
from nidome.roles.base import Handler, HostContext, Play, Task
from nidome.roles.playbook import HostPlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nidome.agent.resources.base import Observed, Resource
    from nidome.model.spec import ClusterSpec

UNIT = Unit("x.service", "[Service]\n", inputs=("/etc/x.conf", "/etc/x.crt"))
CONFIG = File("/etc/x.conf", "wanted")
OTHER = File("/etc/other.conf", "wanted")
HANDLER = Handler("x", "Restart x", UNIT.name, UNIT.inputs, ("x",))
WRITE = Task("x", "Write configuration", (CONFIG,), ("x", "config"), ("kube_log_level",))
START = Task("x", "Start", (UNIT,), ("x",))
ELSE = Task("y", "Write another file", (OTHER,), ("y",))
FIRST, SECOND = Play("first", ("all",), ()), Play("second", ("all",), ())
OTHER_SHA = hashlib.sha256(b"other").hexdigest()


def _as_wanted(resource: Resource) -> Observed:
    found: Observed = json.loads(json.dumps(resource.desired()))
    return found


def _restart(stale: tuple[str, ...] = (), *, running: bool = True, in_force: Any = None) -> Observed:
    read = {CONFIG.path: CONFIG.desired()["sha256"]} if in_force is None else in_force
    return {"stale": list(stale), "$running": running, "$in_force": read if running else {}}


@pytest.fixture
def context(declared: Callable[..., ClusterSpec], context_of: Callable[..., HostContext]) -> HostContext:
    """Return a host on which the same values were applied before."""
    spec = declared(kube_log_level=3)
    values = json.loads(json.dumps({**spec.values(), **spec.hosts[0].values()}))
    return context_of(spec, declared=values)


def _plan(
    context: HostContext,
    observed: Mapping[str, Observed],
    plays: tuple[HostPlay, ...] = (HostPlay(FIRST, (WRITE, START, ELSE), (HANDLER,)),),
    selection: Selection | None = None,
    removable: tuple[str, ...] = (),
) -> HostPlan:
    resources = [r for p in plays for t in p.tasks for r in t.resources]
    resources += [h.restart for p in plays for h in p.handlers]
    found = {r.id: _as_wanted(r) for r in resources} | {HANDLER.restart.id: _restart()} | dict(observed)
    return plan_host(context, plays, found, selection or Selection(), removable)


def _changing(plan: HostPlan) -> list[str]:
    return [s.title for s in plan.steps if s.changes]


DRIFTED = {CONFIG.id: {**CONFIG.desired(), "sha256": OTHER_SHA}}
CHMODDED = {CONFIG.id: {**CONFIG.desired(), "mode": "0600"}}


@pytest.mark.parametrize(
    ("observed", "titles"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(
            {**DRIFTED, HANDLER.restart.id: _restart(in_force={CONFIG.path: OTHER_SHA})},
            ["x : Write configuration", "x : Restart x"],
            id="a new content restarts",
        ),
        pytest.param(
            {**DRIFTED, HANDLER.restart.id: _restart((CONFIG.path,))},
            ["x : Write configuration"],
            id="a repaired file whose content the process has does not restart",
        ),
        pytest.param(
            {**DRIFTED, HANDLER.restart.id: _restart(in_force={})},
            ["x : Write configuration", "x : Restart x"],
            id="what the process has read is not known",
        ),
        pytest.param(CHMODDED, ["x : Write configuration"], id="a mode restarts nothing"),
        pytest.param(
            {
                CONFIG.id: None,
                HANDLER.restart.id: _restart((CONFIG.path,), in_force={CONFIG.path: OTHER_SHA}),
            },
            ["x : Write configuration", "x : Restart x"],
            id="a missing file",
        ),
        pytest.param(
            {HANDLER.restart.id: _restart((CONFIG.path,), in_force={CONFIG.path: OTHER_SHA})},
            ["x : Restart x"],
            id="stale from an interrupted run",
        ),
        pytest.param(
            {
                **DRIFTED,
                UNIT.id: {**UNIT.desired(), "running": False},
                HANDLER.restart.id: _restart(running=False),
            },
            ["x : Write configuration", "x : Start"],
            id="what does not run is started once",
        ),
        pytest.param(
            {CONFIG.id: None, UNIT.id: None, HANDLER.restart.id: _restart(running=False)},
            ["x : Write configuration", "x : Start"],
            id="a first install",
        ),
        pytest.param(
            {UNIT.id: {**UNIT.desired(), "sha256": OTHER_SHA, "$text": "old"}},
            ["x : Start", "x : Restart x"],
            id="a new unit file restarts",
        ),
        pytest.param(
            {UNIT.id: {**UNIT.desired(), "enabled": False}}, ["x : Start"], id="enabling restarts nothing"
        ),
        pytest.param(
            {UNIT.id: {**UNIT.desired(), "loaded": False}}, ["x : Start"], id="loading restarts nothing"
        ),
        pytest.param({OTHER.id: None}, ["y : Write another file"], id="a file that nobody reads"),
    ],
)
def test_handlers_are_due_exactly_when_needed(
    context: HostContext, observed: dict[str, Observed], titles: list[str]
) -> None:
    """A handler is planned exactly when the running process will not have what its inputs then hold."""
    plan = _plan(context, observed)
    assert _changing(plan) == titles
    assert not any(step.unknown for step in plan.steps)


def test_a_change_in_a_later_play_restarts_after_it(context: HostContext) -> None:
    """A handler runs after the play that changed its input, once in each such play and never before."""
    later = replace(WRITE, name="Write again", resources=(File("/etc/x.crt", "wanted"),))
    plays = (HostPlay(FIRST, (WRITE, START), (HANDLER,)), HostPlay(SECOND, (later, ELSE), ()))
    plan = _plan(context, {"File:/etc/x.crt": None, OTHER.id: None}, plays)
    assert [(s.play, s.title) for s in plan.steps if s.changes] == [
        ("second", "x : Write again"),
        ("second", "y : Write another file"),
        ("second", "x : Restart x"),
    ]
    both = _plan(
        context,
        {CONFIG.id: None, "File:/etc/x.crt": None, HANDLER.restart.id: _restart(in_force={})},
        plays,
    )
    assert [s.play for s in both.steps if s.handler] == ["first", "second"]


def test_what_depends_on_a_changed_file_is_unknown(context: HostContext) -> None:
    """A certificate whose authority is made anew is not claimed to stay; nor is what reads it."""
    ca = Certificate("/pki/ca.crt", "/pki/ca.key", "ca")
    leaf = Certificate("/etc/x.crt", "/etc/x.key", "x", ca=ca.path, ca_key=ca.key_path)
    tasks = (Task("pki", "Authority", (ca,)), Task("pki", "Issue", (leaf,)), START)
    plays = (HostPlay(FIRST, tasks, (HANDLER,)),)
    lost = {ca.id: {**ca.desired(), "key matches": False, "key mode": "absent"}}
    plan = _plan(context, lost, plays)
    assert _changing(plan) == ["pki : Authority"]
    assert [s.title for s in plan.steps if s.unknown] == ["pki : Issue", "x : Restart x"]
    assert "made anew" in plan.steps[1].unknown[0]
    chmodded = _plan(context, {ca.id: {**ca.desired(), "mode": "0600"}}, plays)
    assert not [s for s in chmodded.steps if s.unknown]
    again = _plan(context, {**lost, leaf.id: {**leaf.desired(), "issued by": "another authority"}}, plays)
    assert _changing(again) == ["pki : Authority", "pki : Issue", "x : Restart x"]
    assert not [s for s in again.steps if s.unknown]


def test_the_undeclared_is_removed_newest_first(context: HostContext) -> None:
    """What the ledger has and nobody declares any more is removed in the end, the newest first."""
    ledger = ("Directory:/etc/gone", CONFIG.id, "File:/etc/gone/file", UNIT.id)
    plan = _plan(context, {}, removable=ledger)
    assert plan.steps[-1].title == REMOVAL
    assert plan.steps[-1].removes == ("File:/etc/gone/file", "Directory:/etc/gone")
    assert [c.action for c in plan.steps[-1].changes] == ["delete", "delete"]
    assert not _changing(_plan(context, {}, removable=(CONFIG.id, UNIT.id)))
    assert not _changing(_plan(context, {}, removable=ledger, selection=Selection(tags=("x",))))


@pytest.mark.parametrize(
    ("tags", "skip", "titles"),
    [
        ((), (), ["x : Write configuration", "x : Restart x", "y : Write another file"]),
        (("x",), (), ["x : Write configuration", "x : Restart x"]),
        (("config",), (), ["x : Write configuration", "x : Restart x"]),
        (("y",), (), ["y : Write another file"]),
        ((), ("x",), ["y : Write another file"]),
        ((), ("config",), ["y : Write another file"]),
    ],
)
def test_tags_choose_tasks_and_their_handlers(
    context: HostContext, tags: tuple[str, ...], skip: tuple[str, ...], titles: list[str]
) -> None:
    """A chosen task's change runs its handler whatever that is tagged; the handlers of others stay away."""
    observed = {**DRIFTED, OTHER.id: None, HANDLER.restart.id: _restart(in_force={CONFIG.path: OTHER_SHA})}
    plan = _plan(context, observed, selection=Selection(tags, skip))
    assert sorted(_changing(plan)) == sorted(titles)


def test_old_staleness_is_left_to_a_run_that_means_it(context: HostContext) -> None:
    """A run for other tags does not restart what an interrupted run left stale; one for its tag does."""
    stale = {HANDLER.restart.id: _restart((CONFIG.path,), in_force={CONFIG.path: OTHER_SHA})}
    assert _changing(_plan(context, stale, selection=Selection(tags=("y",)))) == []
    assert _changing(_plan(context, stale, selection=Selection(tags=("x",)))) == ["x : Restart x"]


def test_because_of_the_declared_values(declared: Any, context_of: Any, context: HostContext) -> None:
    """A change says why: what a first install declares, which value moved and where, or that the host did."""

    def reasons(which: HostContext, observed: Observed) -> tuple[str, ...]:
        return _plan(which, {CONFIG.id: observed}).steps[0].changes[0].because

    moved = context_of(declared(kube_log_level=4), declared=dict(context.facts["declared"]))
    place = f"{moved.spec.source}/group_vars/all.yml:1, group_vars/all.yml"
    assert reasons(moved, DRIFTED[CONFIG.id]) == (f"kube_log_level = 4 ({place})",)
    fresh = context_of(declared(kube_log_level=4))
    assert reasons(fresh, None) == (f"kube_log_level = 4 ({place})",)
    # A default that no apply has known yet is nobody's reason.
    assert reasons(context_of(declared()), None) == ("missing on the host",)
    same = context_of(declared(kube_log_level=3), declared=dict(context.facts["declared"]))
    assert reasons(same, DRIFTED[CONFIG.id]) == ("differs on the host from what was declared",)
    assert reasons(same, None) == ("missing on the host",)
    applied = {**context.facts["declared"], VERSION_KEY: "0.0.1"}
    older = context_of(declared(kube_log_level=3), declared=applied)
    assert reasons(older, None) == (f"Nidome {__version__} asks for it, Nidome 0.0.1 was applied last",)


def test_because_of_a_value_that_only_some_tasks_have_seen(
    declared: Any, context_of: Any, context: HostContext
) -> None:
    """After a run of chosen tasks a value is compared with what each task was applied with."""
    chosen = declared(kube_log_level=5)
    seen = json.loads(json.dumps(seen_by([WRITE, START], {**chosen.values(), **chosen.hosts[0].values()})))
    assert seen == {WRITE.title: {"kube_log_level": 5}}
    values = {**context.facts["declared"], PARTLY_KEY: seen}
    unseen = replace(ELSE, fields=("kube_log_level",))
    plays = (HostPlay(FIRST, (WRITE, unseen), (HANDLER,)),)

    def reasons(level: int) -> list[str]:
        which = context_of(declared(kube_log_level=level), declared=values)
        found = {CONFIG.id: DRIFTED[CONFIG.id], OTHER.id: None}
        steps = _plan(which, found, plays).steps
        return [steps[0].changes[0].because[0].split(" (")[0], steps[1].changes[0].because[0].split(" (")[0]]

    assert reasons(3) == ["kube_log_level = 3", "missing on the host"]
    assert reasons(5) == ["differs on the host from what was declared", "kube_log_level = 5"]


def test_a_restart_says_which_inputs(context: HostContext) -> None:
    """A planned restart names the files because of which it is due."""
    plan = _plan(context, {HANDLER.restart.id: _restart(("/etc/x.crt", CONFIG.path), in_force={"a": "b"})})
    assert plan.steps[-1].changes[0].because == ("/etc/x.conf changed", "/etc/x.crt changed")


def _whole(*hosts: HostPlan) -> Plan:
    return Plan("inventory", "digest", hosts)


def test_plans_are_stable_data(context: HostContext) -> None:
    """The same declaration and the same observations give the same JSON document, byte for byte."""
    observed = {**DRIFTED, OTHER.id: None}
    texts = {json.dumps(_whole(_plan(context, observed)).to_json(), sort_keys=True) for _ in range(3)}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    assert document["format_version"] == "1.0"
    assert [s["task"] for s in document["hosts"]["node1"]] == [
        "x : Write configuration",
        "y : Write another file",
    ]


def test_plans_hold_no_secret(context: HostContext) -> None:
    """Neither the old nor the new content of a secret file is in a plan, nor their hashes."""
    secret = File("/etc/token", "the new secret", "0600", secrets=("the new secret",))
    plays = (HostPlay(FIRST, (Task("x", "Secret", (secret,)),), ()),)
    for found in (None, {**secret.desired(), "sha256": OTHER_SHA, "$hidden": True}):
        text = json.dumps(_whole(_plan(context, {secret.id: found}, plays)).to_json())
        assert "the new secret" not in text
        assert OTHER_SHA not in text
        assert secret.desired()["sha256"] not in text


def test_counts_and_emptiness(context: HostContext) -> None:
    """A plan counts what is added, changed and destroyed; nothing is unknown or wrong in an empty one."""
    nothing = _whole(_plan(context, {}))
    assert (nothing.empty, nothing.counts) == (True, (0, 0, 0))
    some = _whole(_plan(context, {**DRIFTED, OTHER.id: None}, removable=("File:/gone",)))
    assert (some.empty, some.counts) == (False, (1, 1, 1))
    unknown = _whole(_plan(context, {OTHER.id: unobservable("why")}))
    assert (unknown.empty, unknown.unknown) == (False, ("node1: File:/etc/other.conf: why",))
    error = {"family": "resource", "code": "host-refused", "message": "no", "where": "x", "hint": ""}
    wrong = _whole(_plan(context, {OTHER.id: {"$error": error}}))
    assert (wrong.empty, wrong.errors) == (False, (("node1", error),))
    assert wrong.to_json()["hosts"]["node1"][0]["errors"] == [error]


def test_waiting_is_no_change(context: HostContext) -> None:
    """A condition that does not hold yet is waited for, and is neither a change nor unknown."""
    ready = Condition("unit-active", (UNIT.name,))
    plays = (HostPlay(FIRST, (Task("x", "Wait", (ready,)),), ()),)
    plan = _plan(context, {ready.id: {"holds": False, "$detail": "x not active"}}, plays)
    (step,) = plan.steps
    assert isinstance(step, Step)
    assert (step.settled, step.changes, step.unknown) == (False, (), ())
    assert _whole(plan).empty
