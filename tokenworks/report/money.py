"""The cost of a plan as tables."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from rich.console import RenderableType
from rich.table import Table

from tokenworks.plan.cost_types import CostPlan, Crossover, ModelCost
from tokenworks.report.tables import filled, money
from tokenworks.sizing.cost import DAYS_PER_MONTH

TABLE_ROWS = 12
"""The picture has every point of a curve, the table about this many."""


def cost_tables(cost: CostPlan) -> Iterable[RenderableType]:
    """Nodes, months, views, tenants, the night and the comparison with an API."""
    if cost.month is None:
        return
    yield _nodes(cost)
    yield _months(cost)
    if any(model.views is not None for model in cost.models):
        yield _views(cost)
    yield _tenants(cost)
    if cost.night is not None:
        night, daily = cost.night.value, Fraction(DAYS_PER_MONTH)
        yield filled(
            "idle night",
            ("costs", "scaling to zero saves", "by the month", "because"),
            [
                (
                    money(night.cost, cost.currency),
                    money(night.saved, cost.currency),
                    money(night.saved * daily, cost.currency),
                    cost.night.because,
                )
            ],
        )
    for model in cost.models:
        if model.crossover is not None:
            yield crossover_sentence(model.model, model.crossover)
            yield crossover_table(model.model, model.crossover, cost.currency)


def _nodes(cost: CostPlan) -> Table:
    rows = [
        (
            one.pool,
            str(one.nodes),
            money(Fraction(one.per_node_hour), cost.currency, 4),
            money(one.per_hour, cost.currency),
            one.source,
        )
        for one in cost.nodes
    ]
    return filled("cost: nodes", ("pool", "nodes", "a node-hour", "an hour", "price from"), rows)


def _months(cost: CostPlan) -> Table:
    def row(name: str, model: ModelCost) -> tuple[str, ...]:
        month = model.month
        parts = (month.nodes, month.people, month.storage_and_network, month.total)
        shown = ("left out" if part is None else money(part, cost.currency) for part in parts)
        return (name, *shown, money(month.per_hour, cost.currency), model.because)

    headings = ("model", "nodes", "people", "storage, network", "a month", "an hour", "because")
    rows = [row(model.model, model) for model in cost.models]
    return filled("cost: a month of 720 hours", headings, rows)


def _views(cost: CostPlan) -> Table:
    rows = []
    for model in cost.models:
        if model.views is None or model.volume is None:
            continue
        used = model.use
        spent = model.gpu_seconds_per_thousand_tokens
        rows.append(
            (
                model.model,
                money(model.views.per_hour, cost.currency),
                money(model.views.per_million_tokens, cost.currency, 4),
                money(model.views.per_request, cost.currency, 6),
                f"{float(model.volume.tokens_per_day) / 1e6:,.1f} million",
                "unknown" if spent is None else f"{float(spent):.2f}",
                "unknown" if used is None else f"{float(used.value):.0%}",
                "" if used is None else used.because,
            )
        )
    headings = (
        "model", "an hour", "a million tokens", "a request", "tokens a day",
        "GPU seconds/1000 tokens", "use", "because",
    )  # fmt: skip
    return filled("cost: three views of the same money", headings, rows)


def _tenants(cost: CostPlan) -> Table:
    rows = [
        (model.model, tenant, money(Fraction(share, 100), cost.currency))
        for model in cost.models
        for tenant, share in model.tenant_month_cents.items()
    ]
    return filled("cost: a month by tenant", ("model", "tenant", "a month"), rows)


def crossover_sentence(model: str, crossover: Crossover) -> str:
    """From which load self-hosting is cheaper, beside the load there is, and why."""
    found, load = crossover.tokens_per_day.value, crossover.load_tokens_per_day
    says = "never" if found is None else f"from {found / 1e6:,.1f} million tokens a day"
    return (
        f"{model}: self-hosted is cheaper than {crossover.api} {says}, the load is "
        f"{load / 1e6:,.1f} million; {crossover.tokens_per_day.because}"
    )


def crossover_table(model: str, crossover: Crossover, currency: str) -> Table:
    """Both lines at every so many points of the curve, and who is cheaper there."""
    rows = [
        (
            f"{point.tokens_per_day / 1e6:,.1f} million",
            money(Fraction(point.self_hosted_cents, 100), currency),
            money(Fraction(point.api_cents, 100), currency),
            "self-hosted" if point.self_hosted_cents <= point.api_cents else "API",
        )
        for point in crossover.curve[:: max(1, len(crossover.curve) // TABLE_ROWS)]
    ]
    title = f"{model}: break-even, a month"
    return filled(title, ("tokens a day", "self-hosted", "API", "cheaper"), rows)
