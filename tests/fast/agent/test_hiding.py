"""Secrets in texts that are shown: those of the present declaration, and those of an earlier one."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nidome.agent import hiding
from nidome.agent.evidence import evidence
from nidome.agent.resources import file, kubeobject, unit
from nidome.agent.resources.file import File
from nidome.agent.resources.kubeobject import KubeObject
from nidome.agent.resources.unit import Unit
from nidome.engine.diff import compare

if TYPE_CHECKING:
    from nidome.agent.host import Host

_WORD = "s3cr3t-regpw"


@pytest.fixture
def held(tmp_path: Path, me: tuple[str, str]) -> File:
    """Return a file with a password in it."""
    return File(str(tmp_path / "c.toml"), f'size = 1\npassword = "{_WORD}"\n', "0600", *me, secrets=(_WORD,))


def _without(resource: File) -> File:
    return replace(resource, content="size = 2\n", mode="0644", secrets=())


def _text(resource: File, host: Host) -> Any:
    (found,) = file.observe([resource], host)
    assert found is not None
    assert _WORD not in json.dumps(found)
    change = compare(resource, found).change
    assert change is not None
    return next(d.before for d in change.deltas if d.attribute == "content")


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        ("--v=4 --timeout=40 x1.4.2 4", "4", "--v=*** --timeout=40 x1.4.2 ***"),
        ("WantedBy=multi-user.target\nUser=user\n", "user", "WantedBy=multi-user.target\nUser=***\n"),
        ("xhunter2y", "hunter2", "x***y"),
        (r'p = "a \"q\\b"', 'a "q\\b', 'p = "***"'),
        ('p = "\\u00e9t\\u00e9-2024"', "été-2024", 'p = "***"'),
        ("--p=50%%$$off", "50%$off", "--p=***"),
        ("  first-line-x\n  second-line-y\n", "first-line-x\nsecond-line-y\n", "  ***\n  ***\n"),
        ("nothing", "", "nothing"),
    ],
)
def test_where_a_secret_stands(text: str, secret: str, shown: str) -> None:
    """A secret is hidden however it is quoted; a word or a number is one only where it stands alone."""
    assert hiding.hide(text, (secret,)) == shown


@given(st.text(max_size=40), st.lists(st.text(min_size=4, max_size=8).filter(lambda s: not s.isalpha())))
def test_no_secret_is_left(text: str, secrets: list[str]) -> None:
    """Whatever the texts are, no secret is left in what is shown, but for what the marks themselves spell."""
    shown = hiding.hide(text + "".join(secrets), secrets)
    assert not [s for s in secrets if "*" not in s and s in shown.replace(hiding.HIDDEN, "\0\0")]


def test_an_earlier_secret_is_hidden(held: File, host: Host, again: Host) -> None:
    """What was secret when it was applied stays hidden once nobody declares it; the rest is shown."""
    file.apply(held, host)
    host.close()
    shown = 'size = 1\npassword = "*** (earlier)"\n'
    assert _text(_without(held), host) == shown
    again.ledger._read()
    assert _text(_without(held), again) == shown
    other = replace(held, content='size = 2\npassword = "another-pw-1"\n', secrets=("another-pw-1",))
    assert _text(other, host) == shown
    kept = replace(held, content=held.content.replace("1", "2", 1))
    assert _text(kept, host) == 'size = 1\npassword = "***"\n'
    ledger = Path(host.ledger.path)
    assert _WORD not in ledger.read_text()
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600


def test_a_first_secret_hides_nothing_else(held: File, host: Host) -> None:
    """What brings the first secret into a file that Nidome wrote is shown, but for the secret."""
    file.apply(_without(held), host)
    assert _text(held, host) == "size = 2\n"


def test_a_run_may_end_before_a_secret_is_replaced(held: File, host: Host) -> None:
    """A secret stays hidden when runs ended after they noted what they were about to write in its place."""
    file.apply(held, host)
    for size in range(3, 6):
        file.note(replace(_without(held), content=f"size = {size}\n"), host)
    assert _text(_without(held), host) == 'size = 1\npassword = "*** (earlier)"\n'
    file.apply(_without(held), host)
    assert _text(replace(_without(held), content="size = 9\n"), host) == "size = 2\n"


def test_what_somebody_wrote_beside_a_secret_is_hidden(held: File, host: Host) -> None:
    """A file that held a secret and was edited since, even one that all may read now, is not shown."""
    file.apply(held, host)
    Path(held.path).write_text(f"edited = '{_WORD}'\n")
    for mode in (0o600, 0o644):
        Path(held.path).chmod(mode)
        assert _text(_without(held), host) == "***"


def test_a_private_file_of_somebody_elses_is_hidden(held: File, host: Host) -> None:
    """Of a file that not everybody may read, and that Nidome did not write, nothing is shown."""
    Path(held.path).write_text(held.content)
    Path(held.path).chmod(0o640)
    assert _text(_without(held), host) == "***"
    Path(held.path).write_text("size = 1\n")
    Path(held.path).chmod(0o644)
    assert _text(_without(held), host) == "size = 1\n"


def test_what_becomes_a_secret_in_place(held: File, host: Host) -> None:
    """A value that is declared as a secret after it was written is one from that apply on."""
    file.apply(replace(held, secrets=()), host)
    file.note(held, host)
    assert _text(_without(held), host) == 'size = 1\npassword = "*** (earlier)"\n'


def test_live_files_and_arguments_hold_no_secret(held: File, host: Host) -> None:
    """The live text that why compares with is without secrets; one that somebody has edited is not told."""
    file.apply(held, host)
    question = {"id": held.id, "file": held.path}
    assert evidence([question], host) == [{"text": 'size = 1\npassword = "*** (earlier)"\n'}]
    assert evidence([{**question, "secrets": [_WORD]}], host) == [{"text": 'size = 1\npassword = "***"\n'}]
    Path(held.path).write_text(_WORD)
    assert evidence([question], host) == [{}]


def test_an_earlier_secret_in_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    """An argument that was a secret is hidden in the unit's old text and in the arguments that are live."""
    monkeypatch.setattr(unit, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(unit, "nft_tables", list)
    made = Unit("u.service", f"ExecStart=x \\\n  --id={_WORD} \\\n  --v=4\n", secrets=(_WORD,))
    unit.note(made, host)
    Path(made.path).write_text(made.text)
    host.units["u.service"] = {}
    (found,) = unit.observe([Unit("u.service", "ExecStart=x \\\n  --v=5\n")], host)
    assert found is not None
    assert found["$text"] == "ExecStart=x \\\n  --id=*** (earlier) \\\n  --v=4\n"
    assert host.ledger.entries[made.id]["data"]["flags"] == ["--id"]


def test_an_earlier_secret_in_an_object(host: Host) -> None:
    """A field that held a secret when it was applied is not shown, and neither is a present one."""
    manifest = {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "apiVersion": "v1"}
    made = KubeObject({**manifest, "data": {"x": f"a {_WORD}"}}, ("", "", "", ""), "", "", secrets=(_WORD,))
    kubeobject.note(made, host)
    later = KubeObject({**manifest, "data": {"x": "plain"}}, ("", "", "", ""), "", "")
    changes: list[list[Any]] = [
        ["data.x", f"a {_WORD}", "plain"],
        ["data.y", "1", "2"],
        ["data", {"x": _WORD}, None],
    ]
    assert kubeobject._shown(later, changes, host) == [
        ["data.x", "***", "***"],
        ["data.y", "1", "2"],
        ["data", {"x": "***"}, None],
    ]
