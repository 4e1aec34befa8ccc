"""Everything that changes while a gateway serves, each under streams of which none is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tokenworks.plan.gateway_types import GatewayPlan, StaticAnswer, Step, Target, TenantPlan

from .engine import SimulatedEngine
from .harness import (
    KEY,
    KEYS,
    OTHER_KEY,
    Gateway,
    certificate,
    decided,
    engines_of,
    free_port,
    model_step,
    plan_for,
    route_to,
    running,
    until,
)
from .held import HeldEngine, held_streams

pytestmark = pytest.mark.envoy

SMALL = model_step("small", rewrites=True)
ANSWER = Step(kind="answer", name="dead", rewrites=True)
NEW_KEY = "key-of-search-fedcba9876543210"


@pytest.fixture(scope="module")
def streaming_engine() -> Iterator[HeldEngine]:
    with HeldEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def started(
    streaming_engine: HeldEngine, engine: SimulatedEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Streams run on ``alpha``; ``dead`` has no engines and falls back to ``small``."""
    plan = plan_for(
        [
            engines_of("alpha", streaming_engine.port),
            engines_of("small", engine.port),
            engines_of("dead", free_port()),
        ],
        answers=(StaticAnswer(model="dead", text="Ask again later."),),
        routes=(
            route_to("alpha"),
            route_to("small"),
            route_to("dead", model_step("dead"), SMALL),
            # Names the hop of the answer, so that a changed chain changes no listener.
            route_to("small", ANSWER, name="release/none", release="none"),
            route_to("alpha", SMALL, name="release/small", release="small"),
        ),
        max_request_seconds=decided(120),
        stream_idle_seconds=decided(120),
        drain_seconds=decided(120),
    )
    with running(tmp_path_factory.mktemp("rotations"), plan) as gateway:
        yield gateway


def changed(gateway: Gateway, *routes: Any) -> None:
    """Publish the plan with other routes of the same names."""
    names = {route.name for route in routes}
    kept = tuple(route for route in gateway.plan.routes if route.name not in names)
    publish(gateway, dataclasses.replace(gateway.plan, routes=(*routes, *kept)))


def publish(gateway: Gateway, plan: GatewayPlan) -> None:
    gateway.config.publish(gateway.files(plan))


def status(gateway: Gateway, model: str = "small", key: str = KEY) -> int:
    return gateway.post({"model": model}, key=key).status


def served_by(gateway: Gateway, model: str) -> str | None:
    return gateway.post({"model": model}).headers.get("x-served-by")


def a_key_is_added(gateway: Gateway) -> None:
    gateway.publish_keys({**KEYS, "search": [KEY, NEW_KEY]})
    until(lambda: status(gateway, key=NEW_KEY) == 200, what="the new key")
    assert status(gateway) == 200


def the_key_of_the_streams_is_removed(gateway: Gateway) -> None:
    gateway.publish_keys({**KEYS, "search": [NEW_KEY]})
    until(lambda: status(gateway) == 401, what="the old key gone")
    assert status(gateway, key=NEW_KEY) == 200


def the_certificate_is_renewed(gateway: Gateway) -> None:
    renewed = certificate()
    gateway.tls.publish(renewed)
    gateway.chain = renewed["tls.crt"]  # nothing else is trusted by the next request

    def shown() -> bool:
        try:
            return status(gateway) == 200
        except OSError:
            return False

    until(shown, what="the renewed certificate")


def a_model_is_added(gateway: Gateway) -> None:
    plan = gateway.plan
    (small,) = [model for model in plan.models if model.model == "small"]
    added = dataclasses.replace(small, model="added")
    routes = (*plan.routes, route_to("added"))
    publish(gateway, dataclasses.replace(plan, models=(*plan.models, added), routes=routes))
    until(lambda: status(gateway, "added") == 200, what="the added model")


