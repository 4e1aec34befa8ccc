"""Budgets of tokens and requests: kept by all gateways together, without asking for each request.

The service and its store are the real ones; the engine is simulated.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import GatewayPlan, TenantPlan
from tokenworks.toolchain import Toolbox

from .budgets import BudgetService, budget, budget_service, early_in_a_minute
from .harness import (
    CHAT,
    JSON,
    KEY,
    OTHER_KEY,
    Gateway,
    decided,
    engines_of,
    free_port,
    plan_for,
    refusal,
    running,
    until,
)
from .simulated import Running
from .simulated import engine as simulated

pytestmark = [pytest.mark.envoy, pytest.mark.cluster]

QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=10)


@pytest.fixture
def model() -> Iterator[Running]:
    with simulated(QUICK) as engine:
        yield engine


@pytest.fixture
def service(toolbox: Toolbox, tmp_path: Path) -> BudgetService:
    return budget_service(toolbox, tmp_path / "budgets")


def plan(model: Running, service: BudgetService, counters: int = 1, **limits: int) -> GatewayPlan:
    """Tenant ``search`` with the limits; ``support`` has none."""
    budgets = {kind: budget(limit, counters) for kind, limit in limits.items()}
    return plan_for(
        [engines_of("alpha", model.port)],
        tenants=(
            TenantPlan(name="search", key_secrets=(), **budgets),  # type: ignore[arg-type]
            TenantPlan(name="support", key_secrets=()),
        ),
        rate_limit=service.plan,
        counters=decided(counters),
        max_request_seconds=decided(20),
        stream_idle_seconds=decided(20),
    )


@contextlib.contextmanager
def gateways(root: Path, plan: GatewayPlan, count: int) -> Iterator[list[Gateway]]:
    """Gateways of one plan, each on ports of its own."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                running(
                    root / f"gateway-{number}",
                    replace(
                        plan,
                        tls_port=free_port(),
                        admin_port=free_port(),
                        readiness_port=free_port(),
                    ),
                )
            )
            for number in range(count)
        ]


BODY: dict[str, Any] = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}


def ask(gateway: Gateway, **fields: Any) -> tuple[int, str]:
    reply = gateway.post({**BODY, **fields})
    return (reply.status, "") if reply.status == 200 else refusal(reply)


