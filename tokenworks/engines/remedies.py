"""What would make a case fit: each way is the law run again with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokenworks.engines.case_reading import read_cards, read_model
from tokenworks.engines.memory_cases import SizedCase, size_case
from tokenworks.facts.cards import CARDS, NVLINK_CARDS, Card
from tokenworks.sizing.parallelism import Arrangement, Machines, choose

STEP_TOKENS = 1024
GPUS_PER_NODE = 8
NODES = 2
"""More GPUs are looked for on one node of eight, then on two."""

Models = Mapping[str, Mapping[str, Any]]


def remedies(case: Mapping[str, Any], sized: SizedCase, models: Models) -> tuple[str, ...]:
    """Changes after which the law says "fits"; none for what fits or cannot be told."""
    if sized.verdict in (None, "fits"):
        return ()
    ways = (
        _share(case, models),
        _shorter(case, models),
        _narrower(case, models),
        *_wider(case, models),
        _larger(case, models),
    )
    return tuple(way for way in ways if way)


def _fits(case: Mapping[str, Any], models: Models, **changes: Any) -> bool:
    return size_case({**case, **changes}, models).verdict == "fits"


def _shorter(case: Mapping[str, Any], models: Models) -> str | None:
    asked = case.get("max_model_len")
    if not isinstance(asked, int) or asked < 0:
        asked = read_model(case, models).max_position_embeddings or 0
    low, high = 0, asked // STEP_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(case, models, max_model_len=middle * STEP_TOKENS):
            low = middle
        else:
            high = middle - 1
    return f"max_model_len of at most {low * STEP_TOKENS}" if low else None


def _share(case: Mapping[str, Any], models: Models) -> str | None:
    """The largest smaller share of memory, where what follows the KV cache finds no room."""
    asked = case.get("memory_fraction")
    percents = range(int((asked or 0) * 100) - 1, 49, -1)
    found = (p / 100 for p in percents if _fits(case, models, memory_fraction=p / 100))
    share = next(found, None)
    return f"memory_fraction {share:g}" if share else None


def _narrower(case: Mapping[str, Any], models: Models) -> str | None:
    fp8 = case.get("kv_cache_dtype") not in ("fp8", "fp8_e4m3", "fp8_e5m2")
    return "kv_cache_dtype fp8" if fp8 and _fits(case, models, kv_cache_dtype="fp8") else None


def _wider(case: Mapping[str, Any], models: Models) -> Iterator[str]:
    card = _smallest(case)
    joined = "nvlink" if card.name in NVLINK_CARDS else "pcie"
    machines = Machines(nodes=NODES, gpus_per_node=GPUS_PER_NODE, interconnect=joined)

    def fits(way: Arrangement) -> bool:
        split = {"tensor_parallel": way.tensor, "pipeline_parallel": way.pipeline}
        return _fits(case, models, gpu_count=way.gpus_per_replica, **split)

    found = choose(read_model(case, models), machines, fits)
    if found is not None:
        stages = f" in {found.pipeline} stages" if found.pipeline > 1 else ""
        flags = "".join(f" ({note})" for note in found.notes)
        yield f"{found.gpus_per_replica} GPUs{stages}{flags}"


def _larger(case: Mapping[str, Any], models: Models) -> str | None:
    now = _smallest(case)
    for card in (each for each in _by_size() if each.total_gib > now.total_gib):
        gpu = {"name": card.name, "memory_gib": card.catalogue_gb}
        if _fits(case, models, gpu={**gpu, "reported_total_gib": card.total_gib}):
            return f"{card.name} ({card.total_gib:g} GiB)"
    return None


def _smallest(case: Mapping[str, Any]) -> Card:
    """The card of a case; of several that it may be, the smallest."""
    return min(read_cards(case).each, key=lambda card: card.total_gib)


def _by_size() -> list[Card]:
    """Cards of data centres, the smallest first."""
    cards = [card for _, kinds in CARDS for card in kinds if card.name in NVLINK_CARDS]
    return sorted(cards, key=lambda card: card.total_gib)
