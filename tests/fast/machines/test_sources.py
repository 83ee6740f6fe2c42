from __future__ import annotations

import pytest

from nidome.machines.sources import carried_apt_options, source_lines

DEB822 = """\
Types: deb
# a comment
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates
 bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://deb.example/debian-security
Suites: bookworm-security
Components: main non-free-firmware

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://mirror.example/debian stable main contrib # ours
deb-src https://mirror.example/debian stable main
deb https://third.example/apt cloud-sdk-bookworm main
deb https://third.example/node nodistro main
"""


@pytest.mark.parametrize(
    ("texts", "codename", "expected"),
    [
        pytest.param(
            [DEB822],
            "trixie",
            [
                "deb http://deb.example/debian trixie main",
                "deb http://deb.example/debian trixie-updates main",
                "deb http://deb.example/debian-security trixie-security main non-free-firmware",
            ],
            id="deb822",
        ),
        pytest.param(
            [ONE_LINE], "bullseye", ["deb https://mirror.example/debian bullseye main contrib"], id="one-line"
        ),
        pytest.param(
            [ONE_LINE, ONE_LINE], "sid", ["deb https://mirror.example/debian sid main contrib"], id="once"
        ),
        pytest.param(
            ["deb http://a.example/ubuntu noble main\n", ""], "bookworm", [], id="another-distribution"
        ),
    ],
)
def test_sources(texts: list[str], codename: str, expected: list[str]) -> None:
    """A host is made from the archives this machine uses, for the release that is wanted."""
    assert source_lines(texts, codename) == expected


def test_carried_options() -> None:
    """A proxy that this machine's package client needs is used for hosts as well; other settings are not."""
    dump = (
        'APT "";\nAcquire::http::Proxy "http://proxy.example:3128";\nAcquire::https::Proxy "";\n'
        'Acquire::Check-Date "false";\nDir::Cache "var/cache/apt";\n'
    )
    assert carried_apt_options(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::Check-Date "false";',
    ]
