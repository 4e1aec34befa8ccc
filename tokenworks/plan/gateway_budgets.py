"""What each tenant may use in a minute, and how far that can be exceeded at most."""

from __future__ import annotations

from collections.abc import Sequence

from tokenworks.environment.gateway import Tenant
from tokenworks.plan.gateway_types import Budget, ModelEngines, TenantPlan
from tokenworks.plan.types import Decided

SHARES_PER_COUNTER = 16
"""Portions in which each gateway process takes its even share of a budget: it then asks about as
many times in a minute, and leaves at most a sixteenth of the budget unused."""


def tenant_plan(
    tenant: Tenant, models: Sequence[ModelEngines], *, counters: int, replicas: int
) -> TenantPlan:
    """One tenant's rights and budgets.

    ``counters`` is how many processes count for themselves, ``replicas`` how many gateways admit
    requests for themselves.
    """
    usable = [one for one in models if tenant.models is None or one.model in tenant.models]
    requests, tokens = tenant.requests_per_minute, tenant.tokens_per_minute
    return TenantPlan(
        name=tenant.name,
        key_secrets=tuple(key.pulumi_secret for key in tenant.api_keys or ()),
        models=tenant.models or (),
        requests=_budget(requests, counters, _EXACT) if requests else None,
        tokens=_budget(tokens, counters, _beyond(tenant, tokens, usable, replicas))
        if tokens
        else None,
        default_max_tokens=tenant.default_max_tokens,
        restricted=tenant.restricted,
        isolated=tenant.cache == "isolated",
    )


_EXACT = Decided(0, "every request is taken from the budget before it is let in")


def _budget(per_minute: int, counters: int, overshoot: Decided[int]) -> Budget:
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


def _beyond(
    tenant: Tenant, per_minute: int, usable: Sequence[ModelEngines], replicas: int
) -> Decided[int]:
    if tenant.default_max_tokens is None:
        return _overshoot(per_minute, usable, replicas)
    return Decided(
        0,
        f"requests without max_tokens get {tenant.default_max_tokens}, so each reserves "
        "its longest answer; prompts as long as their size says",
    )


def _overshoot(per_minute: int, usable: Sequence[ModelEngines], replicas: int) -> Decided[int]:
    """The most that requests in flight can use beyond what they reserved.

    A request that states its limit reserves it. One that states none reserves the default and may
    run to the longest sequence; as many of those are in flight as there are places, or as the
    budget pays defaults for.
    """
    worst = max(usable, key=lambda one: _excess(one, per_minute, replicas))
    places = worst.max_concurrent_requests * replicas
    paid = per_minute // worst.default_tokens
    return Decided(
        _excess(worst, per_minute, replicas),
        f"at most {min(places, paid)} requests in flight ({places} places of {worst.model}, {paid} "
        f"defaults of {worst.default_tokens} tokens in the budget), each {worst.longest_tokens} "
        f"tokens long instead of {worst.default_tokens}; none when callers state max_tokens and "
        "prompts are as long as their size says",
    )


def _excess(model: ModelEngines, per_minute: int, replicas: int) -> int:
    in_flight = min(model.max_concurrent_requests * replicas, per_minute // model.default_tokens)
    return in_flight * max(0, model.longest_tokens - model.default_tokens)
