"""``nidome why`` without a host that answers, and what it shows of one that does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from nidome.cli.why import render
from nidome.prove.origins import Answer, Written
from nidome.prove.why import Effect, Found

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ANSWER = Answer(
    "kubelet_max_pods",
    "node1",
    "60",
    (
        Written("host_vars/node1.yml", "inv/host_vars/node1.yml:3", "60", wins=True),
        Written("group all", "inv/hosts.yaml:9", "80", wins=False),
    ),
    "110",
    field="ClusterSpec.kubelet_max_pods",
)
_FILE = "/etc/kubernetes/kubelet-config.yaml"
_EFFECT = Effect(
    "kubernetes/node : Write kubelet configuration",
    ("node", "kubelet"),
    f"File:{_FILE}",
    "not yet applied",
    "nidome apply",
    (Found(f"{_FILE}:29", '"maxPods": 60,', '"maxPods": 110,'),),
)


def test_the_whole_answer() -> None:
    """The value, who wrote it, whom it beat, what it reaches and what is live there are each on a line."""
    assert render(_ANSWER, [_EFFECT], "").splitlines() == [
        "kubelet_max_pods = 60  (node1)",
        "  from    inv/host_vars/node1.yml:3  host_vars/node1.yml",
        "  beats   inv/hosts.yaml:9  group all: 80",
        "  beats   default: 110",
        "  model   ClusterSpec.kubelet_max_pods",
        "",
        "  TASK [kubernetes/node : Write kubelet configuration]  tags: node, kubelet",
        f"    File:{_FILE}  not yet applied: nidome apply",
        f'      {_FILE}:29  "maxPods": 60,',
        '        live: "maxPods": 110,',
    ]


def test_long_answers_are_cut(inventory: Path) -> None:
    """An answer of many resources is cut, and says how to see the rest."""
    del inventory
    text = render(_ANSWER, [_EFFECT] * 20, "", shown=12)
    assert text.splitlines()[-1] == "  … 8 more resources (--all)"


def test_without_a_host(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """What is declared is answered also where the host is not reached, and the reason is told."""
    file = unreachable / "group_vars" / "all" / "mine.yml"
    file.write_text("---\nkubelet_max_pods: '{{ pods_of_mine }}'\npods_of_mine: 70\n", encoding="utf-8")
    code, out, _ = nidome("why", "kubelet_max_pods")
    assert code == 0
    assert out.startswith("kubelet_max_pods = 70  (node1)\n")
    assert "group_vars/all/mine.yml:2" in out
    assert "  uses    pods_of_mine\n" in out
    assert "reaches nothing that is known: ssh: connect to host 127.0.0.1 port 1" in out.replace(
        "node1: ", ""
    )


def test_what_only_templates_use(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A variable of one's own that templates use, if through others, is said to be used by them."""
    text = "kubelet_max_pods: '{{ mine }}'\nmine: '{{ deeper }}'\ndeeper: 70\n"
    (unreachable / "group_vars" / "all" / "mine.yml").write_text(text, encoding="utf-8")
    for key in ("mine", "deeper"):
        _, out, _ = nidome("why", key)
        assert "  used by kubelet_max_pods\n" in out
        assert "ignored" not in out


def test_beaten_layers(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Every layer that has the value is listed, the winner first, the command line before all files."""
    for group, value in (("all", 70), ("kube_node", 80)):
        directory = unreachable / "group_vars" / group
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "mine.yml").write_text(f"kubelet_max_pods: {value}\n", encoding="utf-8")
    _, out, _ = nidome("why", "kubelet_max_pods", "-e", "kubelet_max_pods=90", "--json")
    document = json.loads(out)
    assert [(w["value"], w["wins"]) for w in document["written"]] == [
        ("90", True),
        ("80", False),
        ("70", False),
    ]
    assert document["written"][1]["place"].endswith("group_vars/kube_node/mine.yml:1")
    assert (document["value"], document["default"]) == ("90", "110")


def test_secrets_are_hidden(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """Of a secret, why says who wrote it and not what it is."""
    auth = '[{"registry": "r.example", "username": "me", "password": "sesame-4711"}]'
    (unreachable / "group_vars" / "all" / "mine.yml").write_text(f"containerd_registry_auth: {auth}\n")
    _, out, _ = nidome("why", "containerd_registry_auth")
    assert out.startswith("containerd_registry_auth = ***  (node1)\n")
    assert "group_vars/all/mine.yml:1" in out
    assert "sesame" not in out


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("loadbalancer_apiserver_type", "ignored because it is known, not supported: no load balancer"),
        ("made_up", "ignored because nothing reads it"),
    ],
)
def test_ignored(key: str, said: str, unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A variable that has no effect is answered with the reason, and with where it was written."""
    (unreachable / "group_vars" / "all" / "mine.yml").write_text(f"{key}: x\n", encoding="utf-8")
    _, out, _ = nidome("why", key)
    assert f"{key} = x" in out
    assert "group_vars/all/mine.yml:1" in out
    assert said in out


def test_a_name_that_nobody_knows(unreachable: Path, nidome: Callable[..., tuple[int, str, str]]) -> None:
    """A name that nobody has written and nothing reads is an error with the name that was perhaps meant."""
    del unreachable
    code, _, err = nidome("why", "kube_log_levle")
    assert code == 1
    assert err.startswith("error[name-unknown]")
    assert "did you mean kube_log_level?" in err
