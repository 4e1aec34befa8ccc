"""One model's capacity: what a replica and the fleet carry, and what happens beyond the peak."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.load_test import LoadTest
from tokenworks.environment.sections import Traffic
from tokenworks.errors import Problem
from tokenworks.facts.gpu_rates import ATTAINED_HIGH, ATTAINED_LOW, GPU_RATES
from tokenworks.plan import sizes
from tokenworks.plan.candidate import Candidate
from tokenworks.plan.types import Asked, CapacityPlan, Decided, Rates
from tokenworks.sizing import capacity
from tokenworks.sizing.capacity import Level
from tokenworks.sizing.cold_start import ColdStart, warm_replicas
from tokenworks.sizing.roofline import Replica, active_share

ADMITTED_PEAKS = 2
"""One gateway lets in this many times the peak; the rest is refused."""


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """Sequences of one replica with the reason, and its rates where they are known."""

    sequences: Decided[int]
    rates: Decided[Rates] | None


def capacity_problems(loaded: LoadedEnvironment, ready: Iterable[Candidate]) -> Iterable[Problem]:
    """Traffic that a model cannot take, and load tests of something else."""
    for one in ready:
        traffic, test = one.model.traffic, loaded.load_tests.get(one.model.name)
        if traffic is not None:
            yield from _length_problems(loaded, one, traffic)
        if test is not None:
            yield from _load_test_problems(loaded, one, test)


def _length_problems(
    loaded: LoadedEnvironment, one: Candidate, traffic: Traffic
) -> Iterable[Problem]:
    longest, asked = one.model.max_model_len_tokens, traffic.prompt_tokens + traffic.output_tokens
    if asked > longest:
        yield loaded.source.problem(
            ("models", one.index, "traffic"),
            given=f"{traffic.prompt_tokens} + {traffic.output_tokens} tokens",
            reason=f"is longer on the mean than max_model_len_tokens, which is {longest}",
            remedy="give the lengths of real requests, or raise max_model_len_tokens",
        )


def _load_test_problems(
    loaded: LoadedEnvironment, one: Candidate, test: LoadTest
) -> Iterable[Problem]:
    wanted = {
        "repository": one.model.weights.repository,
        "engine": one.model.engine.name,
        "engine_version": one.model.engine.version,
        "gpu": one.gpu.name,
        "tensor_parallel": one.fit.way.tensor,
        "pipeline_parallel": one.fit.way.pipeline,
        "expert_parallel": one.fit.way.expert,
        "attention_data_parallel": one.fit.way.attention_data,
    }
    other = [f"{k} {getattr(test, k)}" for k, v in wanted.items() if getattr(test, k) != v]
    if other:
        yield loaded.source.problem(
            ("models", one.index, "load_test"),
            given=one.model.load_test,
            reason=f"measured {' and '.join(other)}, planned are "
            + " and ".join(f"{k} {v}" for k, v in wanted.items() if getattr(test, k) != v),
            remedy="measure what is planned, or leave load_test out",
        )


def sized(loaded: LoadedEnvironment, one: Candidate, times: ColdStart) -> Sized:
    """A candidate with as many replicas as its traffic needs, and its capacity."""
    limit = _limit(one, loaded.load_tests.get(one.model.name))
    peak = _peak(one, limit.rates)
    needed = _needed(one, peak.value, limit.sequences.value)
    replicas = one.replicas
    if one.model.replicas is None:
        replicas = needed
    carried = capacity.delivered(limit.sequences.value, replicas.value)
    queued = _queued(one, limit.rates, replicas.value, carried)
    rate = _fleet_rate(limit.rates, replicas.value)
    plan = CapacityPlan(
        peak_sequences=peak,
        sequences_per_replica=limit.sequences,
        rates=limit.rates,
        needed_replicas=needed,
        carried_sequences=Decided(
            carried,
            f"{limit.sequences.value} sequences x {replicas.value} replicas x "
            f"{float(capacity.DELIVERED)}: balancing is never perfect",
            ("capacity.sequences_per_replica", "replicas"),
        ),
        queued_requests=queued,
        warm_replicas=_warm(one, peak.value, limit.sequences.value, times),
        surges=tuple(
            capacity.surge(
                n, peak=peak.value, carried=carried, queue=queued.value, requests_per_second=rate
            )
            for n in capacity.SURGES
        ),
    )
    return Sized(candidate=replace(one, replicas=replicas), capacity=plan)


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A candidate whose replicas are final, and what they carry."""

    candidate: Candidate
    capacity: CapacityPlan

    @property
    def admitted(self) -> int:
        """Requests that one gateway lets in at once; it does not follow replicas up and down."""
        peak = max(self.candidate.model.peak_concurrency, self.capacity.peak_sequences.value)
        return ADMITTED_PEAKS * peak


