"""Start-up times follow from bytes and rates, and every limit contains what happens inside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.facts.start_up_phases import (
    ENGINE_IMAGE_MB,
    IMAGE_MB_PER_SECOND,
    NODE_SECONDS,
    SHA256_MIB_PER_SECOND,
    WARM_UP_SECONDS,
)
from tokenworks.facts.storage import STORAGE_KINDS
from tokenworks.sizing.cold_start import cold_start, from_other_storage, warm_replicas

GIB = 2**30
sizes = st.integers(1, 2**42)
rates = st.integers(1, 100_000)


def test_loading_takes_bytes_over_the_read_rate() -> None:
    assert cold_start(64 * GIB, 1024).load_seconds == 64


def test_fast_storage_is_checked_no_faster_than_one_core_hashes() -> None:
    assert cold_start(90 * GIB, 10_000).check_seconds == -(-90 * 1024 // SHA256_MIB_PER_SECOND)


def test_the_start_of_894_gib_over_efs_takes_the_43_minutes_that_were_seen() -> None:
    slow = next(kind for kind in STORAGE_KINDS if kind.name == "EFS elastic").slow_mib_per_second
    assert cold_start(894 * GIB, slow).load_seconds == pytest.approx(43 * 60, rel=0.01)


def test_a_start_has_every_part_once() -> None:
    times = cold_start(64 * GIB, 1024)
    image = -(-ENGINE_IMAGE_MB // IMAGE_MB_PER_SECOND)
    node = NODE_SECONDS + image + times.check_seconds + 64 + WARM_UP_SECONDS
    assert times.on_new_node_seconds == node
    assert times.scale_out_seconds == node + times.metric_window_seconds


@given(sizes, rates, st.integers(1, 50), st.integers(0, 600))
def test_every_limit_exceeds_the_sum_of_what_it_contains(
    size: int, rate: int, replicas: int, drain: int
) -> None:
    times = cold_start(size, rate)
    engine = times.load_seconds + times.warm_up_seconds
    pod = times.node_seconds + times.image_pull_seconds + times.check_seconds
    assert times.budget_seconds > engine
    assert times.progress_deadline_seconds > pod + times.budget_seconds
    rollout = times.rollout_seconds(replicas, drain)
    assert rollout > replicas * (drain + times.progress_deadline_seconds)
    assert times.schedule_lead_seconds > times.scale_out_seconds


@given(sizes, rates)
def test_a_probe_in_whole_periods_still_ends_before_the_progress_deadline(
    size: int, rate: int
) -> None:
    times = cold_start(size, rate)
    periods, timeout = -(-times.budget_seconds // 10), 15
    before = times.node_seconds + times.image_pull_seconds + times.check_seconds
    assert before + periods * 10 + timeout < times.progress_deadline_seconds


@given(sizes, sizes, rates)
def test_larger_weights_never_get_less_time(one: int, other: int, rate: int) -> None:
    smaller, larger = sorted((one, other))
    assert cold_start(smaller, rate).budget_seconds <= cold_start(larger, rate).budget_seconds


@given(sizes, rates, rates)
def test_faster_storage_never_starts_later(size: int, one: int, other: int) -> None:
    slow, fast = sorted((one, other))
    assert cold_start(size, fast).scale_out_seconds <= cold_start(size, slow).scale_out_seconds


def test_what_was_measured_takes_the_place_of_public_figures() -> None:
    times = cold_start(64 * GIB, 1024, node_seconds=100, image_pull_seconds=30, warm_up_seconds=50)
    assert times.on_new_node_seconds == 100 + 30 + times.check_seconds + 64 + 50


@given(sizes, rates, rates)
def test_other_storage_changes_only_what_is_read(size: int, rate: int, other: int) -> None:
    times = cold_start(size, rate, node_seconds=7, warm_up_seconds=9)
    moved = from_other_storage(times, size, other)
    assert moved == cold_start(size, other, node_seconds=7, warm_up_seconds=9)


def test_warm_replicas_take_the_load_that_comes_while_new_ones_start() -> None:
    # 0.1 sequences a second more for 1200 s are 120, which 16 for each need 8 for.
    assert warm_replicas(growth_per_second=0.1, limit=16, cold_start_seconds=1200) == 8


def test_a_load_that_does_not_grow_needs_nothing_warm() -> None:
    assert warm_replicas(growth_per_second=0.0, limit=16, cold_start_seconds=1200) == 0


def test_every_storage_kind_has_a_range_and_a_source() -> None:
    for kind in STORAGE_KINDS:
        assert 0 < kind.slow_mib_per_second <= kind.fast_mib_per_second
        assert len(kind.source) > 20
