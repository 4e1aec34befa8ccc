"""What a tenant may ask for, and the few bytes by which its request is changed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenworks.gateway.simulated_engine.settings import Settings
from tokenworks.plan.gateway_types import TenantPlan

from .budgets import budget
from .engine import SimulatedEngine
from .harness import KEY, OTHER_KEY, Gateway, engines_of, plan_for, refusal, running, until
from .simulated import CHAT, Running
from .simulated import engine as simulated

pytestmark = pytest.mark.envoy

SALT = ',"cache_salt":"search"'
USAGE = ',"stream_options":{"include_usage":true,"continuous_usage_stats":true}'


@pytest.fixture(scope="module")
def apart(engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Tenant ``search`` is isolated; ``support`` shares its cache and may use ``beta`` alone."""
    tenants = (
        TenantPlan(name="search", key_secrets=()),
        TenantPlan(name="support", key_secrets=(), isolated=False, models=("beta",)),
    )
    models = [engines_of(model, engine.port) for model in ("alpha", "beta")]
    root = tmp_path_factory.mktemp("admission")
    with running(root, plan_for(models, tenants=tenants)) as gateway:
        yield gateway


@pytest.fixture
def seen(apart: Gateway, engine: SimulatedEngine) -> SimulatedEngine:
    engine.received.clear()
    return engine


@pytest.mark.parametrize(
    "body",
    [
        '{"model": "alpha"}',
        '{ "z" : 9007199254740993 , "model":"alpha", "a": 1.0 }',
        '{"model":"alpha","x":"}"}\n\t ',
        '{"tools":[{"zeta":{},"alpha":[]}],"model":"alpha","u":"\\u00e9\\"}"}',
    ],
)
def test_the_salt_is_all_that_is_added(apart: Gateway, seen: SimulatedEngine, body: str) -> None:
    assert apart.post(body.encode()).status == 200
    stripped = body.rstrip()
    assert seen.received[0].body.decode() == stripped[:-1] + SALT + "}"


def test_a_stream_is_asked_for_its_usage_as_well(apart: Gateway, seen: SimulatedEngine) -> None:
    assert apart.post(b'{"model": "alpha", "stream": true}').status == 200
    assert seen.received[0].body == f'{{"model": "alpha", "stream": true{SALT}{USAGE}}}'.encode()


@pytest.mark.parametrize("name", ["cache_salt", "cache\\u005fsalt", "\\u0063ache_salt"])
@pytest.mark.parametrize("value", ['"support"', "null", "5", '{"a": [1, "}"]}', '"\\"}"'])
def test_a_caller_cannot_choose_its_salt(
    apart: Gateway, seen: SimulatedEngine, name: str, value: str
) -> None:
    """However it is spelt, and wherever it stands; an engine sees one salt, not two."""
    for body in (
        f'{{"{name}": {value}, "model": "alpha", "q": "cache_salt"}}',
        f'{{"model": "alpha", "q": "cache_salt", "{name}": {value}}}',
    ):
        seen.received.clear()
        assert apart.post(body.encode()).status == 200
        pairs = json.loads(seen.received[0].body, object_pairs_hook=list)
        assert [value for key, value in pairs if key == "cache_salt"] == ["search"]
        assert ("q", "cache_salt") in [tuple(pair) for pair in pairs]


