from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nidome.agent import ledger as module
from nidome.agent.ledger import Ledger

KEYS = st.sampled_from(["/a", "/b", "/c", "/d"])
DATA = st.sampled_from([None, {"implicit": True}, {"owned": True}, {"owned": False}])
STEPS = st.lists(
    st.one_of(st.tuples(st.just("add"), KEYS, DATA), st.tuples(st.just("drop"), KEYS, st.none()))
)


def _ids(ledger: Ledger) -> list[str]:
    return [entry["id"] for entry in ledger.made()]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the ledger is."""
    return str(tmp_path / "ledger.jsonl")


def test_entries_are_read_again_in_order(path: str) -> None:
    """A ledger tells what was made, oldest first, to the process that made it and to the next."""
    ledger = Ledger(path)
    for key in ("/b", "/a", "/c"):
        ledger.add("File", key, prior={"content": key})
    ledger.drop("File:/a")
    ledger.add("File", "/a")
    assert _ids(ledger) == _ids(Ledger(path)) == ["File:/b", "File:/c", "File:/a"]
    assert Ledger(path).made() == ledger.made()


def test_ledger_is_for_root_only(tmp_path: Path) -> None:
    """The ledger holds earlier contents of files: nobody but its owner can read it."""
    ledger = Ledger(str(tmp_path / "new" / "ledger.jsonl"))
    ledger.add("File", "/a")
    assert (tmp_path / "new" / "ledger.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_torn_last_line_costs_only_itself(path: str, whole: int) -> None:
    """After a line torn by a crash, earlier entries are kept, and later ones are not swallowed by it."""
    ledger = Ledger(path)
    for number in range(whole):
        ledger.add("File", f"/{number}")
    with Path(path).open("a", encoding="utf-8") as out:
        out.write('{"id": "File:/torn", "kind": "Fi')
    after = Ledger(path)
    after.add("File", "/next")
    after.add("File", "/last")
    expected = [*(f"File:/{n}" for n in range(whole)), "File:/next", "File:/last"]
    assert _ids(after) == _ids(Ledger(path)) == expected
    assert Ledger(path).damaged == []


@pytest.mark.parametrize(
    "junk",
    ["1", "null", "[]", '"x"', "{}", "\x00\x00", '{"dropped": true}', '{"id": 1}', '{"id": "File:/x"}',
     '{"id": "File:/x", "kind": "File", "key": "/y", "prior": null, "data": null}',
     '{"id": "File:/x", "kind": "File", "key": "/x", "prior": null, "data": 5}', "[" * 100_000],
)  # fmt: skip
def test_lines_that_are_no_entries_are_told(path: str, junk: str) -> None:
    """A damaged line never keeps the rest of the ledger from being read, and its number is known."""
    Ledger(path).add("File", "/a")
    with Path(path).open("a", encoding="utf-8") as out:
        out.write(junk + "\n")
    Ledger(path).add("File", "/b")
    assert (_ids(Ledger(path)), Ledger(path).damaged) == (["File:/a", "File:/b"], [2])


def test_a_last_line_without_its_end_is_kept(path: str) -> None:
    """A ledger whose last entry lacks only its line end keeps it; the next one is on a line of its own."""
    Ledger(path).add("File", "/a")
    Path(path).write_text(Path(path).read_text().rstrip("\n"))
    Ledger(path).add("File", "/b")
    assert (_ids(Ledger(path)), Ledger(path).damaged) == (["File:/a", "File:/b"], [])


def test_the_past_is_kept(path: str) -> None:
    """What stood somewhere before Nidome is what the first entry says, whatever is added later."""
    Ledger(path).add("File", "/a", prior="before", data={"n": 1})
    Ledger(path).add("File", "/a", prior="ours by now", data={"n": 2})
    (entry,) = Ledger(path).made()
    assert (entry["prior"], entry["data"]) == ("before", {"n": 2})


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ({"implicit": True}, {"owned": True}, {"owned": True}),
        ({"owned": True}, {"implicit": True}, {"owned": True}),
        ({"owned": False}, {"owned": False}, {"owned": False}),
    ],
)
def test_declared_directories_stay_declared(path: str, first: Any, second: Any, kept: Any) -> None:
    """A directory that was declared is not forgotten when it is the parent of another."""
    ledger = Ledger(path)
    ledger.add("Directory", "/a", data=first)
    ledger.add("Directory", "/a", data=second)
    assert Ledger(path).made()[0]["data"] == kept


@given(STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_a_ledger_is_what_was_done_to_it(tmp_path: Path, steps: list[tuple[str, str, Any]]) -> None:
    """However things are made and removed, the next process reads the same entries in the same order."""
    path = tmp_path / "ledger.jsonl"
    path.unlink(missing_ok=True)
    ledger, model = Ledger(str(path)), list[str]()
    for action, key, data in steps:
        identity = f"Directory:{key}"
        if action == "add":
            ledger.add("Directory", key, data=data)
            model += [] if identity in model else [identity]
        else:
            ledger.drop(identity)
            model = [m for m in model if m != identity]
    ledger.close()
    assert _ids(ledger) == _ids(Ledger(str(path))) == model


def test_long_history_is_forgotten(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger whose history has grown long is rewritten with its entries, their order and their past."""
    monkeypatch.setattr(module, "_COMPACT_AFTER", 3)
    ledger = Ledger(path)
    ledger.add("File", "/kept", prior="before")
    for _ in range(10):
        ledger.add("File", "/passing")
        ledger.drop("File:/passing")
    before = ledger.made()
    ledger.close()
    lines = Path(path).read_text().splitlines()
    assert [json.loads(line) for line in lines] == before == Ledger(path).made()
    ledger.add("File", "/more")
    assert _ids(Ledger(path)) == ["File:/kept", "File:/more"]
