"""A plan file holds what is needed to apply it, and no value that may be a secret."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

import pytest

from nidome.cli import apply, plan
from nidome.cli.planfile import SOURCES, absolute, next_command, restore, sources
from nidome.engine.plan import Plan
from nidome.engine.run import require_same
from nidome.errors import StateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Nidome = Callable[..., tuple[int, str, str]]


def _planned(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    plan.configure(parser)
    args = parser.parse_args(words)
    absolute(args)
    return args


def _applied(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    apply.configure(parser)
    return parser.parse_args(words)


def test_a_plan_is_applied_from_anywhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inventories, variable files, passwords' files, tags and limits come back under absolute names."""
    (place / "vars.yml").write_text("ndots: 3\n", encoding="utf-8")
    made = _planned("-i", "lab", "-i", "a,b", "-e", "@vars.yml", "--vault-id", "x@pw", "--tags", "etcd")
    kept = json.loads(json.dumps(sources(made)))
    monkeypatch.chdir("/")
    args = _applied("plan.json")
    restore(args, {SOURCES: kept}, args.plan)
    assert args.inventory == [f"{place}/lab", "a,b"]
    assert args.extra_vars == [f"@{place}/vars.yml"]
    assert (args.vault_id, args.tags) == ([f"x@{place}/pw"], ["etcd"])
    assert next_command(args.plan, kept) == "nidome apply plan.json"


@pytest.mark.usefixtures("place")
def test_a_password_file_of_the_environment_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vault password's file that ANSIBLE_VAULT_PASSWORD_FILE named is the plan's too."""
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "pw")
    kept = sources(_planned())
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    args = _applied("plan.json")
    restore(args, {SOURCES: kept}, args.plan)
    assert args.vault_password_file == [f"{place}/pw"]


@pytest.mark.usefixtures("place")
def test_values_are_asked_for_again() -> None:
    """Values of -e are not in the plan file; without them its error has the command to complete."""
    kept = sources(_planned("-e", "registry_password=swordfish"))
    assert "swordfish" not in json.dumps(kept)
    args = _applied("plan.json")
    with pytest.raises(UsageError) as caught:
        restore(args, {SOURCES: kept}, args.plan)
    assert caught.value.code == "plan-options"
    assert caught.value.hint.startswith("nidome apply -e 'registry_password=***' plan.json, with the values")
    args = _applied("-e", "registry_password=swordfish", "plan.json")
    restore(args, {SOURCES: kept}, args.plan)
    args = _applied("-e", "ndots=3", "plan.json")
    with pytest.raises(UsageError):
        restore(args, {SOURCES: kept}, args.plan)


def test_apply_reads_the_inventory_of_the_plan(unreachable: Path, place: Path, nidome: Nidome) -> None:
    """`nidome apply PLAN` needs no -i: it reaches for the hosts of the plan's inventory."""
    file = place / "plan.json"
    moved = unreachable.rename(place / "elsewhere")
    document = {"hosts": {}, SOURCES: sources(_planned("-i", str(moved)))}
    file.write_text(json.dumps(document), encoding="utf-8")
    code, _, err = nidome("apply", str(file))
    assert (code, err[:23]) == (1, "error[host-unreachable]"), err


@pytest.mark.parametrize("kept", [[], {}, {"inventory": [1]}])
def test_spoilt_options(kept: object, place: Path, nidome: Nidome) -> None:
    """Options in a plan file that Nidome did not write are an error of the plan."""
    file = place / "plan.json"
    file.write_text(json.dumps({"hosts": {}, SOURCES: kept}), encoding="utf-8")
    code, _, err = nidome("apply", str(file))
    assert code == 1
    assert re.match(r"error\[plan-unreadable\].*options", err)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"declaration": "b"}, "the declaration is not the one"),
        ({"hosts": {"n": []}}, "the hosts have changed"),
    ],
)
def test_what_is_outdated_is_named(changed: dict[str, object], said: str) -> None:
    """A plan is refused because of its declaration or of its hosts, and says which; options are no part."""
    now = Plan("lab", "a", ())
    require_same({**now.to_json(), SOURCES: {}}, now)
    with pytest.raises(StateError) as caught:
        require_same({**now.to_json(), **changed}, now)
    assert caught.value.message.startswith(said)
