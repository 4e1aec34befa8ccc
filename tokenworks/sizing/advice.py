"""What should be known before a model is deployed: findings with their figures and what to do.

None of them stops a deployment; what is unsafe is refused elsewhere. Every function takes plain
numbers and gives a finding, or None where all is well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PEAK_TO_MEAN = 2.0
"""Above it a managed API is favoured: a fleet is paid for its peak."""

TYPICAL_IDLE = 0.6
"""Idle of 30 to 60 % is typical of self-hosted fleets; more means a small or sparse workload."""

MEMORY_PERCENT = 95
"""A larger share of GPU memory for the engine moves out-of-memory from start-up to run time."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One finding: which value of the environment it is about, what was found, what to do."""

    key: str
    finding: str
    remedy: str

    def __str__(self) -> str:
        """One line: key, finding, remedy."""
        return f"{self.key}: {self.finding}; {self.remedy}."


def missing_targets(
    key: str, *, requests_per_second: float | None, target_seconds: float | None
) -> Advice | None:
    """No rate or no latency target: the size of the fleet answers no question anybody asked."""
    missing = [
        name
        for name, value in (
            ("request rate", requests_per_second),
            ("target time to first token", target_seconds),
        )
        if value is None
    ]
    if not missing:
        return None
    return Advice(
        key=key,
        finding=f"no {' and no '.join(missing)} given, so nothing here can say whether this fleet "
        "is the right one",
        remedy="give traffic with requests_per_second and time_to_first_token_seconds",
    )


def steep_peak(key: str, peak_to_mean: float | None) -> Advice | None:
    """A peak far above the mean: most of what is paid for the peak stands idle."""
    if peak_to_mean is None or peak_to_mean <= PEAK_TO_MEAN:
        return None
    return Advice(
        key=key,
        finding=f"peak to mean is {peak_to_mean:g}, above {PEAK_TO_MEAN:g}, which favours a "
        f"managed API: {1 - 1 / peak_to_mean:.0%} of what the peak needs stands idle",
        remedy="self-host the steady base and send the peaks to a managed API, or fill the valleys "
        "with batch work",
    )


def sparse_load(key: str, *, use: float, concurrency: float) -> Advice | None:
    """A fleet that mostly waits: too little work to host it oneself."""
    if 1 - use <= TYPICAL_IDLE:
        return None
    return Advice(
        key=key,
        finding=f"the fleet is idle {1 - use:.0%} of the time ({concurrency:.1f} sequences in "
        f"flight on the mean), more than the {TYPICAL_IDLE:.0%} that is usual at most",
        remedy="use a managed API, unless data may not leave or the weights are your own; else "
        "share the GPUs with more work",
    )


def below_crossover(
    key: str, *, tokens_per_day: float, crossover_tokens_per_day: float | None
) -> Advice | None:
    """Less load than self-hosting needs to be cheaper than the API."""
    if crossover_tokens_per_day is not None and tokens_per_day >= crossover_tokens_per_day:
        return None
    if crossover_tokens_per_day is None:
        finding = "a replica never earns its cost at the price of the API, at any load"
    else:
        finding = (
            f"{tokens_per_day / 1e6:.1f} million tokens a day are below the "
            f"{crossover_tokens_per_day / 1e6:.1f} million from which self-hosting is cheaper"
        )
    return Advice(
        key=key,
        finding=finding,
        remedy="use the API, unless data may not leave or the weights are your own",
    )


@dataclass(frozen=True, kw_only=True)
class Split:
    """One way to divide GPUs: GPUs for each replica, and replicas that the peak then needs.

    ``spelt`` is how the environment would ask for it.
    """

    spelt: str
    gpus_per_replica: int
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.gpus_per_replica * self.replicas


def replicas_are_better(key: str, *, asked: Split, fewest: Split) -> Advice | None:
    """A split over more GPUs than needed, where replicas on fewer carry the same peak."""
    if asked.gpus_per_replica <= fewest.gpus_per_replica or fewest.gpus > asked.gpus:
        return None
    return Advice(
        key=key,
        finding=f"the peak takes {asked.replicas} replicas of {asked.gpus_per_replica} GPUs, "
        f"{asked.gpus} GPUs, or {fewest.replicas} replicas of {fewest.gpus_per_replica} on "
        f"{fewest.gpus}, without communication and with less lost by one failure",
        remedy=f"use {fewest.spelt}, unless one request alone must be faster",
    )


