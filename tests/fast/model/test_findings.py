from __future__ import annotations

from nidome.model.findings import DeclarationWarning, brief, grouped

_UNUSED = "the addon is not installed"


def _unsupported(name: str, where: str, effect: str) -> DeclarationWarning:
    message = f"{name} is known, not supported: {effect}"
    return DeclarationWarning("variable-unsupported", message, where, name=name, effect=effect)


def test_settings_without_effect_are_one_block() -> None:
    """What is known and not supported is a line for each effect, with the variables and where they stand."""
    unknown = DeclarationWarning("variable-unknown", "my_own is not a variable", "a.yml:2", "remove it")
    told = grouped(
        [
            _unsupported("metallb_enabled", "a.yml:1", _UNUSED),
            unknown,
            _unsupported("argocd_enabled", "a.yml:3", _UNUSED),
            _unsupported("nat_outgoing", "b.yml:4", "always so"),
            _unsupported("nat_outgoing", "b.yml:9", "always so"),
        ]
    )
    assert told[1:] == [unknown]
    assert told[0].code == "variable-unsupported"
    assert told[0].message.splitlines() == [
        "4 settings are known, not supported (with --strict, an error):",
        f"  metallb_enabled, argocd_enabled (a.yml:1, 3): {_UNUSED}",
        "  nat_outgoing (b.yml:4, 9): always so",
    ]


def test_a_single_one_is_told_as_it_is() -> None:
    """One warning is no group; those that share nothing stay apart."""
    one = _unsupported("metallb_enabled", "a.yml:1", _UNUSED)
    other = DeclarationWarning("host-unused", "nothing is done on it", "a.yml:2")
    assert grouped([one, other, other]) == [one, other, other]


def test_in_brief_they_are_counted() -> None:
    """The one line says how many there are and what shows them."""
    one = _unsupported("metallb_enabled", "a.yml:1", _UNUSED)
    told = [brief([one] * count, "nidome plan -i x") for count in (1, 2)]
    assert {warning.code for warning in told} == {"declaration-warnings"}
    assert [warning.message for warning in told] == [
        "there is 1 warning about the declaration: nidome plan -i x shows what",
        "there are 2 warnings about the declaration: nidome plan -i x shows what",
    ]
