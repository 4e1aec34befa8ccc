"""What the gateway counts: tokens by tenant and way, refusals by reason."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import StaticAnswer, Step, Target, TenantPlan

from .budgets import BODY, budget, early_in_a_minute, limits
from .engine import SimulatedEngine
from .harness import (
    KEY,
    OTHER_KEY,
    Gateway,
    decided,
    engines_of,
    free_port,
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

Labels = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def model() -> Iterator[Running]:
    quick = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=10)
    with simulated(quick) as engine:
        yield engine


@pytest.fixture(scope="module")
def counting(
    model: Running, engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A model with a release, one with a single place, and a tenant with three requests."""
    trial, alpha = model_step("trial-1.5", rewrites=True), model_step("alpha")
    sentence = Step(kind="answer", name="alpha", rewrites=True)
    service = replace(limits(free_port(), 64), timeout_milliseconds=decided(250))
    plan = plan_for(
        [
            engines_of("alpha", model.port),
            engines_of("trial-1.5", model.port),
            engines_of("narrow", engine.port, most=1),
            engines_of("dead", free_port()),
        ],
        tenants=(
            TenantPlan(name="search", key_secrets=(), isolated=False),
            TenantPlan(
                name="support",
                key_secrets=(),
                isolated=False,
                restricted=True,
                models=("alpha",),
                requests=budget(3),
            ),
        ),
        answers=(StaticAnswer(model="alpha", text="Ask again in a minute."),),
        routes=(
            route_to("alpha", trial, alpha, name="release/trial-1.5", release="trial-1.5"),
            route_to("alpha", alpha, name="model/alpha/restricted", restricted=True),
            route_to("alpha", targets=(Target(steps=(alpha, sentence), weight=100),)),
            route_to("trial-1.5"),
            route_to(
                "narrow", model_step("narrow", rewrites=True), name="release/hop", release="hop"
            ),
            route_to("narrow"),
            route_to("dead"),
        ),
        rate_limit=service,
    )
    with running(tmp_path_factory.mktemp("counting"), plan) as gateway:
        yield gateway


def counted(gateway: Gateway, name: str) -> dict[Labels, float]:
    """Each series of one counter by its labels, without the filter that counts them all."""
    lines = gateway.plain("GET", "/stats/prometheus").body.decode().splitlines()
    series = rf'envoy_gateway_{name}\{{filter="admission",(.*)\}} (\S+)'
    found = [re.fullmatch(series, line) for line in lines]
    return {
        frozenset(re.findall(r'(\w+)="([^"]*)"', one[1])): float(one[2]) for one in found if one
    }


def labels(**names: str) -> Labels:
    return frozenset(names.items())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("headers", "route", "by"),
    [
        ({}, "model/alpha", "model/alpha"),
        ({"x-release": "trial-1.5"}, "release/trial-1_5", "model/trial-1_5"),
        ({"x-data-class": "restricted"}, "model/alpha/restricted", "model/alpha"),
    ],
    ids=["model", "release", "restricted"],
)
def test_tokens_are_counted_by_tenant_route_and_who_answered(
    counting: Gateway, headers: dict[str, str], route: str, by: str, stream: bool
) -> None:
    """So that a release on trial can be told from the model that it was asked for."""
    way = {"tenant": "search", "model": "alpha", "route": route, "by": by}
    series = [labels(**way, kind=kind) for kind in ("prompt", "completion")]
    before = counted(counting, "tokens")
    assert counting.post({**BODY, "stream": stream}, headers=headers).status == 200
    after = counted(counting, "tokens")
    assert after[series[1]] - before.get(series[1], 0) == 10
    assert after[series[0]] > before.get(series[0], 0)
    assert {one for one in after if after[one] != before.get(one, 0)} == set(series)


def grown(gateway: Gateway, before: dict[Labels, float]) -> dict[Labels, float]:
    after = counted(gateway, "refusals")
    return {one: after[one] - before.get(one, 0) for one in after if after[one] != before.get(one)}


def test_a_used_up_budget_is_counted_apart_from_a_full_model(counting: Gateway) -> None:
    """Both are 429; one is the tenant's affair, the other says that engines are missing."""
    early_in_a_minute(10)
    before = counted(counting, "refusals")
    replies = [counting.post(BODY, key=OTHER_KEY) for _ in range(5)]
    assert [reply.status for reply in replies] == [200] * 3 + [429] * 2
    assert refusal(replies[-1]) == (429, "requests_per_minute")
    wanted = labels(status="429", route="model/alpha/restricted", error_code="requests_per_minute")
    assert grown(counting, before) == {wanted: 2}


