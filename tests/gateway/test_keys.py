"""Who may call, and what the engine learns about it."""

from __future__ import annotations

import dataclasses

import pytest

from tokenworks.plan.gateway_types import TenantPlan

from .engine import SimulatedEngine
from .harness import JSON, KEY, KEYS, OTHER_KEY, Gateway, refusal, until
from .simulated import CHAT

pytestmark = pytest.mark.envoy

BODY = {"model": "alpha"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
        {"authorization": f"Bearer {KEY}x"},
        {"authorization": f"Bearer {KEY[:-1]}"},
        {"authorization": f"Bearer {KEY.upper()}"},
        {"authorization": f"Bearer {KEY},{KEY}"},
        {"authorization": f"Bearer {'x' * 50_000}"},
        {"x-api-key": "wrong"},
        {"x-api-key": ""},
        {"authorization": "Bearer wrong", "x-api-key": KEY},
        {"x-tenant-id": "search"},
        {"api-key": KEY},
    ],
    ids=lambda headers: " ".join(f"{n}={v[:24]}" for n, v in headers.items()) or "none",
)
def test_without_a_known_key_nothing_reaches_an_engine(
    gateway: Gateway, engine: SimulatedEngine, headers: dict[str, str]
) -> None:
    reply = gateway.request("POST", CHAT, b'{"model": "alpha"}', {**JSON, **headers})
    assert refusal(reply) == (401, "invalid_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert engine.received == []


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/v1/nowhere"])
def test_without_a_key_every_path_gives_the_same_refusal(gateway: Gateway, path: str) -> None:
    assert refusal(gateway.request("GET", path, None, {})) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY}"},
        {"x-api-key": KEY},
        {"authorization": f"Bearer {KEY}", "x-api-key": "secret-but-unused"},
    ],
    ids=["bearer", "lower-case bearer", "x-api-key", "both"],
)
def test_a_known_key_names_the_tenant_and_stays_at_the_gateway(
    gateway: Gateway, engine: SimulatedEngine, headers: dict[str, str]
) -> None:
    reply = gateway.request("POST", CHAT, b'{"model": "alpha"}', {**JSON, **headers})
    assert reply.status == 200
    (received,) = engine.received
    assert received.headers["x-tenant-id"] == "search"
    assert "authorization" not in received.headers
    assert "x-api-key" not in received.headers
    assert KEY not in str(received)


def test_each_tenant_has_its_own_keys(gateway: Gateway, engine: SimulatedEngine) -> None:
    gateway.post(BODY, key=KEY)
    gateway.post(BODY, key=OTHER_KEY)
    assert [request.headers["x-tenant-id"] for request in engine.received] == ["search", "support"]