def _limit(one: Candidate, test: LoadTest | None) -> _Limit:
    model, memory, traffic = one.model, one.memory, one.model.traffic
    if traffic is None:
        return _Limit(
            sequences=Decided(
                memory.sequences,
                f"the KV cache holds {memory.sequences} sequences of full length; no traffic is "
                "given, so memory alone decides",
                ("memory",),
            ),
            rates=None,
        )
    mean = traffic.prompt_tokens + traffic.output_tokens
    room = mean + memory.state_tokens
    held = capacity.sequences_of_mean_length(memory.kv_cache_tokens, room)
    depth = sizes.max_batch_size(model).value
    most = max(1, min(held, depth))
    because = (
        f"{held} sequences of {room} tokens fit into {memory.kv_cache_tokens} tokens of KV cache "
        f"less {float(capacity.FRAGMENTATION):.0%} for fragmentation, the scheduler takes {depth}"
    )
    if test is not None:
        return _measured(traffic, test, most, because)
    if one.gpu.name not in GPU_RATES:
        unknown = f"{because}; the speed of {one.gpu.name} is unknown and no load test is given"
        return _Limit(sequences=Decided(most, unknown, ("memory", "max_batch_size")), rates=None)
    return _estimated(one, traffic, most, because)


def _measured(traffic: Traffic, test: LoadTest, most: int, because: str) -> _Limit:
    levels = [
        Level(
            concurrency=level.concurrency,
            output_tokens_per_second=float(level.output_tokens_per_second),
            time_to_first_token_p95_seconds=float(level.time_to_first_token_p95_seconds),
        )
        for level in test.levels
    ]
    target, knee = _target(traffic), capacity.knee(levels)
    in_time = capacity.within_target(levels, target)
    most = min(most, (in_time or knee).concurrency)
    level = max(
        (one for one in levels if one.concurrency <= most),
        key=lambda one: one.concurrency,
        default=levels[0],
    )
    sequences = min(most, level.concurrency)
    because += f"; the load test has its knee at {knee.concurrency}"
    if target is not None:
        because += f"; {_in_time(in_time.concurrency if in_time else None)} {target:g} s"
    source = (
        f"load test of {test.measured_on}: {level.output_tokens_per_second:g} output tokens/s and "
        f"first tokens within {level.time_to_first_token_p95_seconds:g} s at {level.concurrency} "
        "sequences"
    )
    rates = _measured_rates(traffic, test.output_tokens, level, levels[0], sequences)
    return _Limit(
        sequences=Decided(sequences, because, ("memory", "max_batch_size", "capacity.rates")),
        rates=Decided(rates, source),
    )


def _measured_rates(
    traffic: Traffic, output_tokens: int, at: Level, first: Level, sequences: int
) -> Rates:
    """Rates at a level of a load test, or at fewer sequences in proportion."""
    tokens = at.output_tokens_per_second * sequences / at.concurrency
    requests = tokens / output_tokens
    return Rates(
        measured=True,
        requests_per_second=(requests, requests),
        output_tokens_per_second=(tokens, tokens),
        request_seconds=(sequences / requests,) * 2,
        first_token_seconds=(at.time_to_first_token_p95_seconds,) * 2,
        unloaded_first_token_seconds=(first.time_to_first_token_p95_seconds,) * 2,
        asked=_asked(traffic),
    )


def _in_time(sequences: int | None) -> str:
    if not sequences:
        return "not even one, so that more replicas would not help, meets"
    return f"{sequences} in flight meet"


def _estimated(one: Candidate, traffic: Traffic, most: int, because: str) -> _Limit:
    low, high = (_replica(one, traffic, share) for share in (ATTAINED_LOW, ATTAINED_HIGH))
    target = _target(traffic)
    in_time = most if target is None else low.sequences_within(target, most)
    sequences = in_time or most
    if target is not None:
        because += f"; {_in_time(in_time)} {target:g} s to the first token by estimate"
    requests = tuple(r.requests_per_second(sequences) for r in (low, high))
    rates = Rates(
        measured=False,
        requests_per_second=(requests[0], requests[1]),
        output_tokens_per_second=(
            requests[0] * traffic.output_tokens,
            requests[1] * traffic.output_tokens,
        ),
        request_seconds=(low.request_seconds(sequences), high.request_seconds(sequences)),
        first_token_seconds=(
            low.first_token_seconds(sequences),
            high.first_token_seconds(sequences),
        ),
        unloaded_first_token_seconds=(low.first_token_seconds(1), high.first_token_seconds(1)),
        asked=_asked(traffic),
    )
    source = (
        f"roofline estimate at {ATTAINED_LOW:.0%} to {ATTAINED_HIGH:.0%} of what {one.gpu.name} "
        f"can do, {sequences} sequences in flight: {rates.output_tokens_per_second[0]:.0f} to "
        f"{rates.output_tokens_per_second[1]:.0f} output tokens/s, a request in "
        f"{rates.request_seconds[1]:.1f} to {rates.request_seconds[0]:.1f} s; the plan takes the "
        "slow end, a load test replaces it"
    )
    return _Limit(
        sequences=Decided(sequences, because, ("memory", "max_batch_size", "capacity.rates")),
        rates=Decided(rates, source),
    )


