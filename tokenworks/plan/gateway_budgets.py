"""What each tenant may use in a minute, and how far that can be exceeded at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenworks.environment.gateway import Tenant
from tokenworks.plan.gateway_types import (
    Budget,
    GatewayRoute,
    ManagedApi,
    ModelEngines,
    TenantPlan,
)
from tokenworks.plan.types import Decided

SHARES_PER_COUNTER = 16
"""Portions in which each gateway process takes its even share of a budget: it then asks about as
many times in a minute, and leaves at most a sixteenth of the budget unused."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """Where routes lead to: engines and managed APIs by what is asked for."""

    models: tuple[ModelEngines, ...]
    apis: tuple[ManagedApi, ...]
    routes: tuple[GatewayRoute, ...]

    def of(self, model: str, tenant: Tenant | None = None) -> list[ModelEngines | ManagedApi]:
        """Each place that may answer a request for the model, once; for one tenant or for all.

        A fixed answer is none, since it uses nothing, nor is a shadow, which nobody is charged for.
        """
        engines = {("model", one.model): one for one in self.models}
        apis = {("api", one.name): one for one in self.apis}
        steps = {
            (step.kind, step.name): None
            for route in self.routes
            if route.model == model and (tenant is None or _meets(tenant, route))
            for target in route.targets
            for step in target.steps
        }
        return [(engines | apis)[step] for step in steps if step[0] != "answer"]


def _meets(tenant: Tenant, route: GatewayRoute) -> bool:
    """Whether a route may take a request of the tenant."""
    if tenant.restricted and route.restricted is False:
        return False
    return not route.tenants or tenant.name in route.tenants


def longest_known(places: Iterable[ModelEngines | ManagedApi]) -> int:
    """The longest sequence of all engines among the places, in tokens."""
    return max((one.longest_tokens for one in places if isinstance(one, ModelEngines)), default=0)


def leads_elsewhere(places: Iterable[ModelEngines | ManagedApi]) -> bool:
    """Whether a managed API is among the places; how long its answers can be is not known."""
    return any(isinstance(one, ManagedApi) for one in places)


def tenant_plan(tenant: Tenant, ways: Ways, *, counters: int, replicas: int) -> TenantPlan:
    """One tenant's rights and budgets.

    ``counters`` is how many processes count for themselves, ``replicas`` how many gateways admit
    requests for themselves.
    """
    requests, tokens = tenant.requests_per_minute, tenant.tokens_per_minute
    return TenantPlan(
        name=tenant.name,
        key_secrets=tuple(key.pulumi_secret for key in tenant.api_keys or ()),
        models=tenant.models or (),
        requests=_budget(requests, counters, _EXACT) if requests else None,
        tokens=_budget(tokens, counters, _beyond(tenant, tokens, ways, replicas))
        if tokens
        else None,
        default_max_tokens=tenant.default_max_tokens,
        restricted=tenant.restricted,
        isolated=tenant.cache == "isolated",
    )


_EXACT: Decided[int | None] = Decided(
    0, "every request is taken from the budget before it is let in"
)


def _budget(per_minute: int, counters: int, overshoot: Decided[int | None]) -> Budget:
    quantum = max(1, per_minute // (SHARES_PER_COUNTER * counters))
    return Budget(
        per_minute=per_minute,
        quantum=Decided(
            quantum,
            f"{per_minute} a minute over {counters} processes, each of which takes its part in "
            f"{SHARES_PER_COUNTER} portions",
        ),
        share=Decided(
            per_minute // counters,
            f"{per_minute} a minute / {counters} processes, while the rate-limit service is away",
        ),
        overshoot=overshoot,
    )


def _beyond(tenant: Tenant, per_minute: int, ways: Ways, replicas: int) -> Decided[int | None]:
    if tenant.default_max_tokens is None:
        return _overshoot(tenant, per_minute, ways, replicas)
    return Decided(
        0,
        f"requests without max_tokens get {tenant.default_max_tokens}, so each reserves "
        "its longest answer; prompts as long as their size says",
    )


_STATED = "none when callers state max_tokens and prompts are as long as their size says"


_Led = dict[ModelEngines, list[ModelEngines | ManagedApi]]
"""Where the requests for each model may be answered."""


def _overshoot(tenant: Tenant, per_minute: int, ways: Ways, replicas: int) -> Decided[int | None]:
    """The most that requests in flight can use beyond what they reserved; None: nobody knows."""
    led: _Led = {
        one: ways.of(one.model, tenant)
        for one in ways.models
        if tenant.models is None or one.model in tenant.models
    }
    places = [place for found in led.values() for place in found]
    if not leads_elsewhere(places):
        return _within_engines(led, per_minute, replicas)
    apis = sorted({place.name for place in places if isinstance(place, ManagedApi)})
    return Decided(
        None,
        f"requests may go to {', '.join(apis)}, and how long an answer of a managed API can be is "
        f"not known; {_STATED}",
    )


def _within_engines(led: _Led, per_minute: int, replicas: int) -> Decided[int | None]:
    """The same where only engines answer.

    A request that states its limit reserves it. One that states none reserves the default and may
    run to the longest sequence of wherever it is answered; as many of those are in flight as there
    are places, or as the budget pays defaults for.
    """
    beyond = _excesses(led)
    places = replicas * sum(place.max_concurrent_requests for place in beyond)
    default = min(one.default_tokens for one in led)
    paid = per_minute // default
    total, in_flight = 0, 0
    for place in sorted(beyond, key=lambda one: -beyond[one]):
        fitting = min(replicas * place.max_concurrent_requests, paid - in_flight)
        total, in_flight = total + fitting * beyond[place], in_flight + fitting
    return Decided(
        total,
        f"at most {in_flight} requests in flight ({places} places behind its routes, {paid} "
        f"defaults of {default} tokens in the budget), each up to {max(beyond.values())} tokens "
        f"longer than it reserved; {_STATED}",
    )


def _excesses(led: _Led) -> dict[ModelEngines, int]:
    """By how much a sequence of each place can exceed what a request that came there reserved."""
    found: dict[ModelEngines, int] = {}
    for asked, places in led.items():
        for place in places:
            if isinstance(place, ModelEngines):
                beyond = place.longest_tokens - asked.default_tokens
                found[place] = max(found.get(place, 0), beyond)
    return found
