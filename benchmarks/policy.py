"""The check beside checkov and kube-score: time on the same manifests, and what each one catches.

All run in turn on the same files, so that what is printed are ratios of one run, not seconds of
somebody's machine. ``cpu s`` is what the processes used, which a busy machine changes least.

usage: python -m benchmarks.policy [ROUNDS]      (default: 5)
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.policy_peers import Peers, install
from benchmarks.policy_rows import Row, rows
from policy.objects import is_kubernetes
from tokenworks.check.judge import judge
from tokenworks.check.sources import Reading
from tokenworks.environment.load import environment_names
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 5
GENERATED: Final = 800
SIZES: Final = (10, 30, 100, 300, 1000)
DIGEST: Final = f"sha256:{'0123456789abcdef' * 4}"


@dataclass(frozen=True)
class Cost:
    """Medians of one program on one set of files."""

    wall: float
    cpu: float


def deployment(index: int) -> dict[str, Any]:
    """An ordinary Deployment, pinned and restricted."""
    labels = {"app.kubernetes.io/name": f"app-{index}"}
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app:{index}.0.0@{DIGEST}",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "LEVEL", "value": "info"}, {"name": "INDEX", "value": str(index)}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "200m", "memory": "256Mi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"app-{index}", "namespace": "apps", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def service(index: int) -> dict[str, Any]:
    """The Service in front of it."""
    labels = {"app.kubernetes.io/name": f"app-{index}"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"app-{index}", "namespace": "apps", "labels": labels},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]},
    }


def policy(index: int) -> dict[str, Any]:
    """Who may reach it."""
    labels = {"app.kubernetes.io/name": f"app-{index}"}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"app-{index}", "namespace": "apps"},
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 8080}]}],
        },
    }


def settings(index: int) -> dict[str, Any]:
    """What it reads."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"app-{index}", "namespace": "apps"},
        "data": {"settings.yaml": f"level: info\nindex: {index}\n"},
    }


def generated(count: int) -> list[dict[str, Any]]:
    """So many objects, a quarter of each kind."""
    kinds = (deployment, service, policy, settings)
    return [kinds[index % len(kinds)](index // len(kinds)) for index in range(count)]


def rendered() -> Iterator[dict[str, Any]]:
    """Every Kubernetes object that the programs of every environment register."""
    workspace = Workspace(ROOT)
    for name in environment_names(workspace.stacks):
        recordings = record_environment(workspace, plan_environment(workspace, name))
        for recording in recordings.values():
            for one in recording.resources:
                if is_kubernetes(one.type) and "kind" in one.inputs:
                    yield _plain(one.inputs)


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {key: _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, tuple) else value


def cost(commands: list[list[str]], rounds: int) -> list[Cost]:
    """Medians of each command, all run in turn in every round."""
    seen: list[list[tuple[float, float]]] = [[] for _ in commands]
    for _ in range(rounds):
        for command, samples in zip(commands, seen, strict=True):
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
            wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            samples.append((wall, used))
    return [
        Cost(*(statistics.median(column) for column in zip(*samples, strict=True)))
        for samples in seen
    ]


def ours(*arguments: str) -> list[str]:
    """The command of this checkout."""
    return [sys.executable, "-m", "tokenworks.cli", "check", *arguments]


def times(peers: Peers, folder: Path, sets: dict[str, list[dict[str, Any]]], rounds: int) -> Table:
    """Compare all three on each set of objects."""
    table = _table("manifests", "objects", "program", "wall s", "cpu s", "ours is", "by cpu")
    for name, objects in sets.items():
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        commands = {
            "tokenworks check": ours("--manifests", str(file)),
            "kube-score 1.20.0": peers.kube_score_command([file]),
            "checkov 3.3.30": peers.checkov_command(file),
        }
        mine, *others = costs = cost(list(commands.values()), rounds)
        for program, one in zip(commands, costs, strict=True):
            ratios = (f"{mine.wall / one.wall:.2f} x", f"{mine.cpu / one.cpu:.2f} x")
            shown = ratios if one in others else ("", "")
            numbers = (f"{one.wall:.2f}", f"{one.cpu:.2f}", *shown)
            table.add_row(name, str(len(objects)), program, *numbers)
    return table


def growth(rounds: int) -> Table:
    """Time per object of reading and judging alone, as the number of objects grows."""
    table = _table("objects", "ms per object (cpu)")
    for size in SIZES:
        text = yaml.safe_dump_all(generated(size))
        seconds = _least(functools.partial(_judged, text), rounds)
        table.add_row(str(size), f"{1000 * seconds / size:.3f}")
    return table


def _judged(text: str) -> None:
    reading = Reading()
    reading.add_manifests(text, "generated.yaml")
    judge(reading.resources)


def _least(work: Callable[[], None], rounds: int) -> float:
    samples = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        samples.append(time.process_time() - begun)
    return min(samples)


def caught(found: list[Row]) -> Table:
    """Compare what is caught, rule by rule."""
    headings = ("rule", "bad cases", "checkov reads", "checkov catches", "we catch")
    table = _table(*headings, "good cases", "checkov alarms", "we alarm")
    for row in found:
        table.add_row(row.rule, *map(str, _numbers(row)))
    columns = zip(*map(_numbers, found), strict=True)
    table.add_row("all", *(str(sum(column)) for column in columns))
    return table


def _numbers(row: Row) -> tuple[int, ...]:
    bad = (row.bad, row.bad_readable, row.caught, row.caught_by_us)
    return (*bad, row.good, row.alarms, row.alarms_by_us)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        words = heading in {"manifests", "program", "rule"}
        table.add_column(heading, justify="left" if words else "right")
    return table


def main(rounds: int) -> None:
    """Print times, growth and what is caught."""
    console = Console(width=140)
    peers = install()
    sets = {"our environments": list(rendered()), "generated": generated(GENERATED)}
    with tempfile.TemporaryDirectory() as folder:
        console.print(times(peers, Path(folder), sets, rounds), "")
    (programs,) = cost([ours()], rounds)
    console.print(f"all environments with their programs: {programs.wall:.2f} s ", end="")
    console.print(f"({programs.cpu:.2f} s cpu); load of the machine {os.getloadavg()[0]:.1f}\n")
    console.print(growth(rounds), "")
    with tempfile.TemporaryDirectory() as folder:
        console.print(caught(rows(peers, Path(folder))))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
