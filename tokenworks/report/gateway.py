"""Who may use how much, and where requests go, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from rich.console import RenderableType

from tokenworks.plan.gateway_pods import GatewayPods
from tokenworks.plan.gateway_types import Budget, GatewayPlan, GatewayRoute, Step, TenantPlan
from tokenworks.plan.types import Decided, Probe
from tokenworks.report.tables import filled


def gateway_tables(plan: GatewayPlan, pods: GatewayPods) -> list[RenderableType]:
    """Tenants with rights and budgets, routes in the order in which they are tried, and pods."""
    tenants = ("tenant", "models", "a minute", "by itself", "beyond it", "because")
    routes = ("route", "goes to", "because")
    return [
        filled("gateway: tenants", tenants, (row for one in plan.tenants for row in _rows(one))),
        filled("gateway: routes", routes, (_route(one) for one in plan.routes)),
        filled(
            "gateway: pods",
            ("decision", "value", "because"),
            [*_pod_rows(pods), *(_pod_rows(plan.issuer, "certificate.") if plan.issuer else ())],
        ),
    ]


def _rows(tenant: TenantPlan) -> Iterator[tuple[str, ...]]:
    """One row for each budget, and one for what is not limited."""
    models = ", ".join(tenant.models) or "all"
    notes = "self-hosted only; " * tenant.restricted
    notes += "prefixes cached apart" if tenant.isolated else "shares cached prefixes"
    if tenant.default_max_tokens is not None:
        notes += f"; answers of {tenant.default_max_tokens} tokens where nothing else is stated"
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
        "not known" if over.value is None else f"{over.value:,} at most",
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


def _pod_rows(part: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Every decision below a part of the plan, by its key."""
    for field in fields(part):
        key, value = f"{prefix}{field.name}", getattr(part, field.name)
        if isinstance(value, Decided):
            yield key, _shown(value.value), value.because
        elif is_dataclass(value):
            yield from _pod_rows(value, f"{key}.")


def _shown(value: Any) -> str:
    if not isinstance(value, Probe):
        return str(value)
    asked = f"GET {value.path} on" if value.path else "a connection to"
    kill = f", then {value.kill_seconds} s to end" if value.kill_seconds else ""
    return (
        f"{asked} {value.port} every {value.period_seconds} s, {value.timeout_seconds} s each, "
        f"{value.failure_threshold} failures{kill}"
    )
