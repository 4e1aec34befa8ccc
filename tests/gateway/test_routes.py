"""What may be called: exact paths, one method each, and models by name."""

from __future__ import annotations

import dataclasses
import json

import pytest

from .conftest import ODD_MODEL
from .engine import SimulatedEngine
from .harness import KEY, Gateway, engines_of, free_port, refusal, route_to, until
from .simulated import CHAT

pytestmark = pytest.mark.envoy

AUTHORIZED = {"authorization": f"Bearer {KEY}"}
MODELS = ("alpha", "beta", "narrow", "admin", ODD_MODEL, "absent")


def test_each_model_has_its_own_engines(
    gateway: Gateway, engine: SimulatedEngine, other_engine: SimulatedEngine
) -> None:
    assert gateway.post({"model": "beta"}).json == {"engine": other_engine.port, "model": "beta"}
    assert gateway.post({"model": "alpha"}).json == {"engine": engine.port, "model": "alpha"}
    assert (len(engine.received), len(other_engine.received)) == (1, 1)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", f"{CHAT}?anything=1"])
def test_an_allowed_path_reaches_the_engine_as_it_is(
    gateway: Gateway, engine: SimulatedEngine, path: str
) -> None:
    body = b'{"z": 9007199254740993, "model": "alpha", "a": 1.0}'
    assert gateway.post(body, path=path).status == 200
    (received,) = engine.received
    assert (received.method, received.path, received.body) == ("POST", path, body)


@pytest.mark.parametrize("model", ["admin", ODD_MODEL])
def test_an_odd_name_is_a_model_like_any_other(
    gateway: Gateway, engine: SimulatedEngine, model: str
) -> None:
    assert gateway.post({"model": model}).json["model"] == model
    assert len(engine.received) == 1


def test_the_gateway_itself_lists_the_models(gateway: Gateway, engine: SimulatedEngine) -> None:
    reply = gateway.request("GET", "/v1/models", None, AUTHORIZED)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["object"] == "list"
    assert [model["id"] for model in reply.json["data"]] == list(MODELS)
    assert engine.received == []


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/models/alpha",
        "/health",
        "/health_generate",
        "/version",
        "/metrics",
        "/prometheus/metrics",
        "/perf_metrics",
        "/server_info",
        "/release_memory",
        "/resume_memory",
        "/update_weights",
        "/kv_cache_events",
        "/start_profile",
        "/invocations",
        "/ready",
        "/stats/prometheus",
        "/config_dump",
        "/quitquitquit",
        "/v1/responses",
        "/v1/embeddings",
        f"{CHAT}/",
        f"/{CHAT}",
        f"/{CHAT}/",
        f"{CHAT}/../../../release_memory",
        "/v1/../release_memory",
        "//v1/../release_memory",
        "/v1/%2e%2e/release_memory",
        "/v1/.%2E/release_memory",
        "/v1/./chat/completions",
        "/v1/chat/../chat/completions",
        "/v1/%63hat/completions",
        "/V1/chat/completions",
        "/v1/Chat/Completions",
        "/v1/chat/completions;x=1",
        "/v1/chat/completions%00",
        "/v1/chat/completions%3f",
        "/v1/chat//completions",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_any_other_path_is_refused(
    gateway: Gateway, engine: SimulatedEngine, method: str, path: str
) -> None:
    headers = {**AUTHORIZED, "content-type": "application/json"}
    reply = gateway.request(method, path, b'{"model": "alpha"}', headers)
    assert refusal(reply) == (404, "path_not_found")
    assert engine.received == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/..%2frelease_memory", 400),
        ("/v1%5c..%5crelease_memory", 400),
        ("/v1/chat%2Fcompletions", 400),
        ("http://elsewhere/release_memory", 404),
        ("*", 400),
    ],
)
def test_a_path_that_hides_its_slashes_or_host_is_refused(
    gateway: Gateway, engine: SimulatedEngine, path: str, status: int
) -> None:
    assert refusal(gateway.post({"model": "alpha"}, path=path))[0] == status
    assert engine.received == []


@pytest.mark.parametrize(
    ("path", "allowed", "methods"),
    [
        (
            CHAT,
            "POST",
            ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post"],
        ),
        ("/v1/models", "GET", ["POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get"]),
    ],
)
def test_any_other_method_is_refused(
    gateway: Gateway, engine: SimulatedEngine, path: str, allowed: str, methods: list[str]
) -> None:
    headers = {**AUTHORIZED, "content-type": "application/json"}
    for method in methods:
        reply = gateway.request(method, path, b'{"model": "alpha"}', headers)
        if method == "HEAD":
            assert (reply.status, reply.body) == (405, b"")
        elif reply.status != 400:  # Envoy's parser knows no such method at all
            assert refusal(reply) == (405, "method_not_allowed")
            assert reply.headers["allow"] == allowed
    assert engine.received == []


