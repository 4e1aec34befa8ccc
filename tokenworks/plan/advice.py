"""The findings of a plan: whether what is asked for is the right thing to deploy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenworks.environment.load import LoadedEnvironment
from tokenworks.plan import sizes
from tokenworks.plan.candidate import Candidate
from tokenworks.plan.capacity import Sized
from tokenworks.plan.cost_types import CostPlan, ModelCost
from tokenworks.plan.fitting import fewest_gpus, spelt
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.plan.types import Rates
from tokenworks.sizing import advice
from tokenworks.sizing.advice import Advice, Split
from tokenworks.sizing.capacity import needed_replicas
from tokenworks.sizing.cold_start import ColdStart
from tokenworks.sizing.cost import HOURS_PER_MONTH
from tokenworks.sizing.parallelism import Arrangement

LENGTH_TOLERANCE = 0.2
"""How far the lengths of a load test may be from those of the traffic before it is said."""


def advices(
    loaded: LoadedEnvironment,
    ready: Sequence[Sized],
    times: Sequence[ColdStart],
    cost: CostPlan,
    gateway: GatewayPlan,
) -> tuple[Advice, ...]:
    """Every finding, model by model, then those of the whole environment."""
    client = loaded.environment.gateway.max_request_seconds
    costs = {model.model: model for model in cost.models}
    found: list[Advice | None] = []
    for one in ready:
        found += _model(one, costs.get(one.candidate.model.name))
        found.append(_cut_off(one, client))
        found.append(_other_lengths(loaded, one.candidate))
    slowest = max(start.scale_out_seconds for start in times)
    found.append(advice.late_scale_out("models", scale_out_seconds=slowest, client_seconds=client))
    found += _unused(loaded, [one.candidate for one in ready], cost)
    found += _budgets(gateway)
    found += _cost(cost)
    return advice.given(found)


def _model(one: Sized, cost: ModelCost | None) -> Iterable[Advice | None]:
    candidate, capacity = one.candidate, one.capacity
    key, traffic = f"models[{candidate.index}]", candidate.model.traffic
    target = None if traffic is None else traffic.time_to_first_token_seconds
    yield advice.missing_targets(
        f"{key}.traffic",
        requests_per_second=None if traffic is None else float(traffic.requests_per_second),
        target_seconds=None if target is None else float(target),
    )
    yield _better_split(candidate)
    percent = sizes.kv_cache_percent(candidate.model).value
    yield advice.high_memory_share(f"{key}.kv_cache_free_memory_percent", percent)
    if traffic is None:
        return
    yield advice.steep_peak(
        f"{key}.traffic.peak_to_mean",
        None if traffic.peak_to_mean is None else float(traffic.peak_to_mean),
    )
    peak, limit = capacity.peak_sequences.value, capacity.sequences_per_replica.value
    yield advice.too_few_replicas(
        f"{key}.replicas",
        replicas=candidate.replicas.value,
        needed=needed_replicas(peak, limit),
        because=sizes.replicas_law(peak, limit),
    )
    if capacity.rates is not None:
        if target is not None:
            yield _unreachable(f"{key}.traffic", float(target), capacity.rates.value)
        if cost is not None:
            yield from _too_small(key, capacity.rates.value, cost)


def _better_split(one: Candidate) -> Advice | None:
    """Compares the split that was asked for with the fewest GPUs on which the model fits."""
    fewest = fewest_gpus(one.case)
    if fewest is None or fewest.gpus_per_replica >= one.gpus_per_replica:
        return None
    return advice.replicas_are_better(
        f"models[{one.index}].tensor_parallel",
        asked=_split(one, one.fit.way),
        fewest=_split(one, fewest),
    )


def _split(one: Candidate, way: Arrangement) -> Split:
    return Split(
        spelt=spelt(way),
        gpus_per_replica=way.gpus_per_replica,
        replicas=sizes.needed_replicas(one.model, one.case.budget(way)),
    )


def _unreachable(key: str, target: float, rates: Rates) -> Advice | None:
    slow, fast = rates.unloaded_first_token_seconds
    because = "measured" if rates.measured else "at best" if fast > target else "pessimistically"
    return advice.unreachable_target(
        f"{key}.time_to_first_token_seconds",
        target_seconds=target,
        best_seconds=slow,
        because=because,
    )


def _cut_off(one: Sized, limit_seconds: int) -> Advice | None:
    """Holds the slow end of a mean request, after the longest wait, against the gateway's limit."""
    if one.capacity.rates is None:
        return None
    waits = max(surge.wait_seconds or 0.0 for surge in one.capacity.surges)
    return advice.cut_off(
        f"models[{one.candidate.index}].traffic",
        request_seconds=waits + one.capacity.rates.value.request_seconds[0],
        limit_seconds=limit_seconds,
    )


