"""Start-up times follow from bytes and rates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.sizing.start_up import SHA256_MIB_PER_SECOND, WARM_UP_SECONDS, start_up

GIB = 2**30


def test_loading_takes_bytes_over_the_read_rate() -> None:
    assert start_up(64 * GIB, 1024).load_seconds == 64


def test_fast_storage_is_checked_no_faster_than_one_core_hashes() -> None:
    assert start_up(90 * GIB, 10_000).check_seconds == -(-90 * 1024 // SHA256_MIB_PER_SECOND)


@given(st.integers(1, 2**42), st.integers(1, 100_000))
def test_the_budget_leaves_time_for_everything_the_engine_does(size: int, rate: int) -> None:
    times = start_up(size, rate)
    assert times.budget_seconds >= times.load_seconds + WARM_UP_SECONDS
    assert times.progress_deadline_seconds > times.budget_seconds + times.check_seconds


@given(st.integers(1, 2**42), st.integers(1, 2**42), st.integers(1, 100_000))
def test_larger_weights_never_get_less_time(one: int, other: int, rate: int) -> None:
    smaller, larger = sorted((one, other))
    assert start_up(smaller, rate).budget_seconds <= start_up(larger, rate).budget_seconds
