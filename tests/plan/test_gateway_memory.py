"""A gateway's memory holds every request that is let in, before it refuses any for lack of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.plan.gateway import (
    BASE_HEAP_MIB,
    HEAP_FULL_SHARE,
    NOT_HEAP_MIB,
    STREAM_KIB,
    gateway_memory,
)

requests = st.integers(0, 20_000)
body_bytes = st.integers(0, 8 * 2**20)


@given(requests=requests, body_bytes=body_bytes)
def test_the_heap_is_not_full_with_every_planned_request_and_its_body_twice(
    requests: int, body_bytes: int
) -> None:
    full_mib = (gateway_memory(requests, body_bytes).value - NOT_HEAP_MIB) * HEAP_FULL_SHARE
    taken_mib = requests * (STREAM_KIB / 2**10 + 2 * body_bytes / 2**20)
    assert full_mib >= BASE_HEAP_MIB + taken_mib - 1e-6


@given(requests=requests, body_bytes=body_bytes)
def test_no_more_is_asked_of_a_node_than_that_needs(requests: int, body_bytes: int) -> None:
    """Each of three roundings up gives at most a MiB away."""
    taken_mib = BASE_HEAP_MIB + requests * (STREAM_KIB / 2**10 + 2 * body_bytes / 2**20)
    most = NOT_HEAP_MIB + (taken_mib + 2) / HEAP_FULL_SHARE + 1
    assert gateway_memory(requests, body_bytes).value <= most
