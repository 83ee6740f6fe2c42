from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nidome.agent.resources import encryption
from nidome.agent.resources.encryption import PLAIN, EncryptionKeys
from nidome.engine.diff import compare
from nidome.errors import ResourceError

if TYPE_CHECKING:
    from nidome.agent.host import Host


@pytest.fixture
def keys(tmp_path: Path) -> EncryptionKeys:
    """Return keys for Secrets."""
    return EncryptionKeys(str(tmp_path / "keys.yaml"), "secretbox", ("secrets",))


def _observe(keys: EncryptionKeys, host: Host) -> Any:
    return encryption.observe([keys], host)[0]


def _apply(keys: EncryptionKeys, host: Host) -> list[dict[str, Any]]:
    """Bring the keys about, see that they hold, and return what the file says."""
    encryption.apply(keys, host)
    assert compare(keys, _observe(keys, host)).settled
    found: list[dict[str, Any]] = json.loads(Path(keys.path).read_text())["resources"]
    return found


def _order(entry: dict[str, Any]) -> list[str]:
    return [next(iter(provider)) for provider in entry["providers"]]


def test_keys_are_made_once(keys: EncryptionKeys, host: Host) -> None:
    """A key is made where there is none, for root alone, and the same one stays from then on."""
    assert compare(keys, _observe(keys, host)).change
    first = _apply(keys, host)
    assert [entry["resources"] for entry in first] == [["secrets"]]
    assert _order(first[0]) == ["secretbox", "identity"]
    assert len(first[0]["providers"][0]["secretbox"]["keys"][0]["secret"]) == 44
    assert Path(keys.path).stat().st_mode & 0o777 == 0o600
    assert _apply(keys, host) == first


def test_what_was_encrypted_stays_readable_when_it_is_switched_off(keys: EncryptionKeys, host: Host) -> None:
    """Switched off, nothing is encrypted any more, and the key stays to read with; on again, it is used."""
    first = _apply(keys, host)
    off = _apply(replace(keys, algorithm=PLAIN), host)
    assert _order(off[0]) == ["identity", "secretbox"]
    assert off[0]["providers"][1] == first[0]["providers"][0]
    assert _apply(keys, host) == first


def test_another_algorithm_gets_a_key_of_its_own(keys: EncryptionKeys, host: Host) -> None:
    """With another algorithm a new key writes and the old one still reads; no key is ever dropped."""
    first = _apply(keys, host)
    second = _apply(replace(keys, algorithm="aescbc"), host)
    assert _order(second[0]) == ["aescbc", "secretbox", "identity"]
    assert second[0]["providers"][1] == first[0]["providers"][0]
    names = [key["name"] for p in second[0]["providers"][:2] for v in p.values() for key in v["keys"]]
    assert len(set(names)) == 2
    third = _apply(keys, host)
    assert _order(third[0]) == ["secretbox", "aescbc", "identity"]
    assert third[0]["providers"][0] == first[0]["providers"][0]


def test_resources_that_are_left_out_stay_readable(keys: EncryptionKeys, host: Host) -> None:
    """What is not to be encrypted any more is written plain, and read with the keys that wrote it."""
    _apply(replace(keys, resources=("configmaps", "secrets")), host)
    fewer = _apply(replace(keys, resources=("configmaps",)), host)
    assert [(entry["resources"], _order(entry)) for entry in fewer] == [
        (["configmaps"], ["secretbox", "identity"]),
        (["secrets"], ["identity", "secretbox"]),
    ]
    more = _apply(replace(keys, resources=("secrets", "configmaps")), host)
    assert [entry["resources"] for entry in more] == [["configmaps", "secrets"]]


@pytest.mark.parametrize(
    "content", ["", "torn {", "[]", "{}", '{"resources": []}', '{"resources": [{"a": 1}]}']
)
def test_a_spoilt_file_is_not_made_anew(keys: EncryptionKeys, host: Host, content: str) -> None:
    """A file of keys that cannot be read is an error and left alone: new keys would read nothing."""
    Path(keys.path).write_text(content)
    error = compare(keys, _observe(keys, host)).error
    assert error is not None
    assert (error["code"], error["where"]) == ("encryption-keys", keys.path)
    with pytest.raises(ResourceError):
        encryption.apply(keys, host)
    assert Path(keys.path).read_text() == content


def test_a_wrong_mode_is_repaired_alone(keys: EncryptionKeys, host: Host) -> None:
    """A file that others may read is closed again; that is no reason for a restart."""
    first = _apply(keys, host)
    Path(keys.path).chmod(0o644)
    change = compare(keys, _observe(keys, host)).change
    assert change
    assert keys.rewrites([d.attribute for d in change.deltas]) == ()
    assert _apply(keys, host) == first


def test_keys_are_never_told(keys: EncryptionKeys, host: Host) -> None:
    """Neither what is observed nor the ledger says anything of a key's value; a reset removes the file."""
    secret = _apply(keys, host)[0]["providers"][0]["secretbox"]["keys"][0]["secret"]
    assert secret not in str(_observe(keys, host)) + str(host.ledger.made())
    encryption.remove_files(host.ledger.entries[keys.id], host)
    assert not Path(keys.path).exists()


def test_lost_keys_are_not_made_anew(keys: EncryptionKeys, host: Host) -> None:
    """Where keys were made once, a missing file is an error until a reset: new keys would read nothing."""
    host.ledger.add(keys.kind, keys.key, data={"files": [keys.path]})
    _apply(keys, host)  # a first install that was killed before it wrote the file
    Path(keys.path).unlink()
    assert compare(keys, _observe(keys, host)).error
    with pytest.raises(ResourceError, match="is gone"):
        encryption.apply(keys, host)
    assert not Path(keys.path).exists()
    host.ledger.drop(keys.id)
    assert _apply(keys, host)