def the_route_of_the_streams_is_removed(gateway: Gateway) -> None:
    left = tuple(route for route in gateway.plan.routes if route.model != "alpha")
    publish(gateway, dataclasses.replace(gateway.plan, routes=left))
    until(lambda: status(gateway, "alpha") == 404, what="the model gone")


def a_canary_takes_over(gateway: Gateway) -> None:
    for weight in (10, 50, 100):
        targets = (
            Target(steps=(model_step("alpha"),), weight=100 - weight),
            Target(steps=(SMALL,), weight=weight),
        )
        changed(gateway, route_to("alpha", targets=tuple(one for one in targets if one.weight)))
    until(
        lambda: [served_by(gateway, "alpha") for _ in range(6)] == ["model/small"] * 6,
        what="everything goes to the release",
    )


def a_fallback_chain_gets_another_end(gateway: Gateway) -> None:
    assert served_by(gateway, "dead") == "model/small"
    changed(gateway, route_to("dead", model_step("dead"), ANSWER))
    until(lambda: served_by(gateway, "dead") == "answer/dead", what="the other end")


def a_tenant_loses_a_model(gateway: Gateway) -> None:
    search, support = gateway.plan.tenants
    narrowed = TenantPlan(name=search.name, key_secrets=(), models=("dead",))
    publish(gateway, dataclasses.replace(gateway.plan, tenants=(narrowed, support)))
    until(lambda: status(gateway) == 403, what="the narrowed rights")
    assert status(gateway, key=OTHER_KEY) == 200


def a_limit_changes_and_with_it_the_listener(gateway: Gateway) -> None:
    """The streams stay with the old listener, for the drain time at most."""
    publish(gateway, dataclasses.replace(gateway.plan, max_request_body_bytes=decided(100)))
    long = {"model": "small", "x": "x" * 100}
    until(lambda: gateway.post(long).status == 413, what="the narrower limit")
    publish(gateway, gateway.plan)
    until(lambda: gateway.post(long).status == 200, what="the wider limit")


ROTATIONS: tuple[Callable[[Gateway], None], ...] = (
    a_key_is_added,
    the_key_of_the_streams_is_removed,
    the_certificate_is_renewed,
    a_model_is_added,
    the_route_of_the_streams_is_removed,
    a_canary_takes_over,
    a_fallback_chain_gets_another_end,
    a_tenant_loses_a_model,
    a_limit_changes_and_with_it_the_listener,
)


@pytest.mark.parametrize("rotate", ROTATIONS, ids=[one.__name__ for one in ROTATIONS])
def test_no_stream_is_cut_when(
    started: Gateway, streaming_engine: HeldEngine, rotate: Callable[[Gateway], None]
) -> None:
    with held_streams(started, streaming_engine, "alpha") as held:
        rotate(started)
        held.go_on(rotate.__name__)
        started.publish_keys(KEYS)
        publish(started, started.plan)
        until(lambda: status(started, "alpha") == 200, what="everything as it was")
        until(lambda: served_by(started, "alpha") is None, what="the model's own engines")
        held.go_on("everything is as it was")
        held.let_go()


def test_streams_outlive_all_changes_in_a_row(
    started: Gateway, streaming_engine: HeldEngine
) -> None:
    with held_streams(started, streaming_engine, "alpha", count=12) as held:
        for _ in range(5):
            the_certificate_is_renewed(started)
            shrunk = dataclasses.replace(started.plan, routes=started.plan.routes[1:])
            for plan, answer in ((shrunk, 404), (started.plan, 200)):
                started.publish_keys({**KEYS, "support": [NEW_KEY]})
                publish(started, plan)
                started.publish_keys(KEYS)
                # Of changes that follow each other at once Envoy reads the last one alone.
                until(lambda: status(started, "alpha") == answer, what="the routes")  # noqa: B023
            held.go_on("a round of changes")
        held.let_go()
    reloads = started.metric("envoy_http_rds_config_reload")
    assert reloads >= 10, reloads
