"""What is too large, too many, too slow or not there."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

import pytest

from .engine import SimulatedEngine
from .harness import JSON, KEY, Gateway, Stream, refusal, until
from .simulated import CHAT, Reply

pytestmark = pytest.mark.envoy


def body_of(size: int) -> bytes:
    empty = json.dumps({"model": "alpha", "pad": ""}).encode()
    return json.dumps({"model": "alpha", "pad": "x" * (size - len(empty))}).encode()


def test_a_body_at_the_limit_passes_and_one_above_is_refused(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    limit = gateway.plan.max_request_body_bytes.value
    assert gateway.post(body_of(limit)).status == 200
    assert len(engine.received[0].body) == limit
    reply = gateway.post(body_of(limit + 1))
    assert refusal(reply) == (413, "request_too_large")
    assert str(limit) in reply.json["error"]["message"]
    assert len(engine.received) == 1


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_body_of_unknown_length_has_the_same_limit(
    gateway: Gateway, engine: SimulatedEngine, content_type: str
) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 4096

    headers = {"content-type": content_type, "authorization": f"Bearer {KEY}"}
    with contextlib.closing(gateway.connection()) as connection:
        connection.request("POST", CHAT, chunks(), headers, encode_chunked=True)
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, b"")
    assert reply.status in ({413} if content_type == "application/json" else {413, 415})
    assert engine.received == []


def test_headers_above_60_kb_are_refused(gateway: Gateway, engine: SimulatedEngine) -> None:
    reply = gateway.post({"model": "alpha"}, headers={"x-large": "x" * 62_000})
    assert refusal(reply) == (431, "bad_request")
    assert engine.received == []


@pytest.mark.parametrize(
    "head",
    [
        "content-length: 18\r\ntransfer-encoding: chunked",
        "content-length: 18\r\ncontent-length: 19",
        "transfer-encoding: chunked, identity",
        "content-length: +18",
    ],
)
def test_a_body_of_two_lengths_is_refused(
    gateway: Gateway, engine: SimulatedEngine, head: str
) -> None:
    """Two readings of one request are how a second request is smuggled past a gateway."""
    text = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    text += f'content-type: application/json\r\n{head}\r\n\r\n{{"model": "alpha"}}'
    with contextlib.closing(gateway.connection()) as connection:
        connection.connect()
        connection.sock.sendall(text.encode())
        assert connection.sock.recv(100).split(b" ")[1] in {b"400", b"501"}
    assert engine.received == []


def test_a_model_without_engines_answers_503_and_when_to_come_back(gateway: Gateway) -> None:
    reply = gateway.post({"model": "absent"})
    assert refusal(reply) == (503, "engine_unavailable")
    assert reply.headers["retry-after"] == "5"


def test_more_requests_than_a_model_may_hold_are_refused_at_once(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    replies: list[tuple[Reply, float]] = []

    def call() -> None:
        began = time.monotonic()
        reply = gateway.post({"model": "narrow", "simulate": {"delay_seconds": 1.0}})
        replies.append((reply, time.monotonic() - began))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    refused = [(reply, seconds) for reply, seconds in replies if reply.status != 200]
    assert (len(replies) - len(refused), len(engine.received)) == (2, 2)
    for reply, seconds in refused:
        assert refusal(reply) == (429, "queue_full")
        assert reply.headers["retry-after"] == "2"
        assert "x-llm-refusal" not in reply.headers
        assert seconds < 0.9
    assert gateway.post({"model": "narrow"}).status == 200
    text = gateway.plain("GET", "/stats/prometheus").body.decode()
    wanted = '_gateway_refusals{status="429",route="model/narrow",error_code="queue_full"} '
    (counted,) = [line for line in text.splitlines() if wanted in line]
    assert float(counted.split()[-1]) >= len(refused)


def test_an_engine_that_stays_silent_too_long_gives_504(gateway: Gateway) -> None:
    began = time.monotonic()
    reply = gateway.post({"model": "alpha", "simulate": {"delay_seconds": 3.5}})
    assert refusal(reply) == (504, "request_too_slow")
    assert reply.headers["x-should-retry"] == "false"
    assert 1.8 < time.monotonic() - began < 3.2


def test_a_stream_ends_broken_when_its_time_is_up(gateway: Gateway) -> None:
    """It must not look whole: the last chunk is missing, so clients report an error."""
    stream = Stream()
    began = time.monotonic()
    gateway.stream({"model": "alpha", "simulate": {"events": 80, "gap_seconds": 0.1}}, stream)
    assert stream.broken
    assert 3.5 < time.monotonic() - began < 5.5
    assert 30 < len(stream.events) < 50


def test_an_engine_stops_when_its_caller_has_gone(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    aborted = engine.aborted
    with contextlib.closing(gateway.connection()) as connection:
        body = {"model": "alpha", "stream": True, "simulate": {"events": 500, "gap_seconds": 0.02}}
        headers = {**JSON, "authorization": f"Bearer {KEY}"}
        connection.request("POST", CHAT, json.dumps(body), headers)
        connection.getresponse().readline()
    until(lambda: engine.aborted == aborted + 1, what="the engine saw the abort", seconds=2)