@pytest.mark.parametrize(
    "body",
    [
        {"model": "unknown"},
        {"model": "Alpha"},
        {"model": "alpha "},
        {"model": "alpha\nx-tenant-id: evil"},
        {"model": "alpha\r\n\r\n"},
        {"model": "alpha\u0000"},
        {"model": 5},
        {"model": True},
        {"model": ["alpha"]},
        {"model": {"alpha": 1}},
        {"model": "x" * 30_000},
    ],
    ids=lambda body: json.dumps(body)[:40],
)
def test_an_unknown_model_is_refused_with_the_models_that_there_are(
    gateway: Gateway, engine: SimulatedEngine, body: dict[str, object]
) -> None:
    reply = gateway.post(body)
    assert refusal(reply) == (404, "model_not_found")
    for model in MODELS:
        assert model in reply.json["error"]["message"]
    assert engine.received == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"{",
        b"null",
        b"[]",
        b'"alpha"',
        b"model=alpha",
        b'{"model": null}',
        b'{"model": ""}',
        b'{"Model": "alpha"}',
        b'{"model": "alpha"',
        b'{"model": "alpha"} x',
        b'{"model": "alpha"}{"model": "alpha"}',
        b'{"model": "alpha", "model": "beta"}',
        b'{"model": "alpha", "x": NaN}',
        b'{"model": "alpha", "x": "\xff"}',
        b'{"model": "alpha", "x": "\\ud800"}',
        b'\xef\xbb\xbf{"model": "alpha"}',
        b'{"model": "alpha", "x": ' + b"[" * 500 + b"]" * 500 + b"}",
        b"\x1f\x8b\x08\x00",
    ],
    ids=lambda body: repr(body)[:40],
)
def test_a_body_that_is_no_json_object_with_a_model_is_refused(
    gateway: Gateway, engine: SimulatedEngine, body: bytes
) -> None:
    assert refusal(gateway.post(body)) == (400, "invalid_body")
    assert engine.received == []


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json-patch+json",
        "text/plain; application/json",
    ],
)
def test_what_does_not_call_itself_json_is_refused(
    gateway: Gateway, engine: SimulatedEngine, content_type: str
) -> None:
    reply = gateway.post({"model": "alpha"}, headers={"content-type": content_type})
    assert refusal(reply) == (415, "unsupported_media_type")
    assert engine.received == []


def test_json_may_name_its_character_set(gateway: Gateway) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    assert gateway.post({"model": "alpha"}, headers=headers).status == 200


def test_a_new_model_is_served_without_a_restart_and_no_stream_is_cut(
    gateway: Gateway, other_engine: SimulatedEngine
) -> None:
    added = engines_of("added", other_engine.port, host="localhost", most=8)
    plan = dataclasses.replace(
        gateway.plan,
        models=(*gateway.plan.models, added),
        routes=(*gateway.plan.routes, route_to("added")),
    )
    body = {"model": "alpha", "simulate": {"events": 25, "gap_seconds": 0.1}}
    with gateway.streaming(body) as stream:
        assert gateway.post({"model": "added"}).status == 404
        gateway.config.publish(gateway.files(plan))
        until(lambda: gateway.post({"model": "added"}).status == 200, what="the added model")
        gateway.config.publish(gateway.files(gateway.plan))
        until(lambda: gateway.post({"model": "added"}).status == 404, what="the model is gone")
    assert len(stream.events) == 26
    assert not stream.broken


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("timeout: 0s", "timeot: 0s"), ("resources:", "resources: [")],
    ids=["misspelt field", "no YAML"],
)
def test_a_faulty_route_file_is_refused_and_the_old_one_serves_on(
    gateway: Gateway, right: str, wrong: str
) -> None:
    before = _refused_routes(gateway)
    files = gateway.files(gateway.plan)
    assert right in files["rds.yaml"]
    gateway.config.publish({**files, "rds.yaml": files["rds.yaml"].replace(right, wrong)})
    until(lambda: _refused_routes(gateway) > before, what="refused routes")
    assert gateway.post({"model": "alpha"}).status == 200
    gateway.config.publish(files)


def _refused_routes(gateway: Gateway) -> float:
    """Envoy counts what is no YAML as a failure, and what is no route table as a rejection."""
    return gateway.metric("envoy_http_rds_update_rejected") + gateway.metric(
        "envoy_http_rds_update_failure"
    )


def test_two_hundred_models_are_listed_and_routed(
    gateway: Gateway, other_engine: SimulatedEngine
) -> None:
    """Envoy refuses answers of its own above 4,096 bytes unless told otherwise."""
    names = [f"organisation/model-with-a-long-name-{number}" for number in range(200)]
    models = tuple(
        engines_of(name, port, most=8)
        for name, port in zip(names, [*[free_port()] * 199, other_engine.port], strict=True)
    )
    routes = tuple(route_to(name) for name in names)
    gateway.config.publish(
        gateway.files(dataclasses.replace(gateway.plan, models=models, routes=routes))
    )
    try:
        until(lambda: gateway.post({"model": names[-1]}).status == 200, what="the last model")
        reply = gateway.request("GET", "/v1/models", None, AUTHORIZED)
        assert [model["id"] for model in reply.json["data"]] == names
        assert names[100] in gateway.post({"model": "unknown"}).json["error"]["message"]
    finally:
        gateway.config.publish(gateway.files(gateway.plan))
        until(lambda: gateway.post({"model": "alpha"}).status == 200, what="the old models")