def test_what_a_caller_says_of_its_stream_s_usage_is_replaced(
    apart: Gateway, seen: SimulatedEngine
) -> None:
    body = {"stream_options": {"include_usage": False}, "model": "alpha", "stream": True}
    assert apart.post(body).status == 200
    pairs = json.loads(seen.received[0].body, object_pairs_hook=list)
    assert [key for key, _ in pairs] == ["model", "stream", "cache_salt", "stream_options"]


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    members=st.dictionaries(
        st.sampled_from(["stream_options", "cache_salt", "messages", 'a"}', "\\", "é", "x"]),
        _values,
        max_size=6,
    ),
    spaced=st.booleans(),
)
def test_every_other_member_arrives_as_it_was(
    apart: Gateway, seen: SimulatedEngine, members: dict[str, Any], spaced: bool
) -> None:
    seen.received.clear()
    body = {**members, "model": "alpha", "stream": True}
    separators = (" , ", " : ") if spaced else (",", ":")
    reply = apart.post(json.dumps(body, separators=separators).encode())
    if reply.status == 400:  # Envoy's parser is stricter about some text than Python's
        assert seen.received == []
        return
    arrived = json.loads(seen.received[0].body)
    ours = {
        "cache_salt": "search",
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    assert arrived == {**body, **ours}


LIMIT = ',"max_tokens":7'


@pytest.fixture(scope="module")
def short(engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Answers of ``search`` have 7 tokens where it states nothing; ``support`` has no default."""
    tenants = (
        TenantPlan(name="search", key_secrets=(), isolated=False, default_max_tokens=7),
        TenantPlan(name="support", key_secrets=(), isolated=False),
    )
    root = tmp_path_factory.mktemp("short")
    with running(root, plan_for([engines_of("alpha", engine.port)], tenants=tenants)) as gateway:
        yield gateway


def arrived(gateway: Gateway, engine: SimulatedEngine, body: str, **where: str) -> str:
    engine.received.clear()
    assert gateway.post(body.encode(), **where).status == 200  # type: ignore[arg-type]
    return engine.received[0].body.decode()


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize(
    "body",
    [
        '{"model": "alpha"}',
        '{ "z" : 9007199254740993 , "model":"alpha", "a": 1.0 }\n',
        '{"model":"alpha","u":"max_tokens \\"max_tokens\\": 5"}',
    ],
)
def test_a_request_without_a_limit_gets_its_tenant_s(
    short: Gateway, engine: SimulatedEngine, path: str, body: str
) -> None:
    """Both paths' engines know the member, and nothing else of the body changes."""
    assert arrived(short, engine, body, path=path) == body.rstrip()[:-1] + LIMIT + "}"
    assert arrived(short, engine, body, path=path, key=OTHER_KEY) == body


@pytest.mark.parametrize(
    "member",
    [
        '"max_tokens": 9',
        '"max_completion_tokens": 9',
        '"max\\u005ftokens":9',
        '"max_tokens": 9000',
        '"max_tokens": 0',
        '"max_tokens": "many"',
    ],
)
def test_a_limit_that_is_stated_stays(short: Gateway, engine: SimulatedEngine, member: str) -> None:
    """Also one that the engine refuses: the caller has to learn of it."""
    found = json.loads(arrived(short, engine, f'{{"model": "alpha", {member}}}'))
    assert found == json.loads(f'{{"model": "alpha", {member}}}')


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max\\u005ftokens"])
def test_null_is_no_limit(short: Gateway, engine: SimulatedEngine, name: str) -> None:
    body = f'{{"{name}": null, "model": "alpha", "tools": [{{"max_tokens": null}}]}}'
    found = arrived(short, engine, body)
    assert found == '{"model": "alpha","tools": [{"max_tokens": null}]' + LIMIT + "}"
    assert json.loads(arrived(short, engine, body, key=OTHER_KEY)) == json.loads(body)


def test_a_null_cannot_hide_a_limit(short: Gateway, engine: SimulatedEngine) -> None:
    body = '{"model": "alpha", "max_tokens": null, "max_completion_tokens": 9}'
    assert arrived(short, engine, body) == '{"model": "alpha","max_completion_tokens": 9}'


def test_a_limit_that_was_written_is_reserved(engine: SimulatedEngine, tmp_path: Path) -> None:
    """Seen in the refusal of what exceeds a whole budget, prompt by its size included."""
    tenant = TenantPlan(
        name="search", key_secrets=(), isolated=False, tokens=budget(50), default_max_tokens=60
    )
    plan = plan_for([engines_of("alpha", engine.port)], tenants=(tenant,))
    body = b'{"model": "alpha", "x": "0123456789"}'
    engine.received.clear()
    with running(tmp_path, plan) as gateway:
        reply = gateway.post(body)
        assert refusal(reply) == (400, "request_exceeds_budget")
        assert f" {math.ceil(len(body) / 4) + 60} tokens" in reply.json["error"]["message"]
        larger = gateway.post({"model": "alpha", "max_tokens": 1, "max_completion_tokens": 900})
        assert refusal(larger) == (400, "request_exceeds_budget")
    assert engine.received == []


def test_a_stream_gets_its_limit_as_well(short: Gateway, engine: SimulatedEngine) -> None:
    found = arrived(short, engine, '{"model": "alpha", "stream": true}')
    assert found == '{"model": "alpha", "stream": true' + USAGE + LIMIT + "}"


def test_a_path_that_cannot_keep_caches_apart_is_closed_to_whoever_needs_that(
    apart: Gateway, seen: SimulatedEngine
) -> None:
    reply = apart.post({"model": "alpha", "prompt": "x"}, path="/v1/completions")
    assert refusal(reply) == (403, "cache_not_isolated")
    assert CHAT in reply.json["error"]["message"]
    assert seen.received == []
    body = b'{"model": "beta", "prompt": "x"}'
    assert apart.post(body, path="/v1/completions", key=OTHER_KEY).status == 200
    assert seen.received[0].body == body


def test_a_model_is_closed_to_tenants_without_a_right_to_it(
    apart: Gateway, seen: SimulatedEngine
) -> None:
    assert refusal(apart.post({"model": "alpha"}, key=OTHER_KEY)) == (403, "model_not_allowed")
    assert seen.received == []
    assert apart.post({"model": "beta"}, key=OTHER_KEY).status == 200
    assert refusal(apart.post({"model": "gone"}, key=OTHER_KEY)) == (404, "model_not_found")


def test_a_tenant_is_shown_the_models_that_it_may_use(apart: Gateway) -> None:
    def listed(key: str) -> list[str]:
        headers = {"authorization": f"Bearer {key}"}
        reply = apart.request("GET", "/v1/models", None, headers)
        return [model["id"] for model in reply.json["data"]]

    assert listed(OTHER_KEY) == ["beta"]
    assert listed(KEY) == ["alpha", "beta"]


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_whoever_asks_for_an_unknown_model_is_told_those_that_it_may_use(
    apart: Gateway, path: str
) -> None:
    replies = [apart.post({"model": "gone"}, path=path, key=key) for key in (KEY, OTHER_KEY)]
    assert [refusal(reply) for reply in replies] == [(404, "model_not_found")] * 2
    told = [reply.json["error"]["message"] for reply in replies]
    assert [text.rpartition(":")[2] for text in told] == [" alpha, beta.", " beta."]


def test_an_error_while_admitting_lets_nobody_in(apart: Gateway, seen: SimulatedEngine) -> None:
    files = apart.files(apart.plan)
    broken = files["admission.yaml"].replace("local text = body:", "local text = nothing:")
    assert broken != files["admission.yaml"]
    apart.config.publish({**files, "admission.yaml": broken})
    try:
        until(lambda: apart.post({"model": "alpha"}).status != 200, what="the faulty filter")
        seen.received.clear()
        assert refusal(apart.post({"model": "alpha"})) == (500, "gateway_fault")
        marked = apart.post({"model": "alpha"}, headers={"x-llm-admitted": "1"})
        assert marked.status == 500
        assert seen.received == []
    finally:
        apart.config.publish(files)
        until(lambda: apart.post({"model": "alpha"}).status == 200, what="the right filter")


@pytest.fixture
def streaming(tmp_path: Any) -> Iterator[tuple[Running, Gateway]]:
    quick = Settings(first_token_seconds=0.0, inter_token_seconds=0.0, output_tokens=20)
    tenants = (TenantPlan(name="search", key_secrets=()),)
    with (
        simulated(quick) as model,
        running(tmp_path, plan_for([engines_of("alpha", model.port)], tenants=tenants)) as gateway,
    ):
        yield model, gateway


BODY: dict[str, Any] = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}


def events(gateway: Gateway, **fields: Any) -> list[Any]:
    text = gateway.post({**BODY, "stream": True, **fields}).body.decode()
    parts = [part.removeprefix("data: ") for part in text.split("\n\n")[:-1]]
    assert parts[-1] == "[DONE]"
    return [json.loads(part) for part in parts[:-1]]


def test_usage_that_nobody_asked_for_is_no_event_of_the_stream(
    streaming: tuple[Running, Gateway],
) -> None:
    """Clients that read choices[0] of every event would end on it."""
    _, gateway = streaming
    for _ in range(10):
        found = events(gateway)
        assert len(found) >= 20
        assert all(event["choices"] for event in found)
    asked = events(gateway, stream_options={"include_usage": True})
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["completion_tokens"] == 20


def test_tokens_are_counted_for_each_tenant_and_model(
    streaming: tuple[Running, Gateway],
) -> None:
    _, gateway = streaming
    used = events(gateway, stream_options={"include_usage": True})[-1]["usage"]
    assert gateway.post(BODY).json["usage"] == used
    text = gateway.plain("GET", "/stats/prometheus").body.decode()
    counted = [line for line in text.splitlines() if "envoy_gateway_tokens{" in line]
    values = {
        kind: float(next(line for line in counted if f'kind="{kind}"' in line).split()[-1])
        for kind in ("prompt", "completion")
    }
    assert values == {kind: 2 * used[f"{kind}_tokens"] for kind in values}
    assert all('tenant="search"' in line and 'model="alpha"' in line for line in counted)


def test_the_time_to_the_first_token_is_measured_for_streams(
    streaming: tuple[Running, Gateway],
) -> None:
    _, gateway = streaming
    events(gateway)
    gateway.post(BODY)

    def measured() -> bool:
        """Envoy adds up histograms every five seconds."""
        text = gateway.plain("GET", "/stats/prometheus").body.decode()
        return 'envoy_gateway_first_token_ms_count{filter="admission",model="alpha"} 1' in text

    until(measured, what="one stream measured", seconds=15)


def test_the_log_says_what_was_used(streaming: tuple[Running, Gateway]) -> None:
    _, gateway = streaming
    reply = gateway.post({**BODY, "stream": True})
    wanted = reply.headers["x-request-id"]

    def line() -> dict[str, Any] | None:
        return next((one for one in gateway.access_log() if one["request_id"] == wanted), None)

    until(lambda: line() is not None, what="the log")
    found = line()
    assert found
    assert (found["completion_tokens"], found["prompt_tokens"] > 0) == (20, True)


def test_refusals_are_counted_by_status_and_route(apart: Gateway) -> None:
    apart.post({"model": "gone"})
    apart.post({"model": "alpha"}, key="nobody")
    text = apart.plain("GET", "/stats/prometheus").body.decode()
    counted = [line for line in text.splitlines() if "envoy_gateway_refusals{" in line]
    assert [line for line in counted if 'status="404",route="model_not_found"' in line]
    assert [line for line in counted if 'status="401"' in line]
