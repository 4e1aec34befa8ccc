"""How many models are planned and sized in a second, and how that grows with their number.

Run ``python -m benchmarks.planning [MODELS ...]`` (default: 1 10 100). Plans environments of that
many models from ``stacks/local.yaml`` and sizes as many public start-up logs; the processor time of
this process, the best of three rounds. The last column is the time for each model as a multiple of
that in the first row: 1 where the time is proportional to the number of models.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.fit_memory import CASES, ROOT
from tokenworks.engines.memory_cases import size_case
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.plan.resolve import resolve

STACKS = ROOT / "stacks"
SIZES = (1, 10, 100)
ROUNDS = 3
REPEATED = "qwen3-32b"
NODES = "nodes: 2"


def environment(models: int) -> str:
    """The text of an environment with so many models, on nodes enough for all."""
    local = (STACKS / "local.yaml").read_text("utf-8")
    first, block, end = (
        local.index("models:\n") + len("models:\n"),
        local.index(f"  - name: {REPEATED}\n"),
        local.index("gateway:"),
    )
    each = (local[block:end].replace(f"{REPEATED}\n", f"m{index}\n", 1) for index in range(models))
    gateway = local[end : local.index("  fallbacks:")]  # they name models that are not there
    text = local[:first] + "".join(each) + gateway
    return text.replace(NODES, f"nodes: {models + 1}")


def planner(models: int) -> Callable[[], object]:
    """What plans an environment of so many models, without reading its files."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "weights").symlink_to(STACKS / "weights")
        (Path(folder) / "many.yaml").write_text(environment(models), "utf-8")
        loaded, lock = load_environment("many", Path(folder)), read_lock(STACKS)
    return lambda: resolve(loaded, lock)


def sizer(models: int) -> Callable[[], object]:
    """What sizes so many public start-up logs, from the first again where they end."""
    cases = json.loads(CASES.read_text("utf-8"))
    asked = list(itertools.islice(itertools.cycle(cases), models))
    return lambda: [size_case(case, model_shapes()) for case in asked]


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of the best round."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def main() -> None:
    """Print one row for each kind of work and number of models."""
    table = Table("work", "models", "ms", "models/s", "per model, x the first")
    asked = [int(word) for word in sys.argv[1:]] or list(SIZES)
    for name, kind in (("plan", planner), ("size", sizer)):
        took = [(count, seconds(kind(count))) for count in asked]
        first = took[0][1] / took[0][0]
        for count, spent in took:
            growth = f"{spent / count / first:.2f}"
            row = (name, f"{count}", f"{spent * 1000:.1f}", f"{count / spent:.0f}", growth)
            table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
