from __future__ import annotations

from collections.abc import Iterator

import pytest

from tokenworks.plan.types import GatewayRoute

from .engine import SimulatedEngine
from .harness import LOOPBACK, Gateway, free_port, plan_for, running

ODD_MODEL = "meta/odd \"name\" {x}: #1 %REQ(authorization)% \\ 'é'"


@pytest.fixture(scope="session")
def engine() -> Iterator[SimulatedEngine]:
    """The engine of model ``alpha`` and of every model that is not ``beta``."""
    with SimulatedEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def other_engine() -> Iterator[SimulatedEngine]:
    """The engine of model ``beta`` alone."""
    with SimulatedEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def shared_gateway(
    engine: SimulatedEngine,
    other_engine: SimulatedEngine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    def route(model: str, port: int, most: int = 64) -> GatewayRoute:
        return GatewayRoute(model=model, host=LOOPBACK, port=port, max_concurrent_requests=most)

    routes = (
        route("alpha", engine.port),
        route("beta", other_engine.port),
        route("narrow", engine.port, most=2),
        route("admin", engine.port),
        route(ODD_MODEL, engine.port),
        route("absent", free_port()),
    )
    with running(tmp_path_factory.mktemp("gateway"), plan_for(routes)) as gateway:
        yield gateway


@pytest.fixture
def gateway(
    shared_gateway: Gateway, engine: SimulatedEngine, other_engine: SimulatedEngine
) -> Gateway:
    """The running gateway, before engines that have seen nothing yet."""
    engine.received.clear()
    other_engine.received.clear()
    return shared_gateway
