"""From traffic to replicas, and what happens beyond the peak: sequences, requests, seconds.

The limit of one replica is a number of sequences in flight. Little's law joins it to a rate:
concurrency = requests per second x mean seconds of a request.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

REDUNDANCY = Fraction(13, 10)
"""Replicas beyond the peak: one may fail, one may roll, and the estimate may be 20 % short; 1.3
means that the fleet runs at 77 % of its limit at the peak."""

DELIVERED = Fraction(8, 10)
"""Share of knee x replicas that a fleet delivers: balancing is never perfect."""

FRAGMENTATION = Fraction(2, 10)
"""Share of the KV cache that sequences of different lengths leave unused: 10 to 20 %."""

SURGES = (1, 2, 5)
"""Multiples of the peak that a plan answers for."""


def sequences_in_memory(
    *,
    gpu_gib: float,
    memory_fraction: float,
    weights_gib: float,
    overhead_gib: float,
    kv_gib_per_sequence: float,
) -> int:
    """Sequences whose KV cache fits beside weights and overhead; 0 when the weights do not fit."""
    free = gpu_gib * memory_fraction - weights_gib - overhead_gib
    return max(0, math.floor(free / kv_gib_per_sequence))


def sequences_of_mean_length(kv_cache_tokens: int, mean_tokens: int) -> int:
    """Sequences of mean length that a KV cache holds, after what fragmentation takes."""
    return math.floor(kv_cache_tokens * (1 - FRAGMENTATION) / mean_tokens)


def needed_replicas(peak: float | Fraction, limit: int) -> int:
    """Replicas for a peak of sequences in flight: with redundancy, and still enough with one gone.

    The larger of ceil(peak / limit x 1.3) and N+1, where N just carries the peak.
    """
    exact = Fraction(peak) / limit
    return max(math.ceil(exact * REDUNDANCY), math.ceil(exact) + 1)


def delivered(knee: int, replicas: int) -> int:
    """Sequences that a fleet carries at once within its latency: knee x replicas x 0.8.

    At least one: a single replica of a single sequence has nothing to balance.
    """
    return max(1, math.floor(knee * replicas * DELIVERED))


def concurrency(requests_per_second: float, mean_seconds: float) -> float:
    """Sequences in flight, by Little's law."""
    return requests_per_second * mean_seconds


def queue_limit(
    *, requests_per_second: float, target_seconds: float, unqueued_seconds: float
) -> int:
    """Requests that may wait and still meet a target: those that are served in the time left.

    Rates are of the whole fleet; 0 when the target is missed even by a request that never waits.
    """
    return max(0, math.floor(requests_per_second * (target_seconds - unqueued_seconds)))


@dataclass(frozen=True, kw_only=True)
class Level:
    """One step of a load test: sequences in flight, and what came of it.

    ``output_tokens_per_second`` is of all sequences together.
    """

    concurrency: int
    output_tokens_per_second: float
    time_to_first_token_p95_seconds: float


def knee(levels: Sequence[Level]) -> Level:
    """The level from which more concurrency mostly adds latency.

    It is the one farthest above the straight line from the first level to the last, both axes
    scaled to 1 (Satopaa et al., "Finding a Kneedle in a Haystack", 2011); the last level where
    throughput still grows in proportion, and the best one where it falls.
    """
    best = max(range(len(levels)), key=lambda i: levels[i].output_tokens_per_second)
    rising = levels[: best + 1]
    first, last = rising[0], rising[-1]
    width = last.concurrency - first.concurrency
    height = last.output_tokens_per_second - first.output_tokens_per_second
    if width <= 0 or height <= 0:
        return last

    def above(level: Level) -> float:
        along = (level.concurrency - first.concurrency) / width
        return (level.output_tokens_per_second - first.output_tokens_per_second) / height - along

    return max(reversed(rising), key=above)


def within_target(levels: Sequence[Level], target_seconds: float | None) -> Level | None:
    """The level to run at: the knee, or the last one before it whose first tokens are in time."""
    limit = knee(levels)
    if target_seconds is None:
        return limit
    good = (
        level
        for level in levels
        if level.concurrency <= limit.concurrency
        and level.time_to_first_token_p95_seconds <= target_seconds
    )
    return max(good, key=lambda level: level.concurrency, default=None)


@dataclass(frozen=True, kw_only=True)
class Surge:
    """A multiple of the peak: sequences that run, wait and are refused, and the longest wait.

    ``wait_seconds`` is None where the fleet's rate is unknown.
    """

    times: int
    offered: int
    running: int
    waiting: int
    refused: int
    wait_seconds: float | None


def surge(
    times: int, *, peak: int, carried: int, queue: int, requests_per_second: float | None
) -> Surge:
    """What becomes of ``times`` the peak when ``carried`` sequences run and ``queue`` may wait."""
    offered = times * peak
    running = min(offered, carried)
    waiting = min(offered - running, queue)
    wait = waiting / requests_per_second if requests_per_second else None
    return Surge(
        times=times,
        offered=offered,
        running=running,
        waiting=waiting,
        refused=offered - running - waiting,
        wait_seconds=0.0 if waiting == 0 else wait,
    )
