"""Time to first token, inter-token time, requests per second, memory, and 5,000 held streams.

Every subject answers over TLS on loopback and has the same simulated engine behind it; they are
measured in turn, several rounds, so that what is printed are ratios of one run. The load generator
runs on the same cores: its own share is in the table.

usage: python -m benchmarks.gateway [--streams N] [--rounds N] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from rich.console import Console

from benchmarks.gateway import peers, subjects
from benchmarks.gateway.measure import FIRST_TOKEN, INTER_TOKEN, REQUESTS, Load, Measured, measure
from benchmarks.gateway.report import goals_table, median, subjects_table
from tokenworks.errors import OperationError
from tokenworks.toolchain import BENCHMARK_TOOLS, GATEWAY_TOOLS, ensure, showing
from tokenworks.workspace import Workspace, find_workspace

LOADS = (FIRST_TOKEN, INTER_TOKEN, REQUESTS)
SUBJECTS = ("direct", "tokenworks", "envoy", "nginx", "LiteLLM")
HELD = SUBJECTS[:-1]
"""LiteLLM is left out of the held streams: it is given no chance by what it does with sixteen."""

Results = dict[tuple[str, str], Measured]


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    given = _arguments(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with showing(console) as report:
        tools = ensure((*BENCHMARK_TOOLS, *GATEWAY_TOOLS), report)
    generator = tools.path("tokenworks-gateway-load")
    load, cores = os.getloadavg()[0], os.cpu_count()
    console.print(f"{cores} cores; other work on them before this began: load {load:.1f}")
    with tempfile.TemporaryDirectory(prefix="tokenworks-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        bench = stack.enter_context(subjects.bench(folder, "chat"))
        running = _start(stack, bench, given.only, console)
        results = _measure(generator, folder, running, given.rounds, console)
        results |= _hold(generator, folder, running, given.streams, console)
    names = [subject.name for subject in running]
    console.print(subjects_table(running, results))
    console.print(goals_table(names, results, given.streams))


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.gateway")
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=SUBJECTS)
    return parser.parse_args(arguments)


def _start(
    stack: ExitStack, bench: subjects.Bench, only: Sequence[str], console: Console
) -> list[subjects.Subject]:
    """Every subject that can be had; one that cannot is named with the reason."""
    workspace = _workspace(bench.folder)
    ways: dict[str, AbstractContextManager[subjects.Subject]] = {
        "direct": subjects.direct(bench),
        "tokenworks": subjects.ours(bench, workspace, lambda _: None),
        "envoy": peers.envoy(bench),
        "nginx": peers.nginx(bench),
        "LiteLLM": peers.litellm(bench, console.print),
    }
    running = []
    for name in [name for name in ways if name in only]:
        try:
            running.append(stack.enter_context(ways[name]))
        except OperationError as error:
            console.print(f"without {name}: {error}", markup=False)
    return running


def _workspace(folder: Path) -> Workspace:
    """A checkout of its own, with the environment that has every feature."""
    real, own = find_workspace(), Workspace(folder)
    shutil.copytree(real.stacks / "weights", own.stacks / "weights")
    shutil.copyfile(real.stacks / "images.lock", own.stacks / "images.lock")
    name = f"{subjects.ENVIRONMENT}.yaml"
    shutil.copyfile(Path(__file__).with_name(name), own.stacks / name)
    return own


def _measure(
    generator: Path,
    folder: Path,
    running: Sequence[subjects.Subject],
    rounds: int,
    console: Console,
) -> Results:
    results: Results = {}
    for load in LOADS:
        seen: dict[str, list[Measured]] = {}
        for number in range(rounds):
            for subject in running:
                console.print(f"{load.name}, round {number + 1} of {rounds}: {subject.name}")
                one = measure(generator, folder, subject, load)
                _complain(subject, one, console)
                seen.setdefault(subject.name, []).append(one)
        results |= {(name, load.name): median(each) for name, each in seen.items()}
    return results


def _hold(
    generator: Path,
    folder: Path,
    running: Sequence[subjects.Subject],
    streams: int,
    console: Console,
) -> Results:
    load = Load(
        name="held",
        stream=True,
        connections=streams,
        seconds=0,
        # The first is still going on when the last one begins.
        tokens=streams // 250 + 15,
        inter_token_seconds=1.0,
        hold=True,
    )
    results: Results = {}
    for subject in running if streams else ():
        if subject.name in HELD:
            console.print(f"{streams} slow streams at the same time: {subject.name}")
            one = results[subject.name, load.name] = measure(generator, folder, subject, load)
            _complain(subject, one, console)
    return results


def _complain(subject: subjects.Subject, one: Measured, console: Console) -> None:
    if one.errors:
        console.print(f"{subject.name}: {one.errors} errors, {one.first_error}", markup=False)


if __name__ == "__main__":
    main(sys.argv[1:])
