"""What an environment costs, model by model, with the prices it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from tokenworks.environment.cost import Cost
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.sections import NodePool
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import Problem
from tokenworks.facts.prices import CURRENCY, list_prices
from tokenworks.plan.capacity import Sized
from tokenworks.plan.cost_types import CostPlan, Crossover, CurvePoint, ModelCost, NodeCost
from tokenworks.plan.types import Decided, Rates
from tokenworks.sizing import capacity, cost
from tokenworks.sizing.cold_start import ColdStart
from tokenworks.sizing.cost import (
    Api,
    Comparison,
    IdleNight,
    Money,
    MonthlyCost,
    Volume,
    idle_night,
)

CURVE_STEPS = 240
CURVE_REACH = 2
"""The curve ends at this many times the crossover, or the load where that is larger."""


def cost_problems(loaded: LoadedEnvironment) -> Iterable[Problem]:
    """Prices of what is not there, tenants that are not there, shares that are not a whole."""
    section = loaded.environment.cost
    if section is None:
        return
    yield from _price_problems(loaded, section)
    yield from _share_problems(loaded, section)


def _price_problems(loaded: LoadedEnvironment, section: Cost) -> Iterable[Problem]:
    used = {pool.kind for pool in loaded.environment.node_pools}
    names = [price.instance for price in section.node_prices]
    for index, name in enumerate(names):
        path: KeyPath = ("cost", "node_prices", index, "instance")
        if name not in used:
            yield loaded.source.problem(
                path,
                given=repr(name),
                reason="is no instance type of this environment's node pools",
                remedy=f"use one of: {', '.join(sorted(used))}",
            )
        elif names.index(name) != index:
            yield loaded.source.problem(
                path,
                given=repr(name),
                reason=f"has a price in cost.node_prices[{names.index(name)}]",
                remedy="keep one price for each",
            )
    on_list = {pool.kind for pool in loaded.environment.node_pools if _is_listed(pool)}
    listed = sorted(on_list - set(names))
    if section.currency != CURRENCY and listed:
        yield loaded.source.problem(
            ("cost", "currency"),
            given=repr(section.currency),
            reason=f"is not that of the list price of {', '.join(listed)}, which is {CURRENCY}",
            remedy=f"give cost.node_prices in {section.currency} for each, or use {CURRENCY}",
        )


def _share_problems(loaded: LoadedEnvironment, section: Cost) -> Iterable[Problem]:
    if not section.tenant_shares:
        return
    tenants = [tenant.name for tenant in loaded.environment.gateway.tenants]
    names = [share.tenant for share in section.tenant_shares]
    for index, name in enumerate(names):
        known = name in tenants
        if not known or names.index(name) != index:
            yield loaded.source.problem(
                ("cost", "tenant_shares", index, "tenant"),
                given=repr(name),
                reason="has a share already" if known else "is no tenant of the gateway",
                remedy="keep one share for each" if known else f"use one of: {', '.join(tenants)}",
            )
    total = sum(share.percent for share in section.tenant_shares)
    if total != 100:
        yield loaded.source.problem(
            ("cost", "tenant_shares"),
            given=f"{total} percent",
            reason="is not the whole",
            remedy="give shares that are 100 together",
        )


def cost_plan(
    loaded: LoadedEnvironment, ready: Sequence[Sized], times: Sequence[ColdStart]
) -> CostPlan:
    """Every sum of an environment whose problems were ruled out before."""
    section = loaded.environment.cost or Cost()
    nodes = {pool.name: _node_cost(pool, section) for pool in loaded.environment.node_pools}
    unpriced = tuple(
        pool.kind for pool in loaded.environment.node_pools if nodes[pool.name] is None
    )
    priced = {name: one for name, one in nodes.items() if one is not None}
    if unpriced:
        return CostPlan(
            currency=section.currency,
            nodes=tuple(priced.values()),
            unpriced=unpriced,
            month=None,
            models=(),
            night=None,
        )
    month = _month(priced.values(), section)
    case = _Case(loaded=loaded, section=section, ready=ready, nodes=priced, month=month)
    return CostPlan(
        currency=section.currency,
        nodes=tuple(priced.values()),
        unpriced=(),
        month=Decided(
            month,
            f"all nodes for {cost.HOURS_PER_MONTH} hours, whether they are used or not"
            + ("" if month.people is None else ", people")
            + ("" if month.storage_and_network is None else ", storage and network"),
        ),
        models=tuple(_model_cost(case, one) for one in ready),
        night=_night(section, priced.values(), times),
    )


@dataclass(frozen=True, kw_only=True)
class _Case:
    """Everything that one model's cost is worked out from."""

    loaded: LoadedEnvironment
    section: Cost
    ready: Sequence[Sized]
    nodes: Mapping[str, NodeCost]
    month: MonthlyCost

    @cached_property
    def shares(self) -> Mapping[str, Fraction]:
        """Each model's part of everything: by what its GPUs cost; all together are 1.

        The unused GPUs of a pool are carried by the models on it.
        """
        used: Counter[str] = Counter()
        for one in self.ready:
            used[one.candidate.pool.name] += one.candidate.demand.gpus
        own = {
            one.candidate.model.name: self.nodes[one.candidate.pool.name].per_hour
            * one.candidate.demand.gpus
            / used[one.candidate.pool.name]
            for one in self.ready
        }
        whole = sum(own.values())
        return {model: part / whole for model, part in own.items()}


