"""Engines that break, hang or only look well, and what a caller sees of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import TenantPlan

from .harness import (
    KEY,
    KEYS,
    OTHER_KEY,
    Gateway,
    Stream,
    engines_of,
    model_step,
    plan_for,
    refusal,
    route_to,
    running,
    until,
)
from .simulated import Running
from .simulated import engine as simulated

pytestmark = pytest.mark.envoy

QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=4)
BODY: dict[str, Any] = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}
SMALL = model_step("small", rewrites=True)


@pytest.fixture
def alpha() -> Iterator[Running]:
    with simulated(QUICK, "alpha-0") as engine:
        yield engine


@pytest.fixture
def small() -> Iterator[Running]:
    with simulated(QUICK, "small-0") as engine:
        yield engine


@pytest.fixture
def gateway(alpha: Running, small: Running, tmp_path: Path) -> Iterator[Gateway]:
    models = [engines_of("alpha", alpha.port, most=2), engines_of("small", small.port)]
    alone = route_to("small")
    plan = plan_for(models, routes=(route_to("alpha", model_step("alpha"), SMALL), alone))
    with running(tmp_path, plan) as gateway:
        yield gateway


def served_by(gateway: Gateway) -> str | None:
    reply = gateway.post(BODY)
    assert reply.status == 200, reply.body
    return reply.headers.get("x-served-by")


def asked(engine: Running) -> int:
    """Requests for tokens by callers; probes are none."""
    return sum(1 for one in engine.requests() if one["path"].startswith("/v1/"))


def test_a_generation_that_may_have_begun_is_not_begun_again(
    gateway: Gateway, alpha: Running, small: Running
) -> None:
    """By default a proxy sends it three times, and three GPUs work for one caller."""
    alpha.settings(fault="reset", fault_requests=1)
    reply = gateway.post(BODY)
    assert refusal(reply) == (503, "engine_unavailable")
    assert (asked(alpha), asked(small)) == (1, 0)


def test_an_engine_that_says_503_passes_its_request_on(
    gateway: Gateway, alpha: Running, small: Running
) -> None:
    """It is asked twice, since a step could have another engine that takes it."""
    alpha.settings(fault="unavailable")
    assert served_by(gateway) == "model/small"
    assert (asked(alpha), asked(small)) == (2, 1)


def test_an_engine_whose_inference_fails_gets_no_more_requests_though_it_says_it_is_well(
    gateway: Gateway, alpha: Running
) -> None:
    """A process that answers /health with a broken GPU: only a real inference shows it."""
    alpha.settings(fault="error")
    assert alpha.request("GET", "/health").status == 200
    until(lambda: served_by_or_error(gateway) == "model/small", what="the probe's verdict")
    before = asked(alpha)
    assert [served_by(gateway) for _ in range(5)] == ["model/small"] * 5
    assert asked(alpha) == before
    alpha.settings(fault="none")
    until(lambda: served_by(gateway) is None, what="the engine is back")


def served_by_or_error(gateway: Gateway) -> str | None:
    reply = gateway.post(BODY)
    return reply.headers.get("x-served-by") if reply.status == 200 else str(reply.status)


def test_an_engine_that_is_slow_but_works_stays(small: Running, tmp_path: Path) -> None:
    """Probes queue behind callers; with a time limit of a second this would be no engine."""
    slow = Settings(first_token_seconds=1.5, output_tokens=2)
    with simulated(slow) as alpha:
        models = [engines_of("alpha", alpha.port), engines_of("small", small.port)]
        plan = plan_for(models, routes=(route_to("alpha", model_step("alpha"), SMALL),))
        with running(tmp_path, plan) as gateway:
            until(lambda: served_by(gateway) is None, what="the first probe", seconds=10)
            assert [served_by(gateway) for _ in range(3)] == [None] * 3


def test_a_full_model_says_so_and_does_not_fall_back(
    gateway: Gateway, alpha: Running, small: Running
) -> None:
    alpha.settings(first_token_seconds=1.0)
    replies: list[tuple[int, str]] = []

    def call() -> None:
        reply = gateway.post(BODY)
        replies.append((200, "") if reply.status == 200 else refusal(reply))

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(replies) == [(200, "")] * 2 + [(429, "queue_full")] * 4
    assert asked(small) == 0


def test_a_stream_that_is_cut_looks_cut_and_is_not_begun_again(
    gateway: Gateway, alpha: Running, small: Running
) -> None:
    alpha.settings(fault="cut", fault_after_tokens=2)
    stream = Stream()
    gateway.stream(BODY, stream)
    assert stream.broken
    assert stream.events
    assert asked(small) == 0


@pytest.mark.parametrize("shared", [True, False], ids=["one tenant", "two tenants"])
def test_cached_prefixes_serve_their_own_tenant_alone(
    alpha: Running, tmp_path: Path, shared: bool
) -> None:
    """An engine that is asked the same twice has it cached, unless somebody else had asked."""
    tenants = tuple(TenantPlan(name=name, key_secrets=()) for name in KEYS)
    plan = plan_for([engines_of("alpha", alpha.port)], tenants=tenants)
    long = {**BODY, "messages": [{"role": "user", "content": "the same question " * 200}]}
    with running(tmp_path, plan) as gateway:
        gateway.post(long, key=KEY)
        usage = gateway.post(long, key=KEY if shared else OTHER_KEY).json["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert (cached > 0) == shared
