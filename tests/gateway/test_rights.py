"""Whoever cannot be decided about is not let in: unknown rights, tenants and classes of data."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.plan.gateway_types import GatewayPlan, ManagedApi, Step, TenantPlan
from tokenworks.render_admission import HARMLESS_CLASSES

from .budgets import budget
from .engine import SimulatedEngine
from .harness import (
    JSON,
    KEY,
    KEYS,
    OTHER_KEY,
    Gateway,
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
from .simulated import CHAT

pytestmark = pytest.mark.envoy

NEWCOMER = "a-newcomer-s-key-0123456789"
NOT_READY = (503, "model_not_ready")


@pytest.fixture
def growing(engine: SimulatedEngine, tmp_path: Path) -> Iterator[tuple[Gateway, GatewayPlan]]:
    """A gateway, and its plan with another model; ``support`` may use the first alone."""
    search = TenantPlan(name="search", key_secrets=(), tokens=budget(50), default_max_tokens=60)
    support = TenantPlan(name="support", key_secrets=(), isolated=False, models=("alpha",))
    alpha = engines_of("alpha", engine.port)
    plan = plan_for([alpha], tenants=(search, support))
    grown = replace(
        plan,
        models=(alpha, engines_of("fresh", engine.port)),
        routes=(*plan.routes, route_to("fresh")),
    )
    with running(tmp_path, plan) as gateway:
        engine.received.clear()
        yield gateway, grown


def status(gateway: Gateway, key: str) -> Callable[[], int]:
    return lambda: gateway.post({"model": "fresh"}, key=key).status


@pytest.mark.parametrize("late", ["not read yet", "rejected"])
def test_a_model_whose_rights_are_not_known_yet_is_open_to_nobody(
    growing: tuple[Gateway, GatewayPlan], engine: SimulatedEngine, late: str
) -> None:
    """Routes and rights are two files: with the routes alone nothing says who may, nor how much."""
    gateway, grown = growing
    before, files = gateway.files(gateway.plan), gateway.files(grown)
    old = before["admission.yaml"]
    faulty = files["admission.yaml"].replace("function envoy_on_request(", "function (")
    assert faulty != files["admission.yaml"]
    gateway.config.publish({**files, "admission.yaml": old if late == "not read yet" else faulty})
    until(lambda: status(gateway, OTHER_KEY)() != 404, what="the new routes")
    time.sleep(0.5)
    for key in (*KEYS["search"], OTHER_KEY):
        reply = gateway.post({"model": "fresh", "cache_salt": "search"}, key=key)
        assert refusal(reply) == NOT_READY
        assert reply.json["error"]["type"] == "server_error"
        assert reply.headers["retry-after"] == "5"
    assert engine.received == []
    gateway.config.publish(files)
    until(lambda: status(gateway, OTHER_KEY)() == 403, what="the new rights")
    over = gateway.post({"model": "fresh"})
    assert refusal(over) == (400, "request_exceeds_budget")
    assert engine.received == []
    assert gateway.post({"model": "alpha"}, key=OTHER_KEY).status == 200


def test_a_model_that_is_taken_away_is_refused_in_either_order(
    growing: tuple[Gateway, GatewayPlan], engine: SimulatedEngine
) -> None:
    gateway, grown = growing
    files, shrunk = gateway.files(grown), gateway.files(gateway.plan)
    gateway.config.publish(files)
    until(lambda: status(gateway, OTHER_KEY)() == 403, what="the new model")
    gateway.config.publish({**files, "admission.yaml": shrunk["admission.yaml"]})
    until(lambda: status(gateway, OTHER_KEY)() == 503, what="rights without it")
    gateway.config.publish(shrunk)
    until(lambda: status(gateway, OTHER_KEY)() == 404, what="routes without it")
    gateway.config.publish({**shrunk, "admission.yaml": files["admission.yaml"]})
    time.sleep(1.0)
    assert refusal(gateway.post({"model": "fresh"}, key=OTHER_KEY)) == (404, "model_not_found")
    assert engine.received == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", None),
        ("POST", "/v1/models", b"{}"),
        ("POST", "/v1/chat/completions", b'{"model": "alpha"}'),
        ("POST", "/v1/chat/completions", b'{"model": "gone"}'),
        ("POST", "/v1/completions", b'{"model": "alpha"}'),
        ("POST", "/v1/chat/completions", b"no JSON"),
        ("GET", "/health", None),
    ],
)
def test_a_tenant_that_nobody_planned_learns_nothing(
    gateway: Gateway, engine: SimulatedEngine, method: str, path: str, body: bytes | None
) -> None:
    """Neither a model's answer nor which models there are."""
    gateway.publish_keys({**KEYS, "newcomer": [NEWCOMER]})
    headers = {"authorization": f"Bearer {NEWCOMER}", "content-type": "application/json"}
    try:
        until(lambda: gateway.post({}, key=NEWCOMER).status != 401, what="the new key")
        reply = gateway.request(method, path, body, headers)
        assert refusal(reply) == (403, "model_not_allowed")
        assert not [one.model for one in gateway.plan.models if one.model in reply.body.decode()]
        assert engine.received == []
    finally:
        gateway.publish_keys(KEYS)
        until(lambda: gateway.post({}, key=NEWCOMER).status == 401, what="old keys")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedService]:
    with ManagedService(tmp_path_factory.mktemp("cloud")) as service:
        yield service