def _node_cost(pool: NodePool, section: Cost) -> NodeCost | None:
    own = next((p for p in section.node_prices if p.instance == pool.kind), None)
    if own is not None:
        hour, source = own.per_hour, f"{own.source}, {own.date}"
    elif _is_listed(pool) and section.currency == CURRENCY:
        price = list_prices()[pool.kind]
        hour, source = price.per_hour, f"{price.source}, {price.region}, {price.date}"
    else:
        return None
    return NodeCost(pool=pool.name, nodes=pool.size, per_node_hour=hour, source=source)


def _is_listed(pool: NodePool) -> bool:
    """Whether the list price is what its nodes cost: a capacity block has a price of its own."""
    in_block = pool.capacity is not None and pool.capacity.block is not None
    return pool.kind in list_prices() and not in_block


def _month(nodes: Iterable[NodeCost], section: Cost) -> MonthlyCost:
    return MonthlyCost(
        nodes=sum((node.per_hour for node in nodes), Money(0)) * cost.HOURS_PER_MONTH,
        people=_money(section.people_per_month),
        storage_and_network=_money(section.storage_and_network_per_month),
    )


def _money(given: Decimal | None) -> Money | None:
    return None if given is None else Money(given)


def _model_cost(case: _Case, one: Sized) -> ModelCost:
    share = case.shares[one.candidate.model.name]
    month = MonthlyCost(
        nodes=case.month.nodes * share,
        people=None if case.month.people is None else case.month.people * share,
        storage_and_network=None
        if case.month.storage_and_network is None
        else case.month.storage_and_network * share,
    )
    rates = None if one.capacity.rates is None else one.capacity.rates.value
    volume = _volume(rates)
    gpus = one.candidate.demand.gpus
    return ModelCost(
        model=one.candidate.model.name,
        month=month,
        because=f"{float(share):.1%} of everything: {gpus} GPUs, and its part of the unused ones",
        volume=volume,
        views=None if volume is None else cost.views(month.total, volume),
        use=_use(one, rates),
        gpu_seconds_per_thousand_tokens=None
        if volume is None
        else cost.gpu_seconds_per_thousand_tokens(gpus, volume.tokens_per_second),
        tenant_month_cents=_tenants(case, month),
        crossover=_crossover(case, one, month, rates, volume),
    )


def _volume(rates: Rates | None) -> Volume | None:
    if rates is None or rates.asked.mean_requests_per_second is None:
        return None
    return Volume(
        requests_per_second=rates.asked.mean_requests_per_second,
        prompt_tokens=rates.asked.prompt_tokens,
        output_tokens=rates.asked.output_tokens,
    )