def test_what_a_caller_asks_for_is_reserved_before_it_is_let_in(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    model.settings(first_token_seconds=2.0)
    early_in_a_minute()
    kept = plan(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        answers: list[tuple[int, str]] = []
        threads = [
            threading.Thread(target=lambda: answers.append(ask(gateway, max_tokens=400)))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(answers) == [(200, ""), (200, ""), *[(429, "tokens_per_minute")] * 3]


def test_a_smaller_request_still_fits_after_a_larger_was_refused(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    model.settings(output_tokens=400)
    early_in_a_minute()
    kept = plan(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        assert [ask(gateway, max_tokens=400, ignore_eos=True)[0] for _ in range(2)] == [200, 200]
        assert ask(gateway, max_tokens=400) == (429, "tokens_per_minute")
        assert ask(gateway, max_tokens=50)[0] == 200


def test_a_refusal_says_when_the_next_minute_begins(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = plan(model, service, requests=3)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        replies = [gateway.post(BODY) for _ in range(5)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
        assert refusal(replies[-1]) == (429, "requests_per_minute")
        assert 1 <= int(replies[-1].headers["retry-after"]) <= 60
        assert {gateway.post(BODY, key=OTHER_KEY).status for _ in range(9)} == {200}


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_reserved_and_not_used_is_given_back(
    model: Running, service: BudgetService, tmp_path: Path, stream: bool
) -> None:
    """Each reserves about 424 of 1,000 tokens and uses fewer than 30."""
    early_in_a_minute()
    kept = plan(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        answers = [ask(gateway, max_tokens=400, stream=stream) for _ in range(10)]
        assert answers == [(200, "")] * 10


def test_what_was_used_beyond_the_reservation_is_owed(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """A request that states no limit reserves 64 tokens here; each takes 1,000."""
    model.settings(output_tokens=1000)
    early_in_a_minute()
    kept = plan(model, service, tokens=2000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        answers = [ask(gateway) for _ in range(4)]
        assert answers == [(200, "")] * 2 + [(429, "tokens_per_minute")] * 2


def test_a_caller_who_hangs_up_pays(model: Running, service: BudgetService, tmp_path: Path) -> None:
    """For at least what it was sent: 200 tokens and more of each stream, out of 1,000 a minute."""
    model.settings(output_tokens=3000, inter_token_seconds=0.001)
    early_in_a_minute()
    kept = plan(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        statuses = [hang_up_after(gateway, 200) for _ in range(6)]
        refused = statuses.count(429)
        assert statuses[0] == 200
        assert refused >= 1
        assert statuses == [200] * (6 - refused) + [429] * refused


def hang_up_after(gateway: Gateway, events: int) -> int:
    with contextlib.closing(gateway.connection()) as connection:
        body = json.dumps({**BODY, "stream": True})
        connection.request("POST", CHAT, body, {**JSON, "authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        for _ in range(2 * events if response.status == 200 else 0):
            response.readline()
        return response.status


def test_a_request_above_the_whole_budget_is_told_so(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """It must not be told to come back."""
    kept = plan(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        assert ask(gateway, max_tokens=2000) == (400, "request_exceeds_budget")
        assert ask(gateway, max_tokens=400, n=3) == (400, "request_exceeds_budget")
        assert ask(gateway, max_completion_tokens=2000) == (400, "request_exceeds_budget")


def test_two_gateways_never_hand_out_more_than_one_budget(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """Many callers at once at both, each of whom uses all that it asked for."""
    model.settings(first_token_seconds=0.5)
    early_in_a_minute()
    kept = plan(model, service, counters=2, tokens=10_000)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        used: list[int] = []

        def caller(number: int) -> None:
            wanted = 100 + 37 * (number % 11)
            reply = both[number % 2].post({**BODY, "max_tokens": wanted, "ignore_eos": True})
            if reply.status == 200:
                used.append(reply.json["usage"]["total_tokens"])
            else:
                assert refusal(reply) == (429, "tokens_per_minute")

        threads = [threading.Thread(target=caller, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(used) < 60
    assert 7_000 < sum(used) <= 10_000, sum(used)


def test_most_requests_ask_nobody(model: Running, service: BudgetService, tmp_path: Path) -> None:
    early_in_a_minute()
    kept = plan(model, service, tokens=1_000_000, requests=10_000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        for _ in range(200):
            assert ask(gateway, max_tokens=10)[0] == 200
        text = gateway.plain("GET", "/stats/prometheus").body.decode()
        asked = re.search(
            r'envoy_cluster_upstream_rq_total\{envoy_cluster_name="rate_limit"\} (\d+)', text
        )
        assert asked
        assert 1 <= int(asked[1]) <= 4


@pytest.mark.parametrize("what", ["service", "store"])
def test_without_the_service_each_gateway_keeps_to_its_share(
    model: Running, service: BudgetService, tmp_path: Path, what: str
) -> None:
    """Neither open nor closed: half of twelve requests each, and operators can see it."""
    early_in_a_minute()
    kept = plan(model, service, counters=2, requests=12)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        service.supervisor.stop(service.service.name if what == "service" else service.store.name)
        statuses = [[ask(gateway)[0] for _ in range(9)] for gateway in both]
        assert statuses == [[200] * 6 + [429] * 3] * 2
        for gateway in both:
            until(lambda g=gateway: failures(g) >= 1, what="the counter of failures")  # type: ignore[misc]


def failures(gateway: Gateway) -> float:
    text = gateway.plain("GET", "/stats/prometheus").body.decode()
    lines = [line for line in text.splitlines() if "budget_service_failures{" in line]
    return sum(float(line.split()[-1]) for line in lines)


def test_a_budget_counts_on_when_the_service_is_back(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = plan(model, service, counters=2, requests=100)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as (first, second):
        service.supervisor.stop(service.service.name)
        assert ask(first)[0] == 200
        assert failures(first) == 1
        service.supervisor.start(service.service)
        assert ask(second)[0] == 200
        assert failures(second) == 0


def test_rights_and_budgets_change_without_cutting_a_stream(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    model.settings(output_tokens=80, inter_token_seconds=0.05)
    early_in_a_minute()
    kept = plan(model, service, requests=100)
    search, support = kept.tenants
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        with gateway.streaming(BODY) as stream:
            none = replace(kept, tenants=(replace(search, models=("beta",)), support))
            gateway.config.publish(gateway.files(replace(gateway.plan, tenants=none.tenants)))
            refused = (403, "model_not_allowed")
            until(lambda: ask(gateway, max_tokens=1) == refused, what="the new rights")
        assert not stream.broken