def _replica(one: Candidate, traffic: Traffic, attained: float) -> Replica:
    """Stages work one after the other on one token, so they count as one slower GPU."""
    way, stages = one.fit.way, one.fit.way.pipeline
    weights = one.memory.weight_bytes * stages
    return Replica(
        weight_bytes=weights,
        computed_bytes=round(weights * active_share(one.case.config)),
        kv_bytes_per_token=math.ceil(one.memory.kv_bytes_per_token * stages / way.caches),
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        rates=GPU_RATES[one.gpu.name],
        attained=attained,
    )


def _asked(traffic: Traffic) -> Asked:
    peak = Fraction(traffic.requests_per_second)
    return Asked(
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        peak_requests_per_second=peak,
        mean_requests_per_second=None
        if traffic.peak_to_mean is None
        else peak / Fraction(traffic.peak_to_mean),
    )


def _target(traffic: Traffic) -> float | None:
    target = traffic.time_to_first_token_seconds
    return None if target is None else float(target)


def _peak(one: Candidate, rates: Decided[Rates] | None) -> Decided[int]:
    model = one.model
    if model.traffic is None or rates is None:
        return Decided(model.peak_concurrency, "peak_concurrency, as the environment gives it")
    seconds = rates.value.request_seconds[0]
    rate = float(model.traffic.requests_per_second)
    flight = math.ceil(capacity.concurrency(rate, seconds))
    return Decided(
        flight,
        f"{rate:g} requests/s x {seconds:.1f} s for each, by Little's law",
        ("capacity.rates",),
    )


def _needed(one: Candidate, peak: int, limit: int) -> Decided[int]:
    by_memory = sizes.needed_replicas(one.model, one.memory)
    by_traffic = capacity.needed_replicas(peak, limit)
    memory_law = sizes.replicas_law(one.model.peak_concurrency, one.memory.sequences)
    if one.model.traffic is None:
        return Decided(by_memory, memory_law, ("memory", "capacity.sequences_per_replica"))
    return Decided(
        max(by_memory, by_traffic),
        f"traffic: {sizes.replicas_law(peak, limit)}; sequences of full length: {memory_law}",
        ("capacity.peak_sequences", "capacity.sequences_per_replica", "memory"),
    )


def _fleet_rate(rates: Decided[Rates] | None, replicas: int) -> float | None:
    if rates is None:
        return None
    return rates.value.planned_requests_per_second * replicas * float(capacity.DELIVERED)


def _queued(
    one: Candidate, rates: Decided[Rates] | None, replicas: int, carried: int
) -> Decided[int]:
    traffic, rate = one.model.traffic, _fleet_rate(rates, replicas)
    if traffic is None or rates is None or rate is None or _target(traffic) is None:
        left = max(0, ADMITTED_PEAKS * one.model.peak_concurrency - carried)
        return Decided(
            left,
            f"the gateway lets in {ADMITTED_PEAKS} x peak_concurrency, {carried} of which run; "
            "with traffic and a latency target the queue follows from them",
            ("capacity.carried_sequences",),
        )
    target, first = _target(traffic) or 0.0, rates.value.first_token_seconds[0]
    size = capacity.queue_limit(
        requests_per_second=rate, target_seconds=target, unqueued_seconds=first
    )
    return Decided(
        size,
        f"{rate:.2f} requests/s leave the fleet; {target:g} s to the first token less "
        f"{first:.2f} s without a queue is how long one may wait; whoever queues behind "
        "them misses the target",
        ("capacity.rates", "replicas"),
    )


def _warm(one: Candidate, peak: int, limit: int, times: ColdStart) -> Decided[int]:
    traffic = one.model.traffic
    if traffic is None or traffic.ramp_minutes is None or traffic.peak_to_mean is None:
        return Decided(
            0,
            "all replicas of the peak always run; give traffic with peak_to_mean and ramp_minutes "
            "to learn what a fleet that follows the load must keep ready",
        )
    growth = peak * (1 - 1 / float(traffic.peak_to_mean)) / (60 * traffic.ramp_minutes)
    warm = warm_replicas(
        growth_per_second=growth, limit=limit, cold_start_seconds=times.scale_out_seconds
    )
    return Decided(
        warm,
        f"were the fleet to follow the load: {growth * 60:.1f} more sequences a minute on the way "
        f"to the peak, for the {times.scale_out_seconds} s that a new replica takes, at {limit} "
        "for each",
        ("cold_start", "capacity.sequences_per_replica"),
    )
