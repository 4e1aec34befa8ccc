"""What was used beyond a reservation is owed, and paid: nobody is locked out for good.

A service of our own keeps the budgets, whose minutes are short; the last test has the real one.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import GatewayPlan, RateLimitPlan, TenantPlan
from tokenworks.toolchain import Toolbox

from .budgets import BODY, MINUTE, ask, budget, budget_service, limits, plan_with
from .harness import Gateway, decided, engines_of, free_port, plan_for, refusal, running
from .simulated import LOOPBACK, Running
from .simulated import engine as simulated

pytestmark = pytest.mark.envoy

QUICK = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=10)
SHORT_MINUTE = 3
BUDGET = 500
REFUSED = (429, "tokens_per_minute")


@pytest.fixture
def model() -> Iterator[Running]:
    with simulated(QUICK) as engine:
        yield engine


@dataclass
class ShortMinutes:
    """Keeps budgets as the service does, in short minutes; what is refused counts as used."""

    seconds: int = SHORT_MINUTE
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    def take(self, tenant: str, kind: str, wanted: int) -> dict[str, Any]:
        window = int(time.time() / max(1, self.seconds))
        with self.lock:
            before = self.taken.get((tenant + kind, window), 0)
            self.taken[tenant + kind, window] = before + wanted
        left = BUDGET - before - wanted
        return {
            "code": "OK" if left >= 0 else "OVER_LIMIT",
            "currentLimit": {"requestsPerUnit": BUDGET, "unit": "MINUTE"},
            "limitRemaining": max(0, left),
            "durationUntilReset": f"{self.until_next()}s",
        }

    def until_next(self) -> int:
        """Whole seconds, like the service's own; none where minutes end before they are told of."""
        return int(self.seconds - time.time() % self.seconds) + 1 if self.seconds else 0

    def answer(self, question: bytes) -> bytes:
        statuses = []
        for descriptor in json.loads(question)["descriptors"]:
            tenant, kind = (entry["value"] for entry in descriptor["entries"])
            statuses.append(self.take(tenant, kind, int(descriptor["hitsAddend"])))
        return json.dumps({"statuses": statuses}).encode()


@contextlib.contextmanager
def keeping(service: ShortMinutes) -> Iterator[ShortMinutes]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = service.answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing: the test says what matters."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join(10)


def plan_of(model: Running, service: RateLimitPlan, **budgets: Any) -> GatewayPlan:
    tenant = TenantPlan(name="search", key_secrets=(), isolated=False, **budgets)
    return plan_for(
        [engines_of("alpha", model.port)],
        tenants=(tenant,),
        rate_limit=service,
        max_request_seconds=decided(20),
        stream_idle_seconds=decided(20),
    )


@pytest.fixture
def owing(model: Running, tmp_path: Path) -> Iterator[tuple[Running, Gateway]]:
    """Tenant ``search`` has 500 tokens in each short minute; its engine gives what it is told."""
    with keeping(ShortMinutes()) as service:
        plan = plan_of(model, limits(service.port, 64), tokens=budget(BUDGET))
        with running(tmp_path, plan) as gateway:
            yield model, gateway


def owe(model: Running, gateway: Gateway, tokens: int) -> None:
    """One answer of so many tokens, of which its request reserved about 80."""
    begin_a_short_minute()
    model.settings(output_tokens=tokens)
    assert ask(gateway)[0] == 200
    model.settings(output_tokens=10)


def begin_a_short_minute() -> None:
    """A second later than it does, since whole seconds are what gateways are told."""
    time.sleep(SHORT_MINUTE - time.time() % SHORT_MINUTE + 1.1)


def minutes_until_served(gateway: Gateway, **fields: Any) -> int:
    for number in range(1, 9):
        begin_a_short_minute()
        answer = ask(gateway, **fields)
        if answer[0] == 200:
            return number
        assert answer == REFUSED
    raise AssertionError("a tenant that owes is refused for ever")


