"""Where a request goes when it cannot, or should not, go to its model's own engines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tokenworks.plan.gateway_types import (
    GatewayPlan,
    ManagedApi,
    Shadow,
    StaticAnswer,
    Step,
    Target,
    TenantPlan,
)
from tokenworks.render_keys import gateway_credentials_files

from .engine import SimulatedEngine
from .harness import (
    KEYS,
    OTHER_KEY,
    Gateway,
    Stream,
    engines_of,
    free_port,
    model_step,
    plan_for,
    refusal,
    route_to,
    running,
    until,
)
from .managed import API_KEY, ManagedService
from .simulated import Reply

pytestmark = pytest.mark.envoy

API = Step(kind="api", name="cloud", rewrites=True)
SMALL = model_step("small", rewrites=True)
NEXT = model_step("next", rewrites=True)
SENTENCE = "This service is busy; ask again in a minute."


@pytest.fixture(scope="module")
def small() -> Iterator[SimulatedEngine]:
    with SimulatedEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def trial() -> Iterator[SimulatedEngine]:
    with SimulatedEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedService]:
    with ManagedService(tmp_path_factory.mktemp("cloud")) as service:
        yield service


def routes() -> tuple[Any, ...]:
    """Chains, a rule, a canary and a shadow; the tenant support may not leave."""
    answer = Step(kind="answer", name="dead", rewrites=True)
    return (
        route_to("dead", model_step("dead"), SMALL, name="model/dead/restricted", restricted=True),
        route_to("dead", model_step("dead"), API, SMALL, restricted=False),
        route_to("ended", model_step("ended"), Step(kind="answer", name="ended", rewrites=True)),
        route_to("steady", NEXT, name="release/next", release="next"),
        route_to("steady", API, name="rule/long", prompt_bytes=(4000, 1 << 40), restricted=False),
        route_to(
            "steady",
            targets=(
                Target(steps=(model_step("steady"), answer), weight=80),
                Target(steps=(NEXT, model_step("steady")), weight=20),
            ),
        ),
        route_to("shadowed", shadow=Shadow(model="next", percent=100, max_concurrent_requests=2)),
        route_to("next"),
        route_to("small"),
    )


@pytest.fixture(scope="module")
def plan(
    engine: SimulatedEngine, small: SimulatedEngine, trial: SimulatedEngine, cloud: ManagedService
) -> GatewayPlan:
    ports = {
        "dead": free_port(),
        "ended": free_port(),
        "steady": engine.port,
        "shadowed": engine.port,
        "next": trial.port,
        "small": small.port,
    }
    first, second = KEYS
    api = ManagedApi(
        name="cloud",
        host="localhost",
        port=cloud.port,
        base_path="/openai/v1",
        model="cloud-model",
        credential_secret="key-cloud",  # noqa: S106  (the name of one)
        max_concurrent_requests=8,
    )
    return plan_for(
        [engines_of(model, port) for model, port in ports.items()],
        tenants=(
            TenantPlan(name=first, key_secrets=()),
            TenantPlan(name=second, key_secrets=(), restricted=True),
        ),
        apis=(api,),
        answers=tuple(StaticAnswer(model=model, text=SENTENCE) for model in ("ended", "dead")),
        routes=routes(),
    )


@pytest.fixture(scope="module")
def started(
    plan: GatewayPlan, cloud: ManagedService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    with running(
        tmp_path_factory.mktemp("fallback"),
        plan,
        credentials={"cloud": API_KEY},
        trusted_ca=cloud.chain,
    ) as gateway:
        yield gateway


@pytest.fixture
def chained(
    started: Gateway,
    engine: SimulatedEngine,
    small: SimulatedEngine,
    trial: SimulatedEngine,
    cloud: ManagedService,
) -> Gateway:
    """The running gateway, before engines that have seen nothing yet."""
    for one in (engine, small, trial, cloud):
        one.received.clear()
    return started


def test_a_managed_api_answers_for_engines_that_are_gone(
    chained: Gateway, cloud: ManagedService
) -> None:
    reply = chained.post({"model": "dead", "messages": [], "seed": 9007199254740993})
    assert (reply.status, reply.json["model"]) == (200, "cloud-model")
    assert reply.headers["x-served-by"] == "api/cloud"
    (received,) = cloud.received
    assert received.path == "/openai/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {API_KEY}"
    assert received.headers["host"] == "localhost"
    assert received.body == b'{"model": "cloud-model","messages": [],"seed": 9007199254740993}'


def test_a_managed_api_learns_nothing_about_the_caller(
    chained: Gateway, cloud: ManagedService
) -> None:
    assert chained.post({"model": "dead"}, headers={"cookie": "a=b"}).status == 200
    (received,) = cloud.received
    ours = ("x-tenant-", "x-llm-", "x-forwarded-", "x-envoy-", "x-api-key", "cookie", "x-release")
    told = {name for name in received.headers if name.startswith(ours)}
    assert told <= {"x-envoy-attempt-count"}
    assert "search" not in str(received)


def test_a_managed_api_is_asked_for_usage_in_the_standard_way_alone(
    chained: Gateway, cloud: ManagedService
) -> None:
    body = {"model": "dead", "stream": True, "stream_options": {"continuous_usage_stats": True}}
    assert chained.post(body).status == 200
    sent = json.loads(cloud.received[0].body)
    assert sent["stream_options"] == {"include_usage": True}
    assert "cache_salt" not in sent


@pytest.mark.parametrize("headers", [{}, {"x-data-class": "restricted"}], ids=["tenant", "header"])
def test_restricted_requests_stay_self_hosted(
    chained: Gateway, cloud: ManagedService, small: SimulatedEngine, headers: dict[str, str]
) -> None:
    key = {"key": OTHER_KEY} if not headers else {}
    reply = chained.post({"model": "dead"}, headers=headers, **key)
    assert (reply.status, reply.headers["x-served-by"]) == (200, "model/small")
    long = {"model": "steady", "pad": "x" * 5000}
    assert chained.post(long, headers=headers, **key).status == 200
    assert cloud.received == []
    assert json.loads(small.received[0].body)["model"] == "small"


def test_a_chain_ends_in_the_same_sentence_each_time(chained: Gateway) -> None:
    replies = [chained.post({"model": "ended"}) for _ in range(2)]
    assert replies[0].body == replies[1].body
    assert replies[0].json["choices"][0]["message"]["content"] == SENTENCE
    assert replies[0].json["usage"]["total_tokens"] == 0
    assert replies[0].headers["x-served-by"] == "answer/ended"


def test_the_sentence_comes_as_a_stream_where_one_was_asked_for(chained: Gateway) -> None:
    stream = Stream()
    chained.stream({"model": "ended"}, stream)
    assert not stream.broken
    events = [json.loads(event.removeprefix("data: ")) for event in stream.events[:-1]]
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[0]["choices"][0]["delta"]["content"] == SENTENCE


def test_an_engine_that_takes_no_work_is_passed_over(
    chained: Gateway, trial: SimulatedEngine, engine: SimulatedEngine
) -> None:
    """By its 503, before any probe has noticed; the request is not begun twice."""
    body = {"model": "steady", "simulate": {"status_on": {str(trial.port): 503}}}
    reply = chained.post(body, headers={"x-release": "next"})
    assert reply.status == 503
    assert len(trial.received) >= 1
    trial.received.clear()
    statuses = {chained.post(body).status for _ in range(40)}
    assert statuses == {200}
    assert trial.received, "some of forty requests must have met the release on trial"


def test_an_error_of_an_engine_is_no_reason_to_ask_another(
    chained: Gateway, engine: SimulatedEngine, small: SimulatedEngine
) -> None:
    """The other step of its chain would be the sentence."""
    body = {"model": "steady", "simulate": {"status_on": {str(engine.port): 500}}}
    replies = [chained.post(body) for _ in range(20)]
    failed = [reply for reply in replies if reply.status == 500]
    assert failed
    assert len(failed) == len(engine.received), "an error of an engine is asked for once"
    served = {reply.headers.get("x-served-by") for reply in replies}
    assert served <= {None, "model/next"}


def test_a_share_of_requests_goes_to_the_release_on_trial(
    chained: Gateway, engine: SimulatedEngine, trial: SimulatedEngine
) -> None:
    """200 draws of 20 %: 13 to 67 lies four deviations around 40."""
    for _ in range(200):
        assert chained.post({"model": "steady"}).status == 200
    assert 13 < len(trial.received) < 67
    assert len(trial.received) + len(engine.received) == 200
    assert {json.loads(one.body)["model"] for one in trial.received} == {"next"}
    assert {json.loads(one.body)["model"] for one in engine.received} == {"steady"}


def test_a_caller_may_pin_itself_to_a_release(chained: Gateway, trial: SimulatedEngine) -> None:
    for _ in range(10):
        reply = chained.post({"model": "steady"}, headers={"x-release": "next"})
        assert (reply.status, reply.headers["x-served-by"]) == (200, "model/next")
    assert len(trial.received) == 10


def test_long_requests_go_where_the_rule_says(chained: Gateway, cloud: ManagedService) -> None:
    reply = chained.post({"model": "steady", "pad": "x" * 5000})
    assert (reply.status, reply.json["model"]) == (200, "cloud-model")
    assert len(cloud.received) == 1
    line = next(
        line for line in until_logged(chained, reply.headers["x-request-id"]) if "route" in line
    )
    assert (line["route"], line["served_by"]) == ("rule/long", "api/cloud")


def hop_of(chained: Gateway, reply: Reply) -> dict[str, Any]:
    """What the one hop of an answered request says in the log."""
    lines = until_logged(chained, reply.headers["x-request-id"], count=2)
    (hop,) = [line for line in lines if "step" in line]
    return hop


@pytest.mark.parametrize("body", [{"model": "dead"}, {"model": "steady", "pad": "x" * 5000}])
def test_a_step_that_is_asked_first_says_so(chained: Gateway, body: dict[str, str]) -> None:
    """Those before it have no healthy engine, or a rule leads there."""
    hop = hop_of(chained, chained.post(body))
    assert hop["step"] == "api/cloud"
    assert hop["reason"].startswith("its route leads here first, or no step before it")
    assert "dead" not in json.dumps(hop)


def test_a_step_that_is_asked_later_says_that_others_had_no_place(
    chained: Gateway, engine: SimulatedEngine, trial: SimulatedEngine
) -> None:
    """Each step is asked twice, since one of its engines may only just have died."""
    busy = {str(one.port): 503 for one in (engine, trial)}
    body = {"model": "steady", "simulate": {"status_on": busy}}
    reply = next(
        reply
        for reply in iter(lambda: chained.post(body), None)
        if reply.headers.get("x-served-by") == "answer/dead"
    )
    hop = hop_of(chained, reply)
    assert hop["attempt"] == "3"
    assert hop["reason"] == "whoever was asked before could not be reached or had no place left"


def test_a_shadow_sees_requests_and_its_answers_are_thrown_away(
    chained: Gateway, engine: SimulatedEngine, trial: SimulatedEngine
) -> None:
    reply = chained.post({"model": "shadowed", "simulate": {"status_on": {str(trial.port): 500}}})
    assert reply.json["engine"] == engine.port
    until(lambda: len(trial.received) == 1, what="the copy")
    assert json.loads(trial.received[0].body)["model"] == "next"


def test_a_slow_shadow_holds_up_nobody_and_takes_no_more_than_its_places(
    chained: Gateway, trial: SimulatedEngine
) -> None:
    body = {"model": "shadowed", "simulate": {"delay_on": {str(trial.port): 1.5}}}
    for _ in range(8):
        assert chained.post(body).status == 200
    until(lambda: len(trial.received) == 2, what="two copies")
    assert len(trial.received) == 2


def test_weights_change_without_cutting_a_stream(chained: Gateway, trial: SimulatedEngine) -> None:
    plan = chained.plan
    all_next = tuple(
        dataclasses.replace(route, targets=(Target(steps=(NEXT,), weight=100),))
        if route.name == "model/steady"
        else route
        for route in plan.routes
    )
    body = {"model": "shadowed", "simulate": {"events": 25, "gap_seconds": 0.1}}
    with chained.streaming(body) as stream:
        chained.config.publish(chained.files(dataclasses.replace(plan, routes=all_next)))
        trial.received.clear()

        def moved() -> bool:
            trial.received.clear()
            for _ in range(5):
                chained.post({"model": "steady"})
            return len([one for one in trial.received if b"steady" not in one.body]) >= 5

        until(moved, what="everything goes to the release")
        chained.config.publish(chained.files(plan))
    assert not stream.broken
    assert len(stream.events) == 26


def test_a_managed_api_s_key_is_replaced_without_a_restart(
    chained: Gateway, cloud: ManagedService
) -> None:
    def sent() -> str:
        cloud.received.clear()
        assert chained.post({"model": "dead"}).status == 200
        return cloud.received[0].headers["authorization"]

    assert sent() == f"Bearer {API_KEY}"
    for key in ("sk-another", API_KEY):
        chained.credentials.publish(gateway_credentials_files({"cloud": key}))
        until(lambda key=key: sent() == f"Bearer {key}", what="the new key")  # type: ignore[misc]


def test_who_answered_for_a_model_is_counted(chained: Gateway) -> None:
    """By model and step, so that an alert can say that a model lives on its fallback."""

    def served(by: str) -> float:
        text = chained.plain("GET", "/stats/prometheus").body.decode()
        wanted = f'envoy_gateway_served{{filter="admission",model="dead",by="{by}"}}'
        return sum(float(line.split()[-1]) for line in text.splitlines() if wanted in line)

    before = served("api/cloud"), served("model/small")
    assert chained.post({"model": "dead"}).status == 200
    assert chained.post({"model": "dead"}, key=OTHER_KEY).status == 200
    assert (served("api/cloud"), served("model/small")) == (before[0] + 1, before[1] + 1)


def test_no_route_of_a_hop_can_be_reached_from_outside(chained: Gateway) -> None:
    """Hops listen inside the process: there is no port to knock at."""
    text = chained.files(chained.plan)["lds.yaml"]
    assert text.count("internal_listener: {}") == text.count('stat_prefix: "hop_') == 5
    reply = chained.post({"model": "hop/api/cloud"})
    assert refusal(reply) == (404, "model_not_found")


def until_logged(gateway: Gateway, request_id: str, count: int = 1) -> list[dict[str, Any]]:
    def lines() -> list[dict[str, Any]]:
        return [line for line in gateway.access_log() if line["request_id"] == request_id]

    until(lambda: len(lines()) >= count, what="the log")
    return lines()
