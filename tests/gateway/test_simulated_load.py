"""Speed, queue, prefix cache and faults of the simulated engine."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.gateway.simulated_engine.engine import Engine
from tokenworks.gateway.simulated_engine.settings import Settings

from .simulated import CHAT, LOOPBACK, QUICK, Reply, Running, engine

JSON = "application/json"


@pytest.fixture
def running() -> Iterator[Running]:
    with engine() as it:
        yield it


def until(condition: Callable[[], bool], seconds: float = 8.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


# --- Speed and queue -----------------------------------------------------------------------------


def test_tokens_come_no_sooner_than_they_are_set_to() -> None:
    with engine(Settings(first_token_seconds=0.2, inter_token_seconds=0.1, output_tokens=3)) as it:
        begun = time.monotonic()
        it.chat(stream=True)
        streamed = time.monotonic() - begun
        it.chat()
        whole = time.monotonic() - begun - streamed
        assert min(streamed, whole) >= 0.4
        assert it.metric("trtllm_time_to_first_token_seconds_count") == 2
        assert it.metric("trtllm_time_to_first_token_seconds_sum") >= 0.4


def begin(running: Running, **fields: Any) -> http.client.HTTPConnection:
    """A request whose answer is not read yet."""
    connection = http.client.HTTPConnection(LOOPBACK, running.port, timeout=10)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    connection.request("POST", CHAT, json.dumps(body), {"content-type": JSON})
    return connection


def test_who_does_not_fit_into_the_batch_waits_and_whoever_leaves_makes_room() -> None:
    with engine(Settings(first_token_seconds=60, max_batch_size=1)) as it:
        first = begin(it)
        until(lambda: it.state()["running"] == 1)
        second, third = begin(it), begin(it)
        until(lambda: it.state()["waiting"] == 2)
        assert it.metric("trtllm_num_requests_running") == 1
        assert it.metric("trtllm_num_requests_waiting") == 2
        second.close()
        until(lambda: it.state()["waiting"] == 1)
        it.settings(first_token_seconds=0)
        first.close()
        assert third.getresponse().status == 200
        third.close()
        assert it.state()["aborted"] == 2
        assert (it.state()["running"], it.metric("trtllm_kv_cache_used_blocks")) == (0, 0)


def test_a_larger_batch_lets_waiting_requests_in() -> None:
    with engine(Settings(first_token_seconds=60, max_batch_size=1)) as it:
        held = [begin(it), begin(it)]
        until(lambda: it.state()["waiting"] == 1)
        it.settings(max_batch_size=2)
        until(lambda: it.state()["running"] == 2)
        for connection in held:
            connection.close()


def test_the_probe_that_generates_waits_in_the_same_queue() -> None:
    with engine(Settings(first_token_seconds=60, max_batch_size=1)) as it:
        held = begin(it)
        until(lambda: it.state()["running"] == 1)
        probe = threading.Thread(target=it.request, args=("GET", "/health_generate"))
        probe.start()
        until(lambda: it.state()["waiting"] == 1)
        assert it.request("GET", "/health").status == 200
        it.settings(first_token_seconds=0)
        held.close()
        probe.join(10)
        assert not probe.is_alive()


# --- The prefix cache ----------------------------------------------------------------------------

LONG = "the same beginning of every request " * 40


def cached(reply: Reply) -> int:
    tokens: int = reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


def test_a_repeated_prompt_is_cached_for_its_own_salt_only(running: Running) -> None:
    assert cached(running.chat(LONG, cache_salt="search")) == 0
    assert cached(running.chat(LONG, cache_salt="search")) >= 256
    assert cached(running.chat(LONG, cache_salt="support")) == 0
    assert cached(running.chat(LONG)) == 0


def test_a_shared_beginning_is_cached_in_whole_blocks(running: Running) -> None:
    running.chat(LONG + "first")
    hit = cached(running.chat(LONG + "third " * 50))
    assert hit > 0
    assert hit % 32 == 0
    assert cached(running.chat("x" + LONG)) == 0


def test_an_engine_that_ignores_salts_leaks_between_tenants() -> None:
    with engine(Settings(first_token_seconds=0, uses_cache_salt=False)) as it:
        it.chat(LONG, cache_salt="search")
        assert cached(it.chat(LONG, cache_salt="support")) > 0


def test_the_least_used_blocks_go_first(running: Running) -> None:
    running.settings(kv_cache_blocks=20)
    running.chat(LONG)
    running.chat("other words " * 200)
    assert cached(running.chat(LONG)) == 0
    assert running.metric("trtllm_kv_cache_missed_blocks_total") > 0


def test_what_is_cached_costs_no_prefill() -> None:
    with engine(Settings(first_token_seconds=0, prefill_seconds_per_1000_tokens=1.0)) as it:
        it.chat(LONG)
        first = it.metric("trtllm_request_prefill_time_seconds_sum")
        it.chat(LONG)
        second = it.metric("trtllm_request_prefill_time_seconds_sum") - first
        assert first >= 0.36
        assert second < first


# --- Faults --------------------------------------------------------------------------------------


def test_an_engine_may_say_it_is_unwell_and_serve(running: Running) -> None:
    running.settings(healthy=False)
    assert running.request("GET", "/health").status == 503
    assert running.chat().status == 200


@pytest.mark.parametrize(("fault", "status"), [("unavailable", 503), ("error", 500)])
def test_a_failing_engine_fails_its_probe_too(running: Running, fault: str, status: int) -> None:
    running.settings(fault=fault)
    assert running.chat().status == status
    assert running.request("GET", "/health_generate").status == 500
    assert running.request("GET", "/health").status == 200
    running.settings(fault="none")
    assert running.chat().status == 200
    assert running.metric("trtllm_request_error_total") == 1


def test_a_reset_comes_before_any_answer(running: Running) -> None:
    running.settings(fault="reset")
    with pytest.raises(ConnectionResetError):
        running.chat()


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_answer_is_begun_and_not_ended(running: Running, stream: bool) -> None:
    running.settings(fault="cut", fault_after_tokens=2)
    with pytest.raises(http.client.IncompleteRead) as caught:
        running.chat(stream=stream)
    assert caught.value.partial.startswith(b"data: " if stream else b'{"id"')
    assert caught.value.partial.count(b'"content"') == (2 if stream else 1)


@pytest.mark.parametrize("fault", ["hang", "stall"])
def test_a_silent_engine_keeps_the_connection(running: Running, fault: str) -> None:
    running.settings(fault=fault)
    connection = begin(running, stream=True)
    connection.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        connection.getresponse().read()
    connection.close()
    until(lambda: running.state()["aborted"] == 1)


@given(st.integers(0, 100), st.integers(1, 60))
def test_a_share_of_requests_fails_evenly(percent: int, count: int) -> None:
    settings = QUICK.changed({"fault": "error", "fault_share": percent / 100})
    it = Engine.of("m", "m", settings)
    failed = sum(it.next_fault().value == "error" for _ in range(count))
    assert abs(failed - count * percent / 100) <= 1


def test_a_fault_may_meet_only_so_many(running: Running) -> None:
    running.settings(fault="error", fault_requests=2)
    assert [running.chat().status for _ in range(4)] == [500, 500, 200, 200]
