"""Budgets of tokens and requests: kept by all gateways together, without asking for each request.

The service and its store are the real ones; the engine is simulated.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import threading
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
from .harness import JSON, KEY, OTHER_KEY, Gateway, refusal, running, until
from .simulated import CHAT, COMPLETIONS, Running
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


def test_what_a_caller_asks_for_is_reserved_before_it_is_let_in(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    model.settings(first_token_seconds=2.0)
    early_in_a_minute()
    kept = plan_with(model, service, tokens=1000)
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
    kept = plan_with(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        assert [ask(gateway, max_tokens=400, ignore_eos=True)[0] for _ in range(2)] == [200, 200]
        assert ask(gateway, max_tokens=400) == (429, "tokens_per_minute")
        assert ask(gateway, max_tokens=50)[0] == 200


def test_a_refusal_says_when_the_next_minute_begins(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = plan_with(model, service, requests=3)
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
    kept = plan_with(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        answers = [ask(gateway, max_tokens=400, stream=stream) for _ in range(10)]
        assert answers == [(200, "")] * 10


def test_what_was_used_beyond_the_reservation_is_owed(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """A request that states no limit reserves 64 tokens here; each takes 1,000."""
    model.settings(output_tokens=1000)
    early_in_a_minute()
    kept = plan_with(model, service, tokens=2000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        answers = [ask(gateway) for _ in range(4)]
        assert answers == [(200, "")] * 2 + [(429, "tokens_per_minute")] * 2


def test_a_caller_who_hangs_up_pays(model: Running, service: BudgetService, tmp_path: Path) -> None:
    """For at least what it was sent: 200 tokens and more of each stream, out of 1,000 a minute."""
    model.settings(output_tokens=3000, inter_token_seconds=0.001)
    early_in_a_minute()
    kept = plan_with(model, service, tokens=1000)
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
    kept = plan_with(model, service, tokens=1000)
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        assert ask(gateway, max_tokens=2000) == (400, "request_exceeds_budget")
        assert ask(gateway, max_tokens=400, n=3) == (400, "request_exceeds_budget")
        assert ask(gateway, max_completion_tokens=2000) == (400, "request_exceeds_budget")


PROMPTS = [
    ({"prompt": ["one", "two", "three"]}, 3),
    ({"prompt": [[1, 2], [3]]}, 2),
    ({"prompt": [1, 2, 3]}, 1),
    ({"prompt": []}, 1),
    ({"prompt": "[1, [2], 3]"}, 1),
    ({"prompt": ['a ], "b', "c"]}, 2),
    ({"prompt": ["one", "two"], "n": 3}, 6),
    ({"prompt": "one", "n": 2, "best_of": 5}, 5),
    ({"prompt": "one", "best_of": 4}, 4),
    ({"prompt": ["one", "two"], "n": 1, "best_of": 2}, 4),
]
CHATS = [({"n": 3}, 3), ({"n": 2, "best_of": 4}, 4), ({"prompt": ["a", "b"]}, 1)]


@pytest.mark.parametrize(
    ("path", "fields", "answers"),
    [
        *((COMPLETIONS, fields, answers) for fields, answers in PROMPTS),
        *((CHAT, fields, answers) for fields, answers in CHATS),
    ],
)
def test_every_answer_that_is_asked_for_is_reserved(
    model: Running,
    service: BudgetService,
    tmp_path: Path,
    path: str,
    fields: dict[str, Any],
    answers: int,
) -> None:
    """One token less than all answers need, and the refusal says how many that is."""
    kept = shared(plan_with(model, service, tokens=100 * answers))
    body = {"model": "alpha", "max_tokens": 100, **({} if path == COMPLETIONS else BODY), **fields}
    need = math.ceil(len(json.dumps(body)) / 4) + 100 * answers
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        reply = gateway.post(body, path=path)
        assert refusal(reply) == (400, "request_exceeds_budget")
        assert f"may use {need} tokens" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("default", "need"), [(None, 2 * 4096), (100, 2 * 100 + 19)], ids=["no default", "a default"]
)
def test_several_answers_without_a_limit_reserve_the_longest_each(
    model: Running, service: BudgetService, tmp_path: Path, default: int | None, need: int
) -> None:
    """One such answer reserves 64 here; a tenant's own default limits each of several as well."""
    kept = plan_with(model, service, tokens=200)
    search, support = kept.tenants
    kept = replace(kept, tenants=(replace(search, default_max_tokens=default), support))
    body = {**BODY, "n": 2}
    assert math.ceil(len(json.dumps(body)) / 4) == 19
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        reply = gateway.post(body)
        assert refusal(reply) == (400, "request_exceeds_budget")
        assert f"may use {need} tokens" in reply.json["error"]["message"]