def test_what_the_gateway_says_about_a_caller_cannot_come_from_the_caller(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    spoofed = {
        "x-tenant-id": "evil",
        "X-Tenant-Id": "evil",
        "x_tenant_id": "evil",
        "x-tenant-anything": "evil",
        "x-llm-model": "evil",
        "x-llm-anything": "evil",
        "x-envoy-retry-on": "evil",
        "x-envoy-upstream-rq-timeout-ms": "1",
        "x-envoy-original-path": "evil",
        "x-envoy-anything": "evil",
        "x-request-id": "evil",
    }
    assert gateway.post(BODY, headers=spoofed).status == 200
    (received,) = engine.received
    assert received.headers["x-tenant-id"] == "search"
    assert received.headers["x-llm-model"] == "alpha"
    assert "evil" not in str(received)
    assert "x-envoy-upstream-rq-timeout-ms" not in received.headers


def test_hashes_are_right_for_every_length_of_key(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    """The lengths on both sides of SHA-256's padding and block borders, and the longest key."""
    lengths = (1, 2, 54, 55, 56, 57, 63, 64, 65, 118, 119, 120, 127, 128, 200, 511, 512)
    alphabet = "".join(chr(code) for code in range(0x21, 0x7F))
    keys = {f"tenant-{n}": (alphabet * 6)[n : 2 * n] for n in lengths}
    tenants = tuple(TenantPlan(name=name, key_secrets=(), isolated=False) for name in keys)
    gateway.config.publish(gateway.files(dataclasses.replace(gateway.plan, tenants=tenants)))
    gateway.publish_keys({tenant: [key] for tenant, key in keys.items()})
    try:
        until(lambda: gateway.post(BODY, key=keys["tenant-1"]).status == 200, what="new keys")
        engine.received.clear()
        assert {gateway.post(BODY, key=key).status for key in keys.values()} == {200}
        assert [request.headers["x-tenant-id"] for request in engine.received] == list(keys)
    finally:
        gateway.config.publish(gateway.files(gateway.plan))
        gateway.publish_keys(KEYS)
        until(lambda: gateway.post(BODY).status == 200, what="old keys")


def test_a_key_of_a_tenant_whose_rights_are_not_known_yet_opens_nothing(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    """Keys and rights come in two volumes, and either may be seen first."""
    gateway.publish_keys({**KEYS, "newcomer": ["a-newcomer-s-key"]})
    try:
        until(lambda: gateway.post(BODY, key="a-newcomer-s-key").status != 401, what="the new key")
        reply = gateway.post(BODY, key="a-newcomer-s-key")
        assert refusal(reply) == (403, "model_not_allowed")
        assert engine.received == []
    finally:
        gateway.publish_keys(KEYS)
        until(lambda: gateway.post(BODY, key="a-newcomer-s-key").status == 401, what="old keys")


def test_a_rotated_key_holds_at_once_and_no_stream_is_cut(gateway: Gateway) -> None:
    with gateway.streaming({**BODY, "simulate": {"events": 30, "gap_seconds": 0.1}}) as stream:
        gateway.publish_keys({"search": ["another-key"]})
        until(lambda: gateway.post(BODY, key="another-key").status == 200, what="new key")
        assert gateway.post(BODY, key=KEY).status == 401
        gateway.publish_keys(KEYS)
        until(lambda: gateway.post(BODY, key=KEY).status == 200, what="old key")
        assert gateway.post(BODY, key="another-key").status == 401
    assert len(stream.events) == 31
    assert not stream.broken


def test_an_error_while_checking_keys_lets_nobody_in(
    gateway: Gateway, engine: SimulatedEngine
) -> None:
    """Envoy lets a request go on when Lua fails; the next filter must not."""
    faulty = gateway.keys.root / "keys.yaml"
    text = faulty.read_text(encoding="utf-8")
    gateway.keys.publish(
        {"keys.yaml": text.replace("local key = presented(headers)", "local key = nothing()")}
    )
    try:
        until(lambda: gateway.post(BODY).status != 200, what="faulty filter")
        engine.received.clear()
        assert refusal(gateway.post(BODY)) == (403, "bad_request")
        assert refusal(gateway.post(BODY, headers={"x-tenant-id": "search"}))[0] == 403
        assert engine.received == []
    finally:
        gateway.publish_keys(KEYS)
        until(lambda: gateway.post(BODY).status == 200, what="old keys")


@pytest.mark.parametrize("text", ["resources: [{]", "resources: []"], ids=["no YAML", "empty"])
def test_a_broken_keys_file_is_refused_and_the_old_keys_stay(gateway: Gateway, text: str) -> None:
    before = _refused_keys(gateway)
    gateway.keys.publish({"keys.yaml": text})
    until(lambda: _refused_keys(gateway) > before, what="refused keys")
    assert gateway.post(BODY, key=KEY).status == 200
    assert gateway.post(BODY, key="wrong").status == 401
    gateway.publish_keys(KEYS)


def _refused_keys(gateway: Gateway) -> float:
    """Envoy counts what is no YAML as a failure, and what is no filter as a rejection."""
    prefix = "envoy_extension_config_discovery_http_filter_api_keys_update"
    return gateway.metric(f"{prefix}_rejected") + gateway.metric(f"{prefix}_failure")