def _too_small(key: str, rates: Rates, cost: ModelCost) -> Iterable[Advice | None]:
    if cost.use is not None and rates.asked.mean_requests_per_second is not None:
        yield advice.sparse_load(
            key,
            use=float(cost.use.value),
            concurrency=float(rates.asked.mean_requests_per_second) * rates.request_seconds[0],
        )
    if cost.crossover is not None:
        found = cost.crossover.tokens_per_day.value
        yield advice.below_crossover(
            key,
            tokens_per_day=cost.crossover.load_tokens_per_day,
            crossover_tokens_per_day=found,
        )


def _other_lengths(loaded: LoadedEnvironment, one: Candidate) -> Advice | None:
    test, traffic = loaded.load_tests.get(one.model.name), one.model.traffic
    if test is None:
        return None
    key = f"models[{one.index}].load_test"
    if traffic is None:
        return Advice(
            key=key,
            finding="is not used, since no traffic is given",
            remedy="give traffic with requests_per_second and lengths",
        )
    pairs = (
        (test.prompt_tokens, traffic.prompt_tokens),
        (test.output_tokens, traffic.output_tokens),
    )
    if all(abs(measured - asked) <= LENGTH_TOLERANCE * asked for measured, asked in pairs):
        return None
    return Advice(
        key=key,
        finding=f"was measured with {test.prompt_tokens} + {test.output_tokens} tokens, the "
        f"traffic has {traffic.prompt_tokens} + {traffic.output_tokens}",
        remedy="measure again with the lengths of the traffic",
    )


def _unused(
    loaded: LoadedEnvironment, ready: Sequence[Candidate], cost: CostPlan
) -> Iterable[Advice | None]:
    """Pools in which more than a whole node stands idle."""
    prices = {node.pool: node for node in cost.nodes}
    for index, pool in enumerate(loaded.environment.node_pools):
        each = pool.known_shape.gpu_count
        gpus = pool.size * each
        used = sum(one.demand.gpus for one in ready if one.pool.name == pool.name)
        if gpus - used < each or (pool.size == 1 and used):
            continue
        price = prices.get(pool.name)
        unused = None
        if price is not None:
            idle = price.per_hour * (gpus - used) / gpus * HOURS_PER_MONTH
            unused = f"{float(idle):,.2f} {cost.currency}"
        yield advice.unused_gpus(f"node_pools[{index}]", gpus=gpus, used=used, month=unused)


def _budgets(gateway: GatewayPlan) -> Iterable[Advice | None]:
    for index, tenant in enumerate(gateway.tenants):
        if tenant.tokens is not None:
            yield advice.loose_budget(
                f"gateway.tenants[{index}].tokens_per_minute",
                per_minute=tenant.tokens.per_minute,
                overshoot=tenant.tokens.overshoot.value,
                because=tenant.tokens.overshoot.because.split(";")[0],
            )


def _cost(cost: CostPlan) -> Iterable[Advice | None]:
    if cost.month is None:
        yield Advice(
            key="cost.node_prices",
            finding=f"no price is known for {', '.join(cost.unpriced)}, so there is no cost",
            remedy="give per_hour of these instance types with source and date",
        )
        return
    month = cost.month.value
    yield advice.incomplete_cost(
        "cost",
        people=month.people is not None,
        storage_and_network=month.storage_and_network is not None,
        idle=all(model.use is not None for model in cost.models),
    )
