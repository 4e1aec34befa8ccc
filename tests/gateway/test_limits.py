"""What is too large, too many, too slow or not there."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenworks.plan.types import Decided

from .engine import SimulatedEngine
from .harness import (
    JSON,
    KEY,
    Gateway,
    Stream,
    engines_of,
    plan_for,
    refusal,
    running,
    until,
)
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
    refusals = 'envoy_gateway_refusals{filter="admission",status="429"'
    wanted = refusals + ',route="model/narrow",error_code="queue_full"} '
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


BODY_BYTES = 8 * 2**20
MEMORY_MIB = 192


@contextlib.contextmanager
def unfinished(gateway: Gateway) -> Iterator[None]:
    """A request that has sent all of a large body but its end; how it ends is no matter."""
    with contextlib.closing(gateway.connection()) as connection, contextlib.suppress(OSError):
        connection.putrequest("POST", CHAT)
        headers = {**JSON, "authorization": f"Bearer {KEY}", "content-length": str(BODY_BYTES)}
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(b"x" * (BODY_BYTES - 1))
        yield
        return
    yield


def resident_mib(gateway: Gateway) -> float:
    """Memory that the kernel cannot take back from Envoy, as it can its program."""
    for line in Path(f"/proc/{gateway.process.pid}/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no RssAnon")


def test_bodies_that_take_all_memory_are_refused_and_running_streams_go_on(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    """The kernel would otherwise end the container, and with it everybody's streams."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the gateway's memory was NOT tested: only /proc tells it")
    plan = plan_for(
        [engines_of("alpha", engine.port, most=4)],
        memory_mib=Decided(MEMORY_MIB, "as little as shows it"),
        max_request_body_bytes=Decided(BODY_BYTES, "as much as shows it"),
        max_request_seconds=Decided(30, "longer than the stream"),
    )
    slow = {"model": "alpha", "simulate": {"events": 100, "gap_seconds": 0.1}}
    with running(tmp_path, plan) as gateway, contextlib.ExitStack() as many:
        with gateway.streaming(slow) as stream:
            replies = []
            for _ in range(3 * MEMORY_MIB // 8):
                many.enter_context(unfinished(gateway))
                replies.append(gateway.post({"model": "alpha"}))
                assert resident_mib(gateway) < MEMORY_MIB
            assert gateway.plain("GET", "/alive").status == 200
        refused = [reply for reply in replies if reply.status != 200]
        assert {refusal(reply) for reply in refused} == {(503, "gateway_full")}
        assert {reply.headers["retry-after"] for reply in refused} == {"5"}
        assert not stream.broken
        many.close()
        until(lambda: gateway.post({"model": "alpha"}).status == 200, what="room again")
