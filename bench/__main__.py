"""Measure everything of docs/performance.md in one run: ``python -m bench [--runs 5] [-o FILE] [CASE …]``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import Figure, peak_memory, table, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_HERE = Path(__file__).parent
_NODE = "node1"
_DNS = "10.233.0.3"
_TAKEN = "/root/given"

# Taken from an installed host once; the floor gets it ready-made.
_TAKE = rf"""
set -e
rm -rf {_TAKEN}; mkdir -p {_TAKEN}
for unit in kine containerd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet; do
  sed -n '/^ExecStart=/,/[^\\]$/p' /etc/systemd/system/$unit.service |
    sed "s/^ExecStart=//; s/ *\\\\\$//; s/^ *//; s/.*/'&'/" | tr '\n' ' ' > {_TAKEN}/$unit.command
done
export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl get -o json -n kube-system sa/coredns cm/coredns svc/kube-dns deploy/coredns \
  clusterrole/system:coredns clusterrolebinding/system:coredns > {_TAKEN}/all.json
kubectl get clusterrolebinding -o json -l app.kubernetes.io/managed-by=nidome > {_TAKEN}/bindings.json
python3 - <<'P'
import json
items = [o for f in ("all", "bindings") for o in json.load(open(f"{_TAKEN}/{{f}}.json"))["items"]]
for o in items:
    o.pop("status", None)
    for k in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        o["metadata"].pop(k, None)
