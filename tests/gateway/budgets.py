"""The rate-limit service and its store, as budgets need them in tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenworks.gateway import programs
from tokenworks.gateway.supervisor import Program, Supervisor
from tokenworks.plan.gateway_types import Budget, GatewayPlan, RateLimitPlan, TenantPlan
from tokenworks.plan.types import Image
from tokenworks.render_budgets import rate_limit_file
from tokenworks.toolchain import Toolbox

from .harness import Gateway, decided, engines_of, free_port, plan_for, refusal, running
from .simulated import LOOPBACK, Running

MINUTE = 60


def budget(per_minute: int, counters: int = 1) -> Budget:
    """A budget in the portions that a plan would choose."""
    return Budget(
        per_minute=per_minute,
        quantum=decided(max(1, per_minute // (16 * counters))),
        share=decided(per_minute // counters),
        overshoot=decided(0),
    )


@dataclass
class BudgetService:
    """envoyproxy/ratelimit over Valkey on free ports."""

    folder: Path
    supervisor: Supervisor
    store: Program
    service: Program
    http_port: int

    @property
    def plan(self) -> RateLimitPlan:
        """How a gateway on this machine reaches it."""
        image = Image(repository="none", tag="none", digest="none")
        return RateLimitPlan(
            image=image,
            store_image=image,
            replicas=decided(1),
            host=LOOPBACK,
            port=self.http_port,
            store_host=LOOPBACK,
            store_port=self.store.port,
            max_questions=decided(64),
            timeout_milliseconds=decided(250),
            down_seconds=decided(1),
        )

    @contextlib.contextmanager
    def keeping(self, plan: GatewayPlan) -> Iterator[None]:
        """The service with a plan's budgets and empty counters, ended with the block."""
        budgets = self.folder / "budgets" / "config"
        budgets.mkdir(parents=True, exist_ok=True)
        (budgets / "tokenworks.yaml").write_text(rate_limit_file(plan), encoding="utf-8")
        try:
            self.supervisor.start(self.store)
            self.supervisor.start(self.service)
            yield
        finally:
            self.supervisor.stop_all()


def limits(port: int, most: int) -> RateLimitPlan:
    """How a gateway reaches a service that a test brings itself, or that is not there."""
    image = Image(repository="none", tag="none", digest="none")
    return RateLimitPlan(
        image=image,
        store_image=image,
        replicas=decided(1),
        host=LOOPBACK,
        port=port,
        store_host=LOOPBACK,
        store_port=free_port(),
        max_questions=decided(most),
        timeout_milliseconds=decided(20_000),
        down_seconds=decided(60),
    )


def budget_service(toolbox: Toolbox, folder: Path) -> BudgetService:
    """A service that is not started yet."""
    names = ("store", "rate-limit-http", "rate-limit-grpc", "rate-limit-debug")
    ports: Mapping[str, int] = {name: free_port() for name in names}
    return BudgetService(
        folder=folder,
        supervisor=Supervisor(folder),
        store=programs.store(toolbox.path("valkey-server"), folder, ports),
        service=programs.rate_limit(
            toolbox.path("tokenworks-ratelimit"), folder / "budgets" / "config", ports
        ),
        http_port=ports["rate-limit-http"],
    )


def early_in_a_minute(seconds: int = 40) -> None:
    """Wait until the clock's minute has enough left, since budgets begin anew with the next."""
    past = time.time() % MINUTE
    if past > MINUTE - seconds:
        time.sleep(MINUTE - past + 0.2)


def plan_with(
    model: Running, service: BudgetService, counters: int = 1, **limits: int
) -> GatewayPlan:
    """Tenant ``search`` with the limits; ``support`` has none."""
    budgets = {kind: budget(limit, counters) for kind, limit in limits.items()}
    return plan_for(
        [engines_of("alpha", model.port)],
        tenants=(
            TenantPlan(name="search", key_secrets=(), **budgets),  # type: ignore[arg-type]
            TenantPlan(name="support", key_secrets=()),
        ),
        rate_limit=service.plan,
        counters=decided(counters),
        max_request_seconds=decided(20),
        stream_idle_seconds=decided(20),
    )


@contextlib.contextmanager
def gateways(root: Path, plan: GatewayPlan, count: int) -> Iterator[list[Gateway]]:
    """Gateways of one plan, each on ports of its own."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                running(
                    root / f"gateway-{number}",
                    replace(
                        plan,
                        tls_port=free_port(),
                        admin_port=free_port(),
                        readiness_port=free_port(),
                    ),
                )
            )
            for number in range(count)
        ]


BODY: dict[str, Any] = {"model": "alpha", "messages": [{"role": "user", "content": "hi"}]}


def ask(gateway: Gateway, **fields: Any) -> tuple[int, str]:
    reply = gateway.post({**BODY, **fields})
    return (reply.status, "") if reply.status == 200 else refusal(reply)


def failures(gateway: Gateway) -> float:
    text = gateway.plain("GET", "/stats/prometheus").body.decode()
    lines = [line for line in text.splitlines() if "budget_service_failures{" in line]
    return sum(float(line.split()[-1]) for line in lines)
