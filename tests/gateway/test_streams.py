"""Events arrive as the engine sends them, over both versions of HTTP."""

from __future__ import annotations

import itertools

import pytest

from .engine import SimulatedEngine
from .harness import KEY, Gateway, Stream
from .http2 import http2_request
from .simulated import CHAT

pytestmark = pytest.mark.envoy


def test_events_arrive_one_by_one_as_the_engine_sends_them(gateway: Gateway) -> None:
    stream = Stream()
    gateway.stream({"model": "alpha", "simulate": {"events": 6, "gap_seconds": 0.2}}, stream)
    assert stream.events == [*(f"data: {number}" for number in range(6)), "data: [DONE]"]
    gaps = [later - sooner for sooner, later in itertools.pairwise(stream.times)]
    assert all(0.1 < gap < 0.4 for gap in gaps), gaps


def test_events_arrive_one_by_one_over_http_2_as_well(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    body = b'{"model": "alpha", "stream": true, "simulate": {"events": 4, "gap_seconds": 0.2}}'
    answer = http2_request(gateway.plan.tls_port, CHAT, {"authorization": f"Bearer {KEY}"}, body)
    assert answer.status == 200
    assert b"".join(answer.data).count(b"data: ") == 5
    gaps = [later - sooner for sooner, later in itertools.pairwise(answer.times)]
    assert sum(0.1 < gap < 0.4 for gap in gaps) >= 4, gaps
    assert engine.received[0].headers["x-tenant-id"] == "search"


@pytest.mark.parametrize(
    ("path", "key"), [(CHAT, "wrong"), ("/release_memory", KEY), ("//release_memory", KEY)]
)
def test_refusals_are_the_same_over_http_2(
    gateway: Gateway, engine: SimulatedEngine, path: str, key: str
) -> None:
    """Whole even when the body comes after the refusal, which resets the stream."""
    answer = http2_request(
        gateway.plan.tls_port, path, {"authorization": f"Bearer {key}"}, b'{"model": "alpha"}'
    )
    assert answer.status != 200
    assert b'"type":"invalid_request_error"' in b"".join(answer.data)
    assert engine.received == []


@pytest.mark.parametrize(
    ("path", "method"), [(CHAT, "POSTX"), (CHAT, "post"), ("/v1/models", "GETX")]
)
def test_methods_that_only_http_2_can_carry_are_refused(
    gateway: Gateway, engine: SimulatedEngine, path: str, method: str
) -> None:
    """Envoy's parser of HTTP/1.1 knows its methods; that of HTTP/2 takes any word."""
    headers = {"authorization": f"Bearer {KEY}"}
    port = gateway.plan.tls_port
    answer = http2_request(port, path, headers, b'{"model": "alpha"}', method=method)
    assert b'"code":"method_not_allowed"' in b"".join(answer.data)
    assert engine.received == []