def high_memory_share(key: str, percent: float) -> Advice | None:
    """So much memory for the KV cache that running out of it waits for a peak."""
    if percent <= MEMORY_PERCENT:
        return None
    return Advice(
        key=key,
        finding=f"the KV cache takes {percent:g}% of free memory, more than {MEMORY_PERCENT}%: "
        "what start-up does not need is missing at the first peak",
        remedy=f"use at most {MEMORY_PERCENT}",
    )


def incomplete_cost(
    key: str, *, people: bool, storage_and_network: bool, idle: bool
) -> Advice | None:
    """A cost without people or idle time, which is how self-hosting is usually underestimated."""
    known = {"people": people, "storage and network": storage_and_network, "idle time": idle}
    missing = [name for name, there in known.items() if not there]
    if not missing:
        return None
    return Advice(
        key=key,
        finding=f"left out: {', '.join(missing)}; so the true cost is higher",
        remedy="give cost.people_per_month, cost.storage_and_network_per_month and each model's "
        "traffic with peak_to_mean",
    )


def unused_gpus(key: str, *, gpus: int, used: int, month: str | None) -> Advice | None:
    """Whole nodes that nobody needs; ``month`` is what the unused GPUs cost, as text."""
    if used >= gpus:
        return None
    costs = "" if month is None else f", which costs {month} a month"
    return Advice(
        key=key,
        finding=f"no model uses {gpus - used} of {gpus} GPUs{costs}",
        remedy="use fewer or smaller nodes, unless they are there for rollouts and failures",
    )


def late_scale_out(key: str, *, scale_out_seconds: int, client_seconds: int) -> Advice | None:
    """New capacity that comes after the callers have given up."""
    if scale_out_seconds <= client_seconds:
        return None
    return Advice(
        key=key,
        finding=f"a replica on a new node serves {scale_out_seconds} s after the load that asks "
        f"for it, callers give up after {client_seconds} s: scaling answers slow change, not "
        "bursts",
        remedy="keep replicas ready for bursts, scale ahead by schedule, or let requests queue",
    )


def unreachable_target(
    key: str, *, target_seconds: float, best_seconds: float, because: str
) -> Advice | None:
    """A time to first token that no number of replicas reaches."""
    if best_seconds <= target_seconds:
        return None
    return Advice(
        key=key,
        finding=f"the first token takes {best_seconds:.2f} s even without load ({because}), the "
        f"target is {target_seconds:g} s, and more replicas do not change that",
        remedy="use more GPUs for each replica, faster GPUs or shorter prompts",
    )


def cut_off(key: str, *, request_seconds: float, limit_seconds: int) -> Advice | None:
    """Requests that the gateway ends before the engine has answered them."""
    if request_seconds <= limit_seconds:
        return None
    return Advice(
        key=key,
        finding=f"a request of mean length takes {request_seconds:.0f} s with its wait, the "
        f"gateway ends it after {limit_seconds} s",
        remedy="raise gateway.max_request_seconds, shorten the answers or use faster GPUs",
    )


def too_few_replicas(key: str, *, replicas: int, needed: int, because: str) -> Advice | None:
    """Fewer replicas than the traffic needs with redundancy."""
    if replicas >= needed:
        return None
    return Advice(
        key=key,
        finding=f"{replicas} replicas are asked for, the traffic needs {needed} ({because})",
        remedy=f"use {needed} replicas",
    )


def loose_budget(
    key: str, *, per_minute: int, overshoot: int | None, because: str
) -> Advice | None:
    """A budget of tokens that requests without a stated limit can exceed by more than itself."""
    if overshoot is not None and overshoot <= per_minute:
        return None
    beyond = "any number of" if overshoot is None else f"up to {overshoot:,}"
    return Advice(
        key=key,
        finding=f"{beyond} tokens beyond the {per_minute:,} of a minute can be used by "
        f"callers who state no limit ({because})",
        remedy="have callers send max_tokens, which is then reserved, or let the tenant use models "
        "with a smaller max_model_len_tokens only",
    )


def given(findings: Iterable[Advice | None]) -> tuple[Advice, ...]:
    """The findings there are, without those where all is well."""
    return tuple(finding for finding in findings if finding is not None)
