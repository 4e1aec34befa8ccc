"""Every route of every engine, asked for by whoever has no right to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tokenworks.engines.tensorrt_llm import SERVED_PATHS
from tokenworks.gateway.simulated_engine.server import ROUTES
from tokenworks.gateway.simulated_engine.wire import Request
from tokenworks.plan.gateway_types import TenantPlan

from .harness import KEY, OTHER_KEY, Gateway, engines_of, plan_for, running
from .simulated import QUICK, Running
from .simulated import engine as simulated
from .wire import Answer, Wire, is_error

CASES = Path(__file__).resolve().parents[1] / "cases" / "gateway" / "engine-routes.yaml"
BODY = b'{"model": "alpha", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}'
CHAT_BODY = BODY.replace(b', "prompt": "hi"', b"")
LISTED = ("GET", "/v1/models")
SERVED = {("POST", path) for path in SERVED_PATHS}

Route = tuple[str, str]


def engine_routes() -> dict[str, list[Route]]:
    read: dict[str, Any] = YAML(typ="safe", pure=True).load(CASES)
    return {
        engine: [(method, path) for method, paths in one["routes"].items() for path in paths]
        for engine, one in read.items()
    }


ENGINES = engine_routes()


@pytest.fixture(scope="module")
def alpha() -> Iterator[Running]:
    with simulated(QUICK) as engine:
        yield engine


@pytest.fixture(scope="module")
def started(alpha: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Before one engine that has every route; ``support`` has no right to its model."""
    models = (engines_of("alpha", alpha.port), engines_of("beta", alpha.port))
    tenants = (
        TenantPlan(name="search", key_secrets=()),
        TenantPlan(name="support", key_secrets=(), models=("beta",)),
    )
    with running(tmp_path_factory.mktemp("routes"), plan_for(models, tenants=tenants)) as gateway:
        yield gateway


@pytest.fixture
def guarded(started: Gateway, alpha: Running) -> Gateway:
    alpha.server.engine.requests.clear()
    return started


def ask(gateway: Gateway, routes: list[Route], *headers: str) -> dict[Route, Answer]:
    """Each route asked once over a few kept-alive connections."""
    found: dict[Route, Answer] = {}
    left = list(routes)
    while left:
        with Wire(gateway.plan.tls_port) as wire:
            while left:
                method, path = route = left.pop()
                lines = [f"{method} {path} HTTP/1.1", "host: x", "content-type: application/json"]
                lines += [*headers, f"content-length: {len(BODY)}", "", ""]
                wire.send("\r\n".join(lines).encode() + BODY)
                answer = wire.answer(head=method == "HEAD")
                assert answer is not None, route
                found[route] = answer
                if answer.closes:
                    break
    return found


def reached(engine: Running) -> list[Request]:
    """What callers brought to the engine; the gateway's own probes are nobody's."""
    return [one for one in engine.server.engine.requests if one.header("x-request-id")]


STRANGERS = {
    "no key": (),
    "an empty key": ("authorization: Bearer ",),
    "a wrong key": ("authorization: Bearer key-of-nobody-0123456789abcdef",),
    "two keys": (f"authorization: Bearer {KEY}", "authorization: Bearer key-of-nobody"),
    "a tenant's name": ("x-tenant-id: search", "x-llm-admitted: 1", "x-llm-model: alpha"),
    "a key of an engine": ("x-admin-api-key: admin", "api-key: admin", "cookie: session=admin"),
}


@pytest.mark.envoy
@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize("engine", ENGINES)
def test_no_route_of_an_engine_opens_to_strangers(
    guarded: Gateway, alpha: Running, engine: str, headers: tuple[str, ...]
) -> None:
    for (method, path), answer in ask(guarded, ENGINES[engine], *headers).items():
        assert answer.status == 401, (method, path)
        assert answer.header("content-type") == "application/json"
        assert method == "HEAD" or is_error(answer.body), (method, path, answer.body)
    assert reached(alpha) == []


@pytest.mark.envoy
@pytest.mark.parametrize("engine", ENGINES)
def test_no_route_of_an_engine_opens_to_a_tenant_without_a_right_to_its_model(
    guarded: Gateway, alpha: Running, engine: str
) -> None:
    for route, answer in ask(
        guarded, ENGINES[engine], f"authorization: Bearer {OTHER_KEY}"
    ).items():
        if route == LISTED:
            assert (answer.status, b"alpha" in answer.body) == (200, False)
            continue
        expected = {403} if route in SERVED else {404, 405}
        assert answer.status in expected, (route, answer)
        assert route[0] == "HEAD" or is_error(answer.body), (route, answer.body)
    assert reached(alpha) == []


@pytest.mark.envoy
@pytest.mark.parametrize("engine", ENGINES)
def test_a_tenant_reaches_the_inference_path_of_an_engine_and_no_other(
    guarded: Gateway, alpha: Running, engine: str
) -> None:
    answers = ask(guarded, ENGINES[engine], f"authorization: Bearer {KEY}")
    for route, answer in answers.items():
        if route not in SERVED and route != LISTED:
            assert answer.status in {404, 405}, (route, answer)
            assert route[0] == "HEAD" or is_error(answer.body), (route, answer.body)
    # The engine itself refuses a body that has a prompt beside messages, so it was there.
    assert answers["POST", "/v1/chat/completions"].status == 400
    assert [one.path for one in reached(alpha)] == ["/v1/chat/completions"]
    assert alpha.server.engine.admin_calls == []


@pytest.mark.envoy
def test_the_right_request_is_answered_so_that_the_refusals_say_something(
    guarded: Gateway, alpha: Running
) -> None:
    assert guarded.post(CHAT_BODY).status == 200
    assert len(reached(alpha)) == 1


def test_the_engine_that_runs_here_has_no_route_that_the_list_lacks() -> None:
    assert set(ROUTES) <= set(ENGINES["tensorrt-llm"])


def test_every_list_has_a_source_and_no_route_twice() -> None:
    for engine, one in YAML(typ="safe", pure=True).load(CASES).items():
        assert len(one["source"]) > 20, engine
        assert len(set(ENGINES[engine])) == len(ENGINES[engine]) > 20
        assert all(path.startswith("/") for _, path in ENGINES[engine])


def test_what_the_gateway_serves_is_on_the_list() -> None:
    assert {*SERVED, LISTED} <= set(ENGINES["tensorrt-llm"])