@pytest.fixture(scope="module")
def leaving(
    engine: SimulatedEngine, cloud: ManagedService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Long requests leave for a managed API, and all do when the engines of ``dead`` are gone."""
    step = Step(kind="api", name="cloud", rewrites=True)
    api = ManagedApi(
        name="cloud",
        host="localhost",
        port=cloud.port,
        base_path="/v1",
        model="cloud-model",
        credential_secret="key-cloud",  # noqa: S106  (the name of one)
        max_concurrent_requests=8,
    )
    small = model_step("alpha", rewrites=True)
    plan = plan_for(
        [engines_of("alpha", engine.port), engines_of("dead", free_port())],
        apis=(api,),
        routes=(
            route_to(
                "alpha", step, name="rule/long", prompt_bytes=(4000, 1 << 40), restricted=False
            ),
            route_to("alpha"),
            route_to("dead", model_step("dead"), small, name="kept", restricted=True),
            route_to("dead", model_step("dead"), step, small, restricted=False),
        ),
    )
    root = tmp_path_factory.mktemp("leaving")
    with running(root, plan, credentials={"cloud": API_KEY}, trusted_ca=cloud.chain) as gateway:
        yield gateway


def asked_with(gateway: Gateway, *classes: str) -> list[str | None]:
    """Who answers a long request and one for engines that are gone; None is the model itself."""
    said = {"x-data-class": ", ".join(classes)} if classes else {}
    bodies = ({"model": "alpha", "pad": "x" * 5000}, {"model": "dead"})
    replies = [gateway.post(body, headers=said) for body in bodies]
    assert [reply.status for reply in replies] == [200, 200]
    return [reply.headers.get("x-served-by") for reply in replies]


@pytest.mark.parametrize("said", [(), *((one,) for one in HARMLESS_CLASSES), ("Public",)])
def test_data_that_may_leave_does(leaving: Gateway, said: tuple[str, ...]) -> None:
    assert asked_with(leaving, *said) == ["api/cloud", "api/cloud"]


@pytest.mark.parametrize(
    "said",
    [
        ("restricted",),
        ("Restricted",),
        ("RESTRICTED ",),
        ("restricted", "pii"),
        ("public", "restricted"),
        ("public", "public"),
        ("restrict",),
        ("confidential",),
        ("",),
        ("public;level=3",),
    ],
)
def test_any_other_class_of_data_stays_self_hosted(
    leaving: Gateway, cloud: ManagedService, said: tuple[str, ...]
) -> None:
    """However it is spelt, and also where nobody here knows the word."""
    cloud.received.clear()
    assert asked_with(leaving, *said) == [None, "model/alpha"]
    assert cloud.received == []


@pytest.mark.parametrize("lines", [("public", "restricted"), ("restricted", "public")])
def test_two_lines_about_one_request_s_data_do_not_hide_each_other(
    leaving: Gateway, cloud: ManagedService, lines: tuple[str, str]
) -> None:
    cloud.received.clear()
    body = json.dumps({"model": "dead"}).encode()
    with contextlib.closing(leaving.connection()) as connection:
        connection.putrequest("POST", CHAT)
        for name, value in (*JSON.items(), ("authorization", f"Bearer {KEY}")):
            connection.putheader(name, value)
        for value in lines:
            connection.putheader("x-data-class", value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        assert connection.getresponse().getheader("x-served-by") == "model/alpha"
    assert cloud.received == []