def _use(one: Sized, rates: Rates | None) -> Decided[Fraction] | None:
    if rates is None or rates.asked.mean_requests_per_second is None:
        return None
    replicas = one.candidate.replicas.value
    could = Fraction(rates.planned_requests_per_second) * replicas * capacity.DELIVERED
    mean = rates.asked.mean_requests_per_second
    return Decided(
        mean / could,
        f"{float(mean):.2f} of the {float(could):.2f} requests/s that the fleet delivers, on the "
        "mean of the month",
    )


def _tenants(case: _Case, month: MonthlyCost) -> dict[str, int]:
    given = {share.tenant: Fraction(share.percent) for share in case.section.tenant_shares}
    tenants = [tenant.name for tenant in case.loaded.environment.gateway.tenants]
    shares = given or {name: Fraction(1) for name in tenants}
    return cost.tenant_cents(month.total, shares)


def _crossover(
    case: _Case, one: Sized, month: MonthlyCost, rates: Rates | None, volume: Volume | None
) -> Crossover | None:
    section = case.section.api
    if section is None or rates is None or volume is None:
        return None
    api = Api(
        input_per_million=Money(section.input_per_million_tokens),
        output_per_million=Money(section.output_per_million_tokens),
        platform_fee_per_month=Money(section.platform_fee_per_month),
    )
    compared = Comparison(
        fixed=month.total - month.nodes,
        per_replica=month.nodes / one.candidate.replicas.value,
        replica_tokens_per_day=_replica_tokens_per_day(rates, volume),
        api_fee=api.platform_fee_per_month,
        api_per_token=api.per_token(volume),
    )
    found = compared.crossover()
    until = CURVE_REACH * max(found or Fraction(0), volume.tokens_per_day)
    return Crossover(
        api=f"{section.name} ({section.source}, {section.date})",
        tokens_per_day=Decided(
            None if found is None else round(found),
            _crossover_because(compared, case.section.currency),
        ),
        load_tokens_per_day=round(volume.tokens_per_day),
        curve=tuple(
            CurvePoint(tokens_per_day=load, self_hosted_cents=own, api_cents=other)
            for load, own, other in cost.curve(compared, until, CURVE_STEPS)
        ),
    )


def _replica_tokens_per_day(rates: Rates, volume: Volume) -> Fraction:
    """What a replica serves on a whole day when its peak is just within its limit."""
    mean = rates.asked.mean_requests_per_second or rates.asked.peak_requests_per_second
    flatness = mean / rates.asked.peak_requests_per_second
    served = Fraction(rates.planned_requests_per_second) * flatness
    return served * (volume.prompt_tokens + volume.output_tokens) * cost.SECONDS_PER_DAY


def _crossover_because(compared: Comparison, currency: str) -> str:
    return (
        f"{float(compared.fixed):,.2f} {currency} a month and {float(compared.per_replica):,.2f} "
        f"for each replica of {float(compared.replica_tokens_per_day) / 1e6:,.1f} million tokens "
        f"a day, with redundancy, against {float(compared.api_fee):,.2f} and "
        f"{float(compared.api_per_token) * cost.MILLION:,.4f} for a million tokens"
    )


def _night(
    section: Cost, nodes: Iterable[NodeCost], times: Sequence[ColdStart]
) -> Decided[IdleNight] | None:
    if section.idle_hours_per_night is None:
        return None
    hour = sum((node.per_hour for node in nodes), Money(0))
    start = max(one.on_new_node_seconds for one in times)
    lead = max(one.schedule_lead_seconds for one in times)
    night = idle_night(hour, Fraction(section.idle_hours_per_night), start)
    return Decided(
        night,
        f"{float(night.hours):g} hours at {float(hour):,.2f} {section.currency}; coming back from "
        f"zero costs {start} s of nodes that serve nothing, and the first request of the morning "
        f"waits {start} s unless a schedule starts {lead} s ahead",
    )
