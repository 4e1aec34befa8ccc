"""What a request reserves where its routes lead elsewhere: longer models, APIs, fixed answers."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import (
    GatewayRoute,
    ManagedApi,
    RateLimitPlan,
    Shadow,
    StaticAnswer,
    Step,
    Target,
    TenantPlan,
)

from .budgets import BODY, budget, early_in_a_minute, limits
from .harness import (
    decided,
    engines_of,
    free_port,
    model_step,
    plan_for,
    refusal,
    route_to,
    running,
)
from .simulated import CHAT, COMPLETIONS, Reply, Running
from .simulated import engine as simulated

pytestmark = pytest.mark.envoy

QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=3)
ASKED, LONGER = 1000, 20_000
"""The longest sequence of the model that is asked for, and of the one that answers, in tokens."""
ALPHA, BIG = model_step("alpha"), model_step("big", rewrites=True)
API = Step(kind="api", name="cloud", rewrites=True)
LONG: dict[str, Any] = {**BODY, "messages": [{"role": "user", "content": "word " * 11_000}]}


@pytest.fixture(scope="module")
def engine() -> Iterator[Running]:
    with simulated(QUICK) as running_engine:
        yield running_engine


def away() -> RateLimitPlan:
    """No service, so the one gateway keeps to its share: the whole budget."""
    service = limits(free_port(), 64)
    return replace(service, timeout_milliseconds=decided(250), down_seconds=decided(1))


def plan_of(engine: Running, *routes: GatewayRoute, tokens: int, alpha: int | None = None) -> Any:
    tenant = TenantPlan(
        name="search",
        key_secrets=(),
        isolated=False,
        tokens=budget(tokens),
        default_max_tokens=7,
    )
    api = ManagedApi(
        name="cloud",
        host="localhost",
        port=free_port(),
        base_path="/v1",
        model="cloud-model",
        credential_secret="key-cloud",  # noqa: S106  (the name of one)
        max_concurrent_requests=8,
    )
    return plan_for(
        [
            engines_of("alpha", alpha or engine.port, longest_tokens=ASKED),
            engines_of("big", engine.port, longest_tokens=LONGER),
        ],
        apis=(api,),
        answers=(StaticAnswer(model="alpha", text="Ask again in a minute."),),
        tenants=(tenant,),
        routes=(*routes, route_to("big")),
        rate_limit=away(),
        max_request_seconds=decided(20),
        stream_idle_seconds=decided(20),
    )


def by_rule(step: Step) -> tuple[GatewayRoute, ...]:
    return route_to("alpha", step, name="rule/long", prompt_bytes=(8000, 1 << 40)), route_to(
        "alpha"
    )


BY_WEIGHT = route_to(
    "alpha", targets=(Target(steps=(ALPHA,), weight=1), Target(steps=(BIG, ALPHA), weight=99))
)


@pytest.mark.parametrize(
    ("routes", "gone"),
    [(by_rule(BIG), False), ((route_to("alpha", ALPHA, BIG),), True)],
    ids=["rule", "fallback"],
)
def test_a_budget_holds_where_a_longer_model_answers(
    engine: Running, tmp_path: Path, routes: tuple[GatewayRoute, ...], gone: bool
) -> None:
    """Five prompts of 13,750 tokens at once; the budget is for two of them."""
    plan = plan_of(engine, *routes, tokens=30_000, alpha=free_port() if gone else None)
    early_in_a_minute(20)
    with running(tmp_path, plan) as gateway:
        engine.settings(first_token_seconds=1.5)
        replies: list[Reply] = []
        threads = [
            threading.Thread(target=lambda: replies.append(gateway.post(LONG))) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        engine.settings(first_token_seconds=0.0)
    used = [reply.json["usage"]["total_tokens"] for reply in replies if reply.status == 200]
    assert len(used) == 2
    assert 20_000 < sum(used) <= 30_000
    assert {refusal(reply) for reply in replies if reply.status != 200} == {
        (429, "tokens_per_minute")
    }


@pytest.mark.parametrize(
    ("routes", "most"),
    [
        ((route_to("alpha"),), ASKED),
        (
            (route_to("alpha", shadow=Shadow(model="big", percent=1, max_concurrent_requests=1)),),
            ASKED,
        ),
        ((route_to("alpha", ALPHA, Step(kind="answer", name="alpha", rewrites=True)),), ASKED),
        (by_rule(BIG), LONGER),
        ((route_to("alpha", ALPHA, BIG),), LONGER),
        ((route_to("alpha", BIG, name="release/big", release="big"), route_to("alpha")), LONGER),
        ((BY_WEIGHT,), LONGER),
        (by_rule(API), None),
        (
            (route_to("alpha", ALPHA, API, restricted=False), route_to("alpha", restricted=True)),
            None,
        ),
    ],
    ids=["alone", "shadow", "sentence", "rule", "fallback", "release", "share", "api", "api last"],
)
@pytest.mark.parametrize("answers", [1, 3])
def test_as_much_is_reserved_as_the_longest_place_can_use(
    engine: Running,
    tmp_path: Path,
    routes: tuple[GatewayRoute, ...],
    most: int | None,
    answers: int,
) -> None:
    """Told where the budget is a token less; how long an answer of an API can be is not known."""
    body = {**BODY, "max_tokens": 50_000, "n": answers}
    stated = math.ceil(len(json.dumps(body)) / 4) + answers * 50_000
    need = stated if most is None else min(stated, most * answers)
    plan = plan_of(engine, *routes, tokens=need - 1)
    with running(tmp_path, plan, credentials={"cloud": "sk-of-the-managed-api"}) as gateway:
        reply = gateway.post(body)
        assert refusal(reply) == (400, "request_exceeds_budget")
        assert f"may use {need} tokens" in reply.json["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_fixed_answer_costs_nothing(
    engine: Running, tmp_path: Path, stream: bool, path: str
) -> None:
    """Each reserves 800 of 2,000 tokens and uses none."""
    sentence = Step(kind="answer", name="alpha", rewrites=True)
    plan = plan_of(engine, route_to("alpha", ALPHA, sentence), tokens=2000, alpha=free_port())
    body: dict[str, Any] = {**BODY, "prompt": "hi", "max_tokens": 780, "stream": stream}
    early_in_a_minute(15)
    with running(tmp_path, plan) as gateway:
        replies = [gateway.post(body, path=path) for _ in range(6)]
        assert [reply.status for reply in replies] == [200] * 6
        asked = {"stream_options": {"include_usage": True}} if stream else {}
        last = gateway.post({**body, **asked}, path=path)
    used = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    if not stream:
        assert last.json["usage"] == used
        return
    sentence_alone, done = replies[0].events
    assert (len(sentence_alone["choices"]), done) == (1, "[DONE]")
    *_, usage, done = last.events
    assert (usage["choices"], usage["usage"], done) == ([], used, "[DONE]")
