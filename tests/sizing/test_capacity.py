"""Capacity: replicas, knees, queues and surges, with the worked figures of the field."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.sizing.capacity import (
    SURGES,
    Level,
    concurrency,
    delivered,
    knee,
    needed_replicas,
    queue_limit,
    sequences_in_memory,
    sequences_of_mean_length,
    surge,
    within_target,
)

MEASURED = tuple(
    Level(concurrency=c, output_tokens_per_second=t, time_to_first_token_p95_seconds=f)
    for c, t, f in (
        (1, 60.0, 0.2),
        (5, 280.0, 0.4),
        (10, 500.0, 0.7),
        (20, 720.0, 1.4),
        (50, 800.0, 5.0),
    )
)

level_lists = st.lists(
    st.tuples(st.integers(1, 500), st.floats(1, 1e5), st.floats(0.01, 60)),
    min_size=2,
    max_size=6,
    unique_by=lambda row: row[0],
).map(
    lambda rows: [
        Level(concurrency=c, output_tokens_per_second=t, time_to_first_token_p95_seconds=f)
        for c, t, f in sorted(rows)
    ]
)


def test_the_worked_case_holds_16_sequences_on_17_replicas() -> None:
    limit = sequences_in_memory(
        gpu_gib=24, memory_fraction=0.9, weights_gib=3.5, overhead_gib=1.5, kv_gib_per_sequence=1.0
    )
    assert limit == 16
    assert needed_replicas(200, limit) == 17  # ceil(200 / 16 x 1.3 = 16.25)


def test_weights_beyond_the_card_leave_no_sequence() -> None:
    held = sequences_in_memory(
        gpu_gib=24, memory_fraction=0.9, weights_gib=30, overhead_gib=1.5, kv_gib_per_sequence=1
    )
    assert held == 0


def test_a_fleet_delivers_four_fifths_of_its_knees() -> None:
    assert delivered(16, 17) == 217  # 16 x 17 x 0.8 = 217.6


@given(st.integers(1, 1_000), st.integers(1, 1_000))
def test_a_fleet_delivers_something_and_never_more_than_its_knees(limit: int, count: int) -> None:
    assert 1 <= delivered(limit, count) <= limit * count


def test_concurrency_is_rate_times_time() -> None:
    assert concurrency(20, 10.0) == 200


def test_fragmentation_takes_a_fifth_of_the_cache() -> None:
    assert sequences_of_mean_length(100_000, 1_000) == 80


@given(st.integers(1, 10_000), st.integers(1, 1_000))
def test_the_fleet_carries_the_peak_and_still_holds_it_with_one_replica_gone(
    peak: int, limit: int
) -> None:
    replicas = needed_replicas(peak, limit)
    assert delivered(limit, replicas) >= peak
    assert (replicas - 1) * limit >= peak


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 1_000))
def test_a_higher_peak_never_needs_fewer_replicas(one: int, other: int, limit: int) -> None:
    lower, higher = sorted((one, other))
    assert needed_replicas(lower, limit) <= needed_replicas(higher, limit)


@given(st.integers(1, 10_000), st.integers(1, 1_000), st.integers(1, 1_000))
def test_a_larger_replica_never_needs_more_of_them(peak: int, one: int, other: int) -> None:
    smaller, larger = sorted((one, other))
    assert needed_replicas(peak, larger) <= needed_replicas(peak, smaller)


def test_the_knee_is_where_more_concurrency_mostly_adds_latency() -> None:
    assert knee(MEASURED).concurrency == 20


def test_throughput_that_still_grows_in_proportion_has_its_knee_at_the_last_level() -> None:
    linear = [
        Level(concurrency=c, output_tokens_per_second=10.0 * c, time_to_first_token_p95_seconds=0.1)
        for c in (1, 2, 4, 8)
    ]
    assert knee(linear).concurrency == 8


def test_levels_at_which_throughput_falls_are_never_the_knee() -> None:
    falling = (*MEASURED[:4], Level(
        concurrency=50, output_tokens_per_second=300.0, time_to_first_token_p95_seconds=9.0
    ))  # fmt: skip
    assert knee(falling).concurrency <= 20


@given(level_lists)
def test_a_knee_is_one_of_the_levels_and_never_beyond_the_best(levels: list[Level]) -> None:
    found, best = knee(levels), max(levels, key=lambda level: level.output_tokens_per_second)
    assert found in levels
    assert found.concurrency <= best.concurrency


def test_a_latency_target_stops_before_the_knee() -> None:
    found = within_target(MEASURED, 1.0)
    assert found is not None
    assert found.concurrency == 10


def test_a_target_that_no_level_meets_is_met_by_none() -> None:
    assert within_target(MEASURED, 0.1) is None


@pytest.mark.parametrize(
    ("target", "expected"), [(1.5, 2), (0.7, 0), (0.1, 0)], ids=["room", "no room", "missed"]
)
def test_only_those_may_wait_who_are_served_in_time(target: float, expected: int) -> None:
    assert (
        queue_limit(requests_per_second=3.2, target_seconds=target, unqueued_seconds=0.7)
        == expected
    )


@given(
    st.integers(1, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.one_of(st.none(), st.floats(0.01, 1_000)),
)
def test_beyond_the_peak_every_sequence_runs_waits_or_is_refused(
    peak: int, carried: int, queue: int, rate: float | None
) -> None:
    for times in SURGES:
        found = surge(times, peak=peak, carried=carried, queue=queue, requests_per_second=rate)
        assert found.running + found.waiting + found.refused == found.offered == times * peak
        assert found.running <= carried
        assert found.waiting <= queue
        assert found.refused == max(0, times * peak - carried - queue)


def test_nobody_waits_while_the_fleet_carries_all() -> None:
    found = surge(1, peak=10, carried=20, queue=5, requests_per_second=None)
    assert (found.running, found.waiting, found.refused, found.wait_seconds) == (10, 0, 0, 0.0)


def test_the_longest_wait_is_the_queue_at_the_rate_of_the_fleet() -> None:
    found = surge(5, peak=10, carried=20, queue=6, requests_per_second=3.0)
    assert found.wait_seconds == pytest.approx(2.0)
    assert math.isclose(found.refused / found.offered, 0.48)
