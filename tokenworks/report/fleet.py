"""Memory, capacity, cold start and findings of a plan as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tokenworks.facts.storage import STORAGE_KINDS
from tokenworks.plan.types import ModelPlan, Plan
from tokenworks.report.tables import bar, filled, seconds
from tokenworks.sizing.cold_start import ColdStart, from_other_storage


def memory_bars(plan: Plan) -> Table:
    """The memory of one GPU of each model as a bar: one letter a part, dots what is kept free."""
    rows = [(model.name, *_memory_bar(model)) for model in plan.models]
    return filled("memory of each GPU", ("model", "usable GiB, all of it", "parts"), rows)


def _memory_bar(model: ModelPlan) -> tuple[str, str]:
    letters = _letters(name for name, _, _ in model.memory.rows())
    whole = model.memory.usable_bytes
    parts = [(letters[name], size / whole) for name, size, _ in model.memory.rows()]
    legend = ", ".join(
        f"{letters[name]} {name} {size / whole:.0%}" for name, size, _ in model.memory.rows()
    )
    return bar(parts), legend


def _letters(names: Iterable[str]) -> dict[str, str]:
    """A letter for each part: its first one that no other has."""
    taken: dict[str, str] = {}
    for name in names:
        free = (letter for letter in name.upper() if letter not in taken.values())
        taken[name] = next(letter for letter in free if letter.isalpha())
    return taken


def capacity_table(model: ModelPlan) -> Table:
    """What a replica and the fleet carry, each with its reason."""
    known = model.capacity
    rows = [
        ("peak", f"{known.peak_sequences.value} sequences", known.peak_sequences.because),
        (
            "one replica",
            f"{known.sequences_per_replica.value} sequences",
            known.sequences_per_replica.because,
        ),
        ("replicas needed", str(known.needed_replicas.value), known.needed_replicas.because),
        (
            f"{model.replicas.value} replicas carry",
            f"{known.carried_sequences.value} sequences",
            known.carried_sequences.because,
        ),
        ("may wait", f"{known.queued_requests.value} requests", known.queued_requests.because),
        ("kept warm", f"{known.warm_replicas.value} replicas", known.warm_replicas.because),
    ]
    if known.rates is not None:
        rates = known.rates.value
        slow, fast = rates.requests_per_second
        served = f"{slow:.2f} requests/s" if slow == fast else f"{slow:.2f} to {fast:.2f}"
        rows.insert(2, ("one replica serves", served, known.rates.because))
    return filled(f"{model.name}: capacity", ("what", "value", "because"), rows)


def surge_table(model: ModelPlan) -> Table:
    """What happens at one, two and five times the peak."""
    rows = [
        (
            f"{surge.times} x peak",
            str(surge.offered),
            str(surge.running),
            str(surge.waiting),
            str(surge.refused),
            f"{surge.refused / surge.offered:.0%}",
            "unknown" if surge.wait_seconds is None else seconds(surge.wait_seconds),
        )
        for surge in model.capacity.surges
    ]
    headings = ("load", "sequences", "run", "wait", "miss the target", "share", "longest wait")
    return filled(f"{model.name}: beyond the peak", headings, rows)


def cold_start_table(model: ModelPlan, read_mib_per_second: int) -> Table:
    """A start at the measured read rate, and at what other storage usually reads."""
    measured = ("measured", str(read_mib_per_second), *_times(model.cold_start.value))
    rows: list[tuple[str, ...]] = [measured]
    for kind in STORAGE_KINDS:
        slow, fast = (
            from_other_storage(model.cold_start.value, model.weights.total_bytes, rate)
            for rate in (kind.slow_mib_per_second, kind.fast_mib_per_second)
        )
        both = zip(_times(slow), _times(fast), strict=True)
        rates = f"{kind.slow_mib_per_second} to {kind.fast_mib_per_second}"
        rows.append((kind.name, rates, *(a if a == b else f"{b} to {a}" for a, b in both)))
    headings = (
        "storage",
        "MiB/s",
        "weights",
        "node and image there",
        "new node",
        "start-up budget",
    )
    return filled(f"{model.name}: cold start", headings, rows)


def _times(times: ColdStart) -> tuple[str, str, str, str]:
    return (
        seconds(times.check_seconds + times.load_seconds),
        seconds(times.on_known_node_seconds),
        seconds(times.scale_out_seconds),
        seconds(times.budget_seconds),
    )


def advice_table(plan: Plan) -> Table:
    """Every finding, and what to do about it."""
    rows = [(one.key, one.finding, one.remedy) for one in plan.advice]
    return filled("advice", ("about", "finding", "to do"), rows)