@pytest.mark.parametrize(("used", "minutes"), [(400, 1), (900, 2), (1900, 4)])
def test_a_debt_of_some_minutes_is_paid_in_as_many(
    owing: tuple[Running, Gateway], used: int, minutes: int
) -> None:
    """500 a minute: 400 are within this one, 1,900 are those of this one and of three more."""
    model, gateway = owing
    owe(model, gateway, used)
    assert minutes_until_served(gateway, max_tokens=5) == minutes


def test_a_request_that_does_not_fit_beside_a_debt_waits_until_it_is_paid(
    owing: tuple[Running, Gateway],
) -> None:
    """About 400 of the next minute's 500 are owed; the one after that has them all."""
    model, gateway = owing
    owe(model, gateway, BUDGET)
    assert minutes_until_served(gateway, max_tokens=400) == 2


def test_a_refusal_says_when_a_debt_is_paid(owing: tuple[Running, Gateway]) -> None:
    model, gateway = owing
    owe(model, gateway, 10 * BUDGET)
    reply = gateway.post({**BODY, "max_tokens": 5})
    assert refusal(reply) == REFUSED
    seconds = int(reply.headers["retry-after"])
    # All that is left of this minute was used; nine more are owed.
    assert 8 * MINUTE < seconds <= 10 * MINUTE
    assert f" in {seconds} s" in reply.json["error"]["message"]


def test_a_debt_is_paid_and_not_forgiven(owing: tuple[Running, Gateway]) -> None:
    """Each answer takes two minutes' budget, so one in two minutes is served."""
    model, gateway = owing
    begin_a_short_minute()
    model.settings(output_tokens=1000)
    began, answers = time.monotonic(), []
    while time.monotonic() - began < 5 * SHORT_MINUTE:
        answers.append(ask(gateway)[0])
        time.sleep(0.1)
    assert set(answers) == {200, 429}
    assert 2 <= answers.count(200) <= 3


@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_the_budget_that_lacked_is_named_after_the_last_try_too(
    model: Running, tmp_path: Path, kind: str
) -> None:
    """Minutes that end before the answer is there: nothing is ever held."""
    with keeping(ShortMinutes(seconds=0)) as service:
        plan = plan_of(model, limits(service.port, 64), **{kind: budget(BUDGET)})
        with running(tmp_path, plan) as gateway:
            assert ask(gateway) == (429, f"{kind}_per_minute")


@pytest.mark.cluster
def test_a_debt_is_paid_in_the_next_minutes_with_the_service_and_without(
    model: Running, toolbox: Toolbox, tmp_path: Path
) -> None:
    """Twice the budget is used in the first minute; a clock's minute later nothing is owed."""
    service = budget_service(toolbox, tmp_path / "budgets")
    kept = plan_with(model, service, tokens=BUDGET)
    away = replace(
        kept,
        rate_limit=replace(service.plan, port=free_port()),
        tls_port=free_port(),
        admin_port=free_port(),
        readiness_port=free_port(),
    )
    with (
        service.keeping(kept),
        running(tmp_path / "with", kept) as first,
        running(tmp_path / "without", away) as second,
    ):
        wait_for_the_end_of_a_minute(seconds=6)
        model.settings(output_tokens=2 * BUDGET - 20)
        assert [ask(gateway)[0] for gateway in (first, second)] == [200, 200]
        model.settings(output_tokens=10)
        assert [ask(gateway) for gateway in (first, second)] == [REFUSED] * 2
        wait_for_the_next_minute()
        # About 480 of 500 are still owed, so this does not fit in; the rest of the debt is paid.
        assert [ask(gateway, max_tokens=50) for gateway in (first, second)] == [REFUSED] * 2
        wait_for_the_next_minute()
        assert [ask(gateway, max_tokens=50)[0] for gateway in (first, second)] == [200, 200]


def wait_for_the_next_minute() -> None:
    time.sleep(MINUTE - time.time() % MINUTE + 0.5)


def wait_for_the_end_of_a_minute(seconds: int) -> None:
    past = time.time() % MINUTE
    if past > MINUTE - seconds:
        past -= MINUTE
    time.sleep(max(0.0, MINUTE - seconds - past))
