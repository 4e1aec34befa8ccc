from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from tokenworks.toolchain import GATEWAY_TOOLS, Toolbox, ensure, showing

from .engine import SimulatedEngine
from .harness import Gateway, engines_of, free_port, plan_for, running

ODD_MODEL = "meta/odd \"name\" {x}: #1 %REQ(authorization)% \\ 'é'"


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """The rate-limit service and its store alone."""
    with showing(Console(stderr=True)) as report:
        return ensure(GATEWAY_TOOLS, report)


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
    models = (
        engines_of("alpha", engine.port),
        engines_of("beta", other_engine.port),
        engines_of("narrow", engine.port, most=2),
        engines_of("admin", engine.port),
        engines_of(ODD_MODEL, engine.port),
        engines_of("absent", free_port()),
    )
    with running(tmp_path_factory.mktemp("gateway"), plan_for(models)) as gateway:
        yield gateway


@pytest.fixture
def gateway(
    shared_gateway: Gateway, engine: SimulatedEngine, other_engine: SimulatedEngine
) -> Gateway:
    """The running gateway, before engines that have seen nothing yet."""
    engine.received.clear()
    other_engine.received.clear()
    return shared_gateway
