"""Each managed API is asked with its own key, however many there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.plan.gateway_types import ManagedApi, Step

from .harness import engines_of, free_port, model_step, plan_for, route_to, running, until
from .managed import ManagedService

pytestmark = pytest.mark.envoy

APIS = ("first-cloud", "second-cloud")


def managed(name: str, port: int) -> ManagedApi:
    return ManagedApi(
        name=name,
        host="localhost",
        port=port,
        base_path=f"/{name}",
        model="m",
        credential_secret=f"key-{name}",
        max_concurrent_requests=2,
    )


def test_two_managed_apis_get_each_its_own_key(tmp_path: Path) -> None:
    """They are told apart by their paths on one service."""
    (tmp_path / "cloud").mkdir()
    (tmp_path / "gateway").mkdir()
    with ManagedService(tmp_path / "cloud") as service:
        plan = plan_for(
            [engines_of(f"by-{name}", free_port()) for name in APIS],
            apis=tuple(managed(name, service.port) for name in APIS),
            routes=tuple(
                route_to(
                    f"by-{name}",
                    model_step(f"by-{name}"),
                    Step(kind="api", name=name, rewrites=True),
                )
                for name in APIS
            ),
        )
        keys = {name: f"sk-of-{name}" for name in APIS}
        with running(
            tmp_path / "gateway", plan, credentials=keys, trusted_ca=service.chain
        ) as gateway:
            for name in APIS:
                until(
                    lambda name=name: gateway.post({"model": f"by-{name}"}).status == 200,  # type: ignore[misc]
                    what=f"an answer of {name}",
                )
        sent = {(one.path.split("/")[1], one.headers["authorization"]) for one in service.received}
    assert sent == {(name, f"Bearer {keys[name]}") for name in APIS}
