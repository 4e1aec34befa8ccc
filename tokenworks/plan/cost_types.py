"""What an environment costs: nodes, models, and the load at which an API would cost the same."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tokenworks.plan.types import Decided
from tokenworks.sizing.cost import IdleNight, Money, MonthlyCost, Views, Volume


@dataclass(frozen=True, kw_only=True)
class NodeCost:
    """What the nodes of one pool cost, and where their price is from."""

    pool: str
    nodes: int
    per_node_hour: Decimal
    source: str

    @property
    def per_hour(self) -> Money:
        """All nodes of the pool."""
        return self.nodes * Money(self.per_node_hour)


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Cents of a month at one load: self-hosted, and by the API."""

    tokens_per_day: int
    self_hosted_cents: int
    api_cents: int


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Where self-hosting becomes cheaper than the API, and both lines around that load.

    ``tokens_per_day`` is None where it never does; ``load_tokens_per_day`` is the workload's own.
    """

    api: str
    tokens_per_day: Decided[int | None]
    load_tokens_per_day: int
    curve: tuple[CurvePoint, ...]


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    """One model's part of a month: the views, how much of the fleet is used, the API beside it.

    ``views``, ``volume`` and ``use`` are None where the traffic or its mean is unknown.
    """

    model: str
    month: MonthlyCost
    because: str
    volume: Volume | None
    views: Views | None
    use: Decided[Fraction] | None
    gpu_seconds_per_thousand_tokens: Fraction | None
    tenant_month_cents: dict[str, int]
    crossover: Crossover | None


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """What the environment costs, in one currency; nothing where a type is ``unpriced``."""

    currency: str
    nodes: tuple[NodeCost, ...]
    unpriced: tuple[str, ...]
    month: Decided[MonthlyCost] | None
    models: tuple[ModelCost, ...]
    night: Decided[IdleNight] | None
