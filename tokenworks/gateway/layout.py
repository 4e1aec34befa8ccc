"""What runs on loopback for one environment, where each part listens, and where its files lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tokenworks.gateway.loopback import Address, Substitution
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.plan.types import Plan
from tokenworks.render_gateway import GatewayMounts

LOOPBACK: Final = "127.0.0.1"
STORE: Final = "store"
RATE_LIMIT: Final = "rate-limit"
GATEWAY: Final = "gateway"


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """One simulated engine: a replica of a model, or the stand-in of a managed API."""

    name: str
    model: str
    max_batch_size: int
    api_host: str = ""
    """The name in its certificate, where it stands for a managed API."""


def engine_specs(plan: Plan) -> tuple[EngineSpec, ...]:
    """An engine for each replica of each model, then one for each managed API."""
    replicas = tuple(
        EngineSpec(
            name=f"{model.name}-{index}",
            model=model.name,
            max_batch_size=model.max_batch_size.value,
        )
        for model in plan.models
        for index in range(model.replicas.value)
    )
    apis = tuple(
        EngineSpec(
            name=f"api-{api.name}",
            model=api.model,
            max_batch_size=api.max_concurrent_requests,
            api_host=api.host,
        )
        for api in plan.gateway.apis
    )
    return replicas + apis


def port_names(plan: Plan) -> tuple[str, ...]:
    """Everything that needs a port: the gateway's three, its service's four, two per engine."""
    engines = engine_specs(plan)
    service = (STORE, f"{RATE_LIMIT}-grpc", f"{RATE_LIMIT}-http", f"{RATE_LIMIT}-debug")
    return (
        *(GATEWAY, "gateway-admin", "gateway-readiness"),
        *(service if plan.gateway.rate_limit else ()),
        *(name for engine in engines for name in (engine.name, f"{engine.name}-control")),
    )


def local_plan(plan: GatewayPlan, ports: Mapping[str, int]) -> GatewayPlan:
    """The gateway's plan with the ports that it listens on here; no load balancer is before it."""
    return replace(
        plan,
        proxy_protocol=False,
        tls_port=ports[GATEWAY],
        admin_port=ports["gateway-admin"],
        readiness_port=ports["gateway-readiness"],
    )


def substitution(plan: Plan, ports: Mapping[str, int]) -> Substitution:
    """Where the engines, the managed APIs and the rate-limit service are here."""
    places: dict[Address, list[Address]] = {}
    hosts = {model.model: (model.host, model.port) for model in plan.gateway.models}
    apis = {f"api-{api.name}": (api.host, api.port) for api in plan.gateway.apis}
    for engine in engine_specs(plan):
        original = apis[engine.name] if engine.api_host else hosts[engine.model]
        places.setdefault(original, []).append((LOOPBACK, ports[engine.name]))
    service = plan.gateway.rate_limit
    if service is not None:
        places[service.host, service.port] = [(LOOPBACK, ports[f"{RATE_LIMIT}-http"])]
    return Substitution(addresses={address: tuple(here) for address, here in places.items()})


@dataclass(frozen=True)
class Folders:
    """The files of one environment's gateway, below ``.tokenworks/<environment>/gateway``."""

    root: Path

    @property
    def mounts(self) -> GatewayMounts:
        """What Envoy reads, as a pod would have it mounted."""
        return GatewayMounts(
            config=str(self.root / "volumes" / "config"),
            keys=str(self.root / "volumes" / "keys"),
            tls=str(self.root / "volumes" / "tls"),
            credentials=str(self.root / "volumes" / "credentials"),
            client_ca=str(self.root / "volumes" / "client-ca"),
            trusted_ca=str(self.root / "apis" / "ca.crt"),
        )

    @property
    def budgets(self) -> Path:
        """What the rate-limit service reads."""
        return self.root / "volumes" / "budgets"

    @property
    def caller(self) -> Path:
        """A certificate that callers may show here, and the authority that signed it."""
        return self.root / "caller"

    @property
    def status(self) -> Path:
        """What runs, for other commands."""
        return self.root / "status.json"

    @property
    def stopped(self) -> Path:
        """The names of what somebody wants stopped, one a line."""
        return self.root / "stopped"

    @property
    def lock(self) -> Path:
        """Held by the command that serves."""
        return self.root / "lock"

    def api(self, name: str) -> Path:
        """The certificate of a managed API's stand-in."""
        return self.root / "apis" / name

    def key(self, tenant: str) -> Path:
        """A tenant's key as a header line, in the form that ``curl --header @file`` reads."""
        return self.root / "keys" / f"{tenant}.header"
