"""How one replica is spread over GPUs, and the memory that it then has; or why nothing fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenworks.engines.replica_memory import MemoryBudget, usable_gib
from tokenworks.errors import Problem
from tokenworks.facts.gpus import GPUS
from tokenworks.facts.instances import Instance, instances
from tokenworks.plan import parallel
from tokenworks.plan.case import Case, Refused, machines
from tokenworks.plan.parallel import Parallel
from tokenworks.sizing.memory import GIB
from tokenworks.sizing.parallelism import Arrangement, arrangements, choose

MOST_NODES = 8
"""Nodes over which it is looked for a replica that no single one holds."""

LEAST_PERCENT = 50
"""No smaller share of free memory is advised for the KV cache."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """An arrangement that fits, why it was taken, and the memory of each of its GPUs."""

    way: Arrangement
    parallel: Parallel
    memory: MemoryBudget


def fit(case: Case) -> Fit:
    """The arrangement as asked for, else the one with the fewest GPUs that fits on one node.

    Raises:
        Refused: what is asked for is not possible, or nothing fits.
    """
    parallel.check(case)
    way = choose(case.config, case.machines, lambda one: _fits(case, one), case.wanted)
    if way is None:
        raise Refused(_does_not_fit(case))
    return Fit(way=way, parallel=parallel.reasons(case, way), memory=case.budget(way))


def fewest_gpus(case: Case) -> Arrangement | None:
    """The arrangement with the fewest GPUs that fits on one node, whatever is asked for."""
    return choose(case.config, case.machines, lambda one: _fits(case, one))


def _fits(case: Case, way: Arrangement) -> bool:
    return way.nodes == 1 and case.budget(way).starts


def _does_not_fit(case: Case) -> Problem:
    length = case.model.max_model_len_tokens
    tried = arrangements(case.config, case.machines, case.wanted)
    way = [one for one in tried if one.nodes == 1][-1]
    memory = case.budget(way)
    table = ", ".join(f"{name} {size / GIB:.2f}" for name, size, _ in memory.rows())
    needed = memory.kv_bytes_per_token * (length + memory.state_tokens) / GIB
    return case.place.problem(
        "max_model_len_tokens",
        given=length,
        reason=f"does not fit on {way.gpus_per_replica} x {case.gpu.name} "
        f"({memory.usable_bytes / GIB:.2f} GiB each): {table} GiB; one sequence needs "
        f"{needed:.2f} GiB of KV cache" + "".join(_further(case, memory)),
        remedy=" or ".join(_ways_out(case, way, memory)) or "use a smaller model",
    )


def _further(case: Case, memory: MemoryBudget) -> Iterator[str]:
    """What refuses beside the size of the cache, and what would hold it but is not supported."""
    if memory.after_bytes > memory.left_bytes:
        needed, left = memory.after_bytes / GIB, memory.left_bytes / GIB
        yield f"; sampling then takes {needed:.2f} GiB, of which {left:.2f} GiB are left"
    elif memory.sequences >= 1:
        yield from (f"; {bound}" for bound in memory.bounds)
    several = None if fewest_gpus(case) else _on(case, case.instance, MOST_NODES)
    if several is not None:
        yield (
            f"; {several.gpus_per_replica} GPUs of {several.nodes} nodes in {several.pipeline} "
            f"stages would hold it, but {parallel.ONE_NODE}"
        )


def _ways_out(case: Case, way: Arrangement, memory: MemoryBudget) -> Iterator[str]:
    """Changes after which the law says that the model fits; each is tried before it is said."""
    length = memory.longest_tokens
    if length and case.changed(max_model_len_tokens=length).budget(way).starts:
        yield f"use at most {length} tokens"
    yield from _smaller_share(case, way, memory)
    fewest = fewest_gpus(case)
    if fewest is not None:
        yield f"use {spelt(fewest)}"
        return
    larger = _larger_gpus(case)
    if larger:
        yield f"use a pool of {larger}"


def _smaller_share(case: Case, way: Arrangement, memory: MemoryBudget) -> Iterator[str]:
    if memory.after_bytes <= memory.left_bytes:
        return
    asked = int(case.served.kv_cache_fraction * 100)
    for percent in range(asked - 1, LEAST_PERCENT - 1, -1):
        if case.changed(kv_cache_free_memory_percent=percent).budget(way).starts:
            yield f"use kv_cache_free_memory_percent {percent}"
            return


def spelt(way: Arrangement) -> str:
    """An arrangement as the environment spells it."""
    stages = f" and pipeline_parallel {way.pipeline}" if way.pipeline > 1 else ""
    return f"tensor_parallel {way.tensor}{stages}"


def _larger_gpus(case: Case) -> str | None:
    """The smallest larger GPU of which one node is enough, with its largest instance type."""
    now = usable_gib(case.gpu)
    for gpu in sorted(GPUS.values(), key=usable_gib):
        nodes = [shape for shape in instances().values() if shape.gpu == gpu.name]
        if usable_gib(gpu) <= now or not nodes:
            continue
        shape = max(nodes, key=lambda one: (one.gpu_count, one.name))
        way = _on(case, shape, 1)
        if way is not None:
            return f"{gpu.name} GPUs, such as {way.gpus_per_replica} of a {shape.name}"
    return None


def _on(case: Case, shape: Instance, nodes: int) -> Arrangement | None:
    """The arrangement with the fewest GPUs on so many nodes of an instance type, if any fits."""
    gpu, room = GPUS[shape.gpu], machines(shape, nodes)

    def fits(way: Arrangement) -> bool:
        try:
            return case.budget(way, gpu).starts
        except Refused:
            return False

    return choose(case.config, room, fits)