@pytest.mark.parametrize(
    ("headers", "route"),
    [({}, "model/narrow"), ({"x-release": "hop"}, "release/hop")],
    ids=["engine", "hop"],
)
def test_a_full_model_is_counted_as_one(
    counting: Gateway, engine: SimulatedEngine, headers: dict[str, str], route: str
) -> None:
    """Also where the limit is met behind a hop, which tells it to the caller's listener."""
    before = counted(counting, "refusals")
    body = {"model": "narrow", "simulate": {"delay_seconds": 1.5}}
    engine.received.clear()
    first = threading.Thread(target=counting.post, args=(body,), kwargs={"headers": headers})
    first.start()
    until(lambda: len(engine.received) == 1, what="the first request at the engine")
    reply = counting.post(body, headers=headers)
    first.join(20)
    assert refusal(reply) == (429, "queue_full")
    assert "x-llm-refusal" not in reply.headers
    assert grown(counting, before) == {
        labels(status="429", route=route, error_code="queue_full"): 1
    }


@pytest.mark.parametrize(
    ("asked", "key", "status", "route", "code"),
    [
        ("dead", KEY, 503, "model/dead", "engine_unavailable"),
        ("dead", OTHER_KEY, 403, "model/dead", "model_not_allowed"),
        ("gone", KEY, 404, "model_not_found", "other"),
        ("alpha", "nobody", 401, "invalid_body", "other"),
    ],
)
def test_refusals_are_counted_by_status_route_and_code(
    counting: Gateway, asked: str, key: str, status: int, route: str, code: str
) -> None:
    before = counted(counting, "refusals")
    assert counting.post({"model": asked}, key=key).status == status
    assert grown(counting, before) == {labels(status=str(status), route=route, error_code=code): 1}


def test_callers_cannot_make_a_series_of_their_own(counting: Gateway) -> None:
    """Every label is of the plan or of a short list."""
    for number in range(5):
        odd = f"odd-{number}"
        headers = {"x-release": odd, "x-data-class": odd, "x-llm-refusal": odd, "x-served-by": odd}
        counting.post({"model": odd}, headers=headers)
        counting.post(BODY, headers=headers)
        counting.request("GET", f"/{odd}", None, {"authorization": f"Bearer {KEY}", **headers})
    series = [*counted(counting, "refusals"), *counted(counting, "tokens")]
    assert series
    assert not [one for one in series for _, value in one if "odd" in value]


def test_an_engine_cannot_say_that_somebody_else_answered(counting: Gateway) -> None:
    """Callers read it there, and a series would come with every name."""
    body = {"model": "narrow", "simulate": {"headers": {"x-served-by": "model/odd"}}}
    reply = counting.post(body)
    assert reply.status == 200
    assert "x-served-by" not in reply.headers
    by_hop = counting.post(body, headers={"x-release": "hop"})
    assert by_hop.headers["x-served-by"] == "model/narrow"
    assert "odd" not in str(counted(counting, "served"))


def test_a_name_that_is_a_label_s_as_well_is_counted_like_any_other(
    model: Running, tmp_path: Path
) -> None:
    """Envoy finds labels by their names in one text, where people's own names stand as well."""
    words = ("kind", "route", "by", "error_code", "code", "model", "status", "tenant")
    pairs = list(zip(words, words[1:] + words[:1], strict=True))
    keys = {word: [f"the-key-of-{word}-0123456789"] for word in words}
    plan = plan_for(
        [engines_of(name, model.port) for name in words],
        tenants=tuple(TenantPlan(name=word, key_secrets=(), isolated=False) for word in words),
        routes=tuple(
            route_to(asked, model_step(by, rewrites=True), name=asked) for asked, by in pairs
        ),
    )
    with running(tmp_path, plan) as gateway:
        gateway.publish_keys(keys)
        until(lambda: gateway.post({}, key=keys["kind"][0]).status != 401, what="the keys")
        for tenant, asked in itertools.product(words, words):
            assert gateway.post({**BODY, "model": asked}, key=keys[tenant][0]).status == 200
        tokens, served = counted(gateway, "tokens"), counted(gateway, "served")
    assert set(tokens) == {
        labels(tenant=tenant, model=asked, route=asked, by=f"model/{by}", kind=kind)
        for tenant, (asked, by), kind in itertools.product(words, pairs, ("prompt", "completion"))
    }
    assert served == {labels(model=asked, by=f"model/{by}"): len(words) for asked, by in pairs}
