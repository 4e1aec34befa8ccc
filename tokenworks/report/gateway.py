"""Who may use how much, and where requests go, as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from tokenworks.plan.gateway_types import Budget, GatewayPlan, GatewayRoute, Step, TenantPlan
from tokenworks.report.tables import filled


def gateway_tables(plan: GatewayPlan) -> list[RenderableType]:
    """Tenants with their rights and budgets, and routes in the order in which they are tried."""
    tenants = ("tenant", "models", "a minute", "by itself", "beyond it", "because")
    routes = ("route", "goes to", "because")
    return [
        filled("gateway: tenants", tenants, (row for one in plan.tenants for row in _rows(one))),
        filled("gateway: routes", routes, (_route(one) for one in plan.routes)),
    ]


def _rows(tenant: TenantPlan) -> Iterator[tuple[str, ...]]:
    """One row for each budget, and one for what is not limited."""
    models = ", ".join(tenant.models) or "all"
    notes = "self-hosted only; " * tenant.restricted
    notes += "prefixes cached apart" if tenant.isolated else "shares cached prefixes"
    yield tenant.name, models, "", "", "", notes
    for kind, budget in (("requests", tenant.requests), ("tokens", tenant.tokens)):
        if budget is None:
            yield "", "", f"any {kind}", "", "", "no limit is given"
        else:
            yield _budget(kind, budget)


def _budget(kind: str, budget: Budget) -> tuple[str, ...]:
    over = budget.overshoot
    return (
        "",
        "",
        f"{budget.per_minute:,} {kind}",
        f"{budget.share.value:,} each",
        f"{over.value:,} at most",
        over.because,
    )


def _route(route: GatewayRoute) -> tuple[str, str, str]:
    ways = [
        f"{target.weight} %: {', then '.join(_step(step) for step in target.steps)}"
        for target in route.targets
    ]
    if route.shadow:
        ways.append(f"copies of {route.shadow.percent} %: {route.shadow.model}")
    return route.name, "\n".join(ways), route.because


def _step(step: Step) -> str:
    return "a fixed answer" if step.kind == "answer" else step.name