json.dump({{"apiVersion": "v1", "kind": "List", "items": items}}, open("{_TAKEN}/objects.json", "w"))
P
tar -cf /root/taken.tar -C / etc/kubernetes etc/containerd etc/cni/net.d/10-nidome.conflist.template {_TAKEN.lstrip("/")}
"""


class Bench:
    """A scratch directory with hosts, inventory and records of its own; the user's artifact cache."""

    def __init__(self, home: Path) -> None:
        self.home = home
        own = {"NIDOME_MACHINES_DIR": str(home / "machines"), "NIDOME_STATE_DIR": str(home / "state")}
        self.environment = {**os.environ, **own}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def command(self, *arguments: str) -> list[str]:
        """Return a nidome command line."""
        return [str(Path(sys.executable).with_name("nidome")), *arguments]

    def nidome(self, *arguments: str, check: bool = True) -> str:
        """Run nidome and return its output."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise SystemExit(f"nidome {shlex.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def host(self, script: str, *, check: bool = True) -> str:
        """Run a script on the host."""
        return self.nidome("machines", "ssh", _NODE, "--", script, check=check)

    def fresh(self) -> None:
        """Give an empty host that has booted."""
        self.nidome("machines", "rm", "--all")
        from nidome.artifacts import Store, default_cache  # noqa: PLC0415 - only for the path

        self.nidome("machines", "create", _NODE, "--blobs", str(Store(default_cache()).blobs))
        time.sleep(1)

    def copy(self, path: Path, target: str) -> None:
        """Copy a file onto the host."""
        with path.open("rb") as source:
            subprocess.run(
                self.command("machines", "ssh", _NODE, "--", f"cat > {target}"),
                env=self.environment,
                cwd=self.home,
                stdin=source,
                check=True,
            )


@contextlib.contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="nidome-bench-") as home:
        bench = Bench(Path(home))
        try:
            yield bench
        finally:
            bench.nidome("machines", "rm", "--all", check=False)


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _floor(bench: Bench, taken: Path) -> tuple[float, float]:
    """Return the seconds until Ready and until DNS answers, by hand on an empty host."""
    bench.fresh()
    bench.copy(taken, "/root/taken.tar")
    bench.copy(_HERE / "floor.sh", "/root/floor.sh")
    bench.copy(_HERE / "dns_in_pod.py", "/root/dns_in_pod.py")
    blobs = {
        a["name"]: a["sha256"] for a in json.loads(bench.nidome("artifacts", "list", "--json"))["artifacts"]
    }
    links = [
        f"ln -sf /run/host/nidome/blobs/{digest} /usr/local/bin/{name}"
        for name, digest in blobs.items()
        if not name.startswith(("image-", "cni-"))
    ]
    links += [
        f"ln -sf /run/host/nidome/blobs/{digest} /opt/cni/bin/{name[4:]}"
        for name, digest in blobs.items()
        if name.startswith("cni-")
    ]
    links += [
        f"ln -sf /run/host/nidome/blobs/{blobs[f'image-{name}']} {_TAKEN}/{name}.tar"
        for name in ("pause", "coredns")
    ]
    bench.host("mkdir -p /opt/cni/bin; tar -xf /root/taken.tar -C /; " + "; ".join(links))
    said = bench.host(f"timeout 30 bash /root/floor.sh {_NODE} {_DNS} {_TAKEN}")
    found = dict(line.split() for line in said.splitlines())
    return float(found["ready"]), float(found["dns"])


def _install(bench: Bench) -> tuple[float, float, float]:
    """Return the seconds until Ready, until the whole command ends, and until DNS answers in a pod, by nidome."""
    bench.fresh()
    bench.copy(_HERE / "dns_in_pod.py", "/root/dns_in_pod.py")
    began = time.time()
    events = _events(bench.nidome("apply", "--view", "json"))
    ended = time.time()
    bench.host(f"python3 -I -S /root/dns_in_pod.py {_DNS}")
    waited = "Wait for the node to be Ready"
    ready = next(e["at"] for e in events if e["type"] == "task_finished" and e["task"].endswith(waited))
    return ready - began, ended - began, time.time() - began


def _take(bench: Bench) -> Path:
    """Install once, write the inventory, and take what the floor is given."""
    bench.nidome("up", "--view", "plain")
    bench.host(_TAKE)
    path = bench.home / "taken.tar"
    with path.open("wb") as out:
        subprocess.run(
            bench.command("machines", "ssh", _NODE, "--", "cat /root/taken.tar"),
            env=bench.environment,
            cwd=bench.home,
            stdout=out,
            check=True,
        )
    return path


def _bring_up(bench: Bench, runs: int) -> list[Figure]:
    floor = Figure("by hand: empty host → node Ready", "s", note="certificates, files and binaries lie ready")
    floor_dns = Figure("by hand: empty host → DNS answers in a pod", "s")
    ready = Figure("`nidome apply`: empty host → node Ready", "s")
    whole = Figure("`nidome apply`: empty host → whole command, DNS answers through its ClusterIP", "s")
    dns = Figure("`nidome apply`: empty host → DNS answers in a pod", "s")
    taken = _take(bench)
    for _ in range(runs):
        _add((floor, floor_dns), _floor(bench, taken))
        _add((ready, whole, dns), _install(bench))
    ratio = Figure("**(a) node Ready ÷ by hand**", "×", "≤ 1.5", [ready.median / floor.median])
    ratio_dns = Figure(
        "**(a) DNS answers in a pod ÷ by hand node Ready**", "×", "≤ 2", [dns.median / floor.median]
    )
    return [floor, floor_dns, ready, whole, dns, ratio, ratio_dns]


def _add(figures: Sequence[Figure], values: Sequence[float]) -> None:
    for figure, value in zip(figures, values, strict=True):
        figure.samples.append(value)


def _no_op(bench: Bench, runs: int) -> list[Figure]:
    bench.nidome("apply", "--view", "plain")
    again = Figure("**(b) second `nidome apply`, nothing to do, whole command**", "s", "≤ 1.0")
    plan = Figure("`nidome plan`, nothing to do", "s")
    memory = Figure("**(e) peak memory of a no-op apply**", "MB", "≤ 120")
    for _ in range(runs):
        again.samples.append(timed(lambda: bench.nidome("apply", "--view", "plain")))
        plan.samples.append(timed(lambda: bench.nidome("plan")))
        memory.samples.append(
            peak_memory(bench.command("apply", "--view", "plain"), env=bench.environment, cwd=bench.home)
        )
    return [again, plan, memory]


def _up(bench: Bench, runs: int) -> list[Figure]:
    whole = Figure("**(c) `nidome up` from nothing, host boot included**", "s", "≤ 9")
    memory = Figure("**(e) peak memory of `nidome up`**", "MB", "≤ 120")
    for _ in range(runs):
        bench.nidome("machines", "rm", "--all")
        whole.samples.append(timed(lambda: bench.nidome("up", "--view", "plain")))
    bench.nidome("machines", "rm", "--all")
    memory.samples.append(
        peak_memory(bench.command("up", "--view", "plain"), env=bench.environment, cwd=bench.home)
    )
    return [whole, memory]


def _help(bench: Bench, runs: int) -> list[Figure]:
    figure = Figure("**(d) `nidome --help`**", "s", "≤ 0.15")
    figure.samples = [timed(lambda: bench.nidome("--help")) for _ in range(runs * 2)]
    return [figure]


def _ansible(bench: Bench, runs: int) -> list[Figure]:
    """Measure a no-op of the same files and services by ansible-core over the same ssh."""
    from bench.ansible import playbook_command  # noqa: PLC0415 - only this figure needs it

    command, files, services = playbook_command(bench)
    subprocess.run(command, cwd=bench.home, env=bench.environment, check=True, capture_output=True)
    figure = Figure(f"ansible-core, no-op of the same {files} files and {services} services", "s")
    mine = Figure("`nidome apply`, no-op (everything, those among it)", "s")
    for _ in range(runs):
        figure.samples.append(
            timed(
                lambda: subprocess.run(
                    command, cwd=bench.home, env=bench.environment, check=True, capture_output=True
                )
            )
        )
        mine.samples.append(timed(lambda: bench.nidome("apply", "--view", "plain")))
    return [figure, mine, Figure("**(f) ansible-core ÷ nidome**", "×", "", [figure.median / mine.median])]


def _inventory(bench: Bench, runs: int) -> list[Figure]:
    from bench.inventory import inventory_figures  # noqa: PLC0415 - only this figure needs it

    return inventory_figures(bench, runs)


# In the order in which they run: the middle three use one host after the other.
_CASES: Mapping[str, Callable[[Bench, int], list[Figure]]] = {
    "help": _help,
    "inventory": _inventory,
    "bring-up": _bring_up,
    "no-op": _no_op,
    "ansible": _ansible,
    "up": _up,
}
_NEEDS_HOST = ("no-op", "ansible")


def _chosen(names: Sequence[str]) -> list[str]:
    """Return the cases to run, in order: those asked for (all by default) and the one that makes their host."""
    wanted = set(names) or set(_CASES)
    if wanted.intersection(_NEEDS_HOST):
        wanted.add("bring-up")
    return [name for name in _CASES if name in wanted]


def main() -> None:
    """Measure, print the table, and store it."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(_CASES)} (default: all)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/bench.json"))
    args = parser.parse_args()
    unknown = sorted(set(args.cases) - set(_CASES))
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(_CASES)}")
    with _bench() as bench:
        figures = [figure for name in _chosen(args.cases) for figure in _CASES[name](bench, args.runs)]
    print(table(figures))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": os.cpu_count(), "kernel": platform.release(), "date": time.strftime("%Y-%m-%d")}
    args.output.write_text(
        json.dumps({"machine": machine, "figures": [f.to_json() for f in figures]}, indent=1) + "\n",
        encoding="utf-8",
    )
    print(
        f"\n{machine['cpus']} cores, kernel {machine['kernel']}, {machine['date']}; stored in {args.output}"
    )


if __name__ == "__main__":
    main()
