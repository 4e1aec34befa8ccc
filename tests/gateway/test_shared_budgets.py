"""What budgets guarantee when gateways share them, and when what they share is away.

The bounds are those of docs/decisions/token-budgets.md; the service and its store are real.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.toolchain import Toolbox

from .budgets import (
    BODY,
    BudgetService,
    ask,
    budget_service,
    early_in_a_minute,
    failures,
    gateways,
    plan_with,
)
from .harness import OTHER_KEY, Gateway
from .simulated import Running
from .simulated import engine as simulated

pytestmark = [pytest.mark.envoy, pytest.mark.cluster]

UNSTATED = 64
"""What ``engines_of`` lets an answer reserve whose caller states no limit."""


@pytest.fixture
def model() -> Iterator[Running]:
    quick = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=10)
    with simulated(quick) as engine:
        yield engine


@pytest.fixture
def service(toolbox: Toolbox, tmp_path: Path) -> BudgetService:
    return budget_service(toolbox, tmp_path / "budgets")


def until_refused(both: list[Gateway], callers: int, **fields: Any) -> int:
    """How many requests are let in when callers at both gateways go on until one is refused."""
    admitted: list[int] = []

    def call(number: int) -> None:
        gateway = both[number % len(both)]
        while gateway.post({**BODY, **fields}).status == 200:
            admitted.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return len(admitted)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streams"])
def test_use_beyond_reservations_stays_within_the_documented_bound(
    model: Running, service: BudgetService, tmp_path: Path, stream: bool
) -> None:
    """Each reserves less than it uses; N at a time exceed the budget by N x (used - reserved)."""
    model.settings(output_tokens=300)
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, tokens=6000)
    prompt, callers = math.ceil(len(json.dumps({**BODY, "stream": stream})) / 4), 4
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        used = model.chat("hi").json["usage"]["total_tokens"]
        reserved = UNSTATED + prompt
        assert used > reserved
        total = used * until_refused(both, callers, stream=stream)
    assert 3000 < total <= 6000 + callers * (used - reserved), total


def test_a_tenant_with_a_default_does_not_exceed_its_budget(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """The same callers, who state nothing: their answers end where the reservation does."""
    model.settings(output_tokens=300)
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, tokens=6000)
    search, support = kept.tenants
    kept = replace(kept, tenants=(replace(search, default_max_tokens=100), support))
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        usage = both[0].post(BODY).json["usage"]
        assert usage["completion_tokens"] == 100
        total = usage["total_tokens"] * (1 + until_refused(both, 4))
    assert 3000 < total <= 6000, total


def test_a_request_budget_is_exact_over_two_gateways(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, requests=60)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        assert 52 <= until_refused(both, 6) <= 60
        assert {ask(gateway)[0] for gateway in both} == {429}


@pytest.mark.parametrize("what", ["service", "store"])
def test_in_the_minute_of_a_failure_twice_the_budget_is_never_reached(
    model: Running, service: BudgetService, tmp_path: Path, what: str
) -> None:
    """Portions that were taken before come on top of the shares; operators see the failure."""
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, requests=40)
    program = service.service if what == "service" else service.store
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        before = sum(ask(both[number % 2])[0] == 200 for number in range(10))
        assert before == 10
        assert [failures(gateway) for gateway in both] == [0, 0]
        service.supervisor.stop(program.name)
        total = before + until_refused(both, 4)
        assert 20 < total < 80, total
        assert all(failures(gateway) >= 1 for gateway in both)


@pytest.mark.parametrize(
    ("what", "reason"),
    [("service", "(it was not reached: "), ("store", "(it answered 400, as it does while ")],
    ids=["service", "store"],
)
def test_a_failure_is_said_once_in_the_log_with_its_reason(
    model: Running, service: BudgetService, tmp_path: Path, what: str, reason: str
) -> None:
    """Two tenants meet it, each in its turn; what else is logged stays as it is."""
    early_in_a_minute()
    kept = both_limited(plan_with(model, service, requests=1000))
    program = service.service if what == "service" else service.store
    with service.keeping(kept), gateways(tmp_path, kept, 1) as (gateway,):
        service.supervisor.stop(program.name)
        assert ask(gateway)[0] == 200
        time.sleep(service.plan.down_seconds.value + 0.2)
        assert gateway.post(BODY, key=OTHER_KEY).status == 200
        assert failures(gateway) == 2
        (line,) = said(gateway)
        assert "cannot be asked" in line
        assert reason in line
        assert "keeps to its own share" in line


def test_the_end_of_a_failure_is_said_in_the_log(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = both_limited(plan_with(model, service, requests=1000))
    with service.keeping(kept), gateways(tmp_path, kept, 1) as (gateway,):
        service.supervisor.stop(service.service.name)
        assert ask(gateway)[0] == 200
        service.supervisor.start(service.service)
        time.sleep(service.plan.down_seconds.value + 0.2)
        assert gateway.post(BODY, key=OTHER_KEY).status == 200
        first, last = said(gateway)
        assert "cannot be asked" in first
        assert "answers again" in last


def test_a_service_that_answers_is_not_spoken_of(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    kept = both_limited(plan_with(model, service, requests=1000))
    with service.keeping(kept), gateways(tmp_path, kept, 1) as (gateway,):
        assert {ask(gateway)[0] for _ in range(3)} == {200}
        assert said(gateway) == []


def both_limited(plan: GatewayPlan) -> GatewayPlan:
    """The other tenant has the same budgets."""
    search, support = plan.tenants
    return replace(plan, tenants=(search, replace(search, name=support.name)))


def said(gateway: Gateway) -> list[str]:
    """What Envoy's own log has about budgets."""
    text = gateway.log.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if "budgets: " in line]


def test_a_tenant_without_a_budget_does_not_notice_a_failure(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    kept = plan_with(model, service, counters=2, requests=40)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        service.supervisor.stop(service.store.name)
        other = "key-of-support-0123456789abcdef"
        statuses = {gateway.post(BODY, key=other).status for gateway in both for _ in range(30)}
        assert statuses == {200}
        assert [failures(gateway) for gateway in both] == [0, 0]