def test_a_prompt_under_an_escaped_name_counts_as_well(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    kept = shared(plan_with(model, service, tokens=250))
    body = b'{"model":"alpha","max_tokens":100,"\\u0070rompt":["a","b","c"]}'
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        assert refusal(gateway.post(body, path=COMPLETIONS)) == (400, "request_exceeds_budget")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("usage", [False, True], ids=["usage hidden", "usage asked for"])
def test_what_several_prompts_used_is_counted_whole(
    model: Running, service: BudgetService, tmp_path: Path, stream: bool, usage: bool
) -> None:
    """An engine ends each prompt of a stream with that prompt's own usage."""
    early_in_a_minute()
    kept = shared(plan_with(model, service, tokens=2000))
    fields: dict[str, Any] = {"prompt": ["one", "twotwo", "three"], "n": 2, "stream": stream}
    if stream and usage:
        fields["stream_options"] = {"include_usage": True}
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        body = {"model": "alpha", "max_tokens": 300, **fields}
        # Each reserves 1,800 and uses 65, so the second fits only if the rest was given back.
        replies = [gateway.post(body, path=COMPLETIONS) for _ in range(2)]
        assert [reply.status for reply in replies] == [200, 200]
        events = replies[0].body.count(b'"choices":[]')
        assert events == (3 if stream and usage else 0)
        until(lambda: len(gateway.access_log()) == 2, what="the access log")
        line = gateway.access_log()[0]
        assert (line["prompt_tokens"], line["completion_tokens"]) == (5, 60)


def shared(plan: GatewayPlan) -> GatewayPlan:
    """The same with one cache, since only such tenants may use both paths."""
    tenants = tuple(replace(tenant, isolated=False) for tenant in plan.tenants)
    return replace(plan, tenants=tenants)


def test_two_gateways_never_hand_out_more_than_one_budget(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    """Many callers at once at both, each of whom uses all that it asked for."""
    model.settings(first_token_seconds=0.5)
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, tokens=10_000)
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
    kept = plan_with(model, service, tokens=1_000_000, requests=10_000)
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
    kept = plan_with(model, service, counters=2, requests=12)
    with service.keeping(kept), gateways(tmp_path, kept, 2) as both:
        service.supervisor.stop(service.service.name if what == "service" else service.store.name)
        statuses = [[ask(gateway)[0] for _ in range(9)] for gateway in both]
        assert statuses == [[200] * 6 + [429] * 3] * 2
        for gateway in both:
            until(lambda g=gateway: failures(g) >= 1, what="the counter of failures")  # type: ignore[misc]


def test_a_budget_counts_on_when_the_service_is_back(
    model: Running, service: BudgetService, tmp_path: Path
) -> None:
    early_in_a_minute()
    kept = plan_with(model, service, counters=2, requests=100)
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
    kept = plan_with(model, service, requests=100)
    search, support = kept.tenants
    with service.keeping(kept), running(tmp_path / "gateway", kept) as gateway:
        with gateway.streaming(BODY) as stream:
            none = replace(kept, tenants=(replace(search, models=("beta",)), support))
            gateway.config.publish(gateway.files(replace(gateway.plan, tenants=none.tenants)))
            refused = (403, "model_not_allowed")
            until(lambda: ask(gateway, max_tokens=1) == refused, what="the new rights")
        assert not stream.broken
