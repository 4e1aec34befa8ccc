"""What serving costs: one sum of money seen by the hour, by the token, by the request, by tenant.

Money is exact (fractions of a currency unit) until it is shown, so that every view of a month gives
the same cents. A month has 720 hours, a day 24.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokenworks.sizing.capacity import REDUNDANCY, needed_replicas

HOURS_PER_MONTH = 720
DAYS_PER_MONTH = 30
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR
MILLION = 10**6

Money = Fraction


def cents(money: Money) -> int:
    """Whole cents, halves to the even one."""
    return round(money * 100)


@dataclass(frozen=True, kw_only=True)
class MonthlyCost:
    """The parts of a month's cost; a part that is unknown is None, and left out of the total.

    ``nodes`` is rent (or depreciation and power) for every hour, used or idle.
    """

    nodes: Money
    people: Money | None
    storage_and_network: Money | None

    @property
    def total(self) -> Money:
        """Everything that is known."""
        return self.nodes + (self.people or 0) + (self.storage_and_network or 0)

    @property
    def per_hour(self) -> Money:
        """The fleet by the hour, people and storage included as far as they are known."""
        return self.total / HOURS_PER_MONTH


@dataclass(frozen=True, kw_only=True)
class Volume:
    """What a fleet does in a month: mean requests per second, and tokens of each."""

    requests_per_second: Fraction
    prompt_tokens: int
    output_tokens: int

    @property
    def tokens_per_second(self) -> Fraction:
        """Prompt and output tokens, on the mean of the month."""
        return self.requests_per_second * (self.prompt_tokens + self.output_tokens)

    @property
    def requests_per_month(self) -> Fraction:
        """Requests of 720 hours."""
        return self.requests_per_second * HOURS_PER_MONTH * SECONDS_PER_HOUR

    @property
    def tokens_per_month(self) -> Fraction:
        """Tokens of 720 hours."""
        return self.tokens_per_second * HOURS_PER_MONTH * SECONDS_PER_HOUR

    @property
    def tokens_per_day(self) -> Fraction:
        """Tokens of 24 hours."""
        return self.tokens_per_second * SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True)
class Views:
    """One month's cost by the hour, by a million tokens and by the request."""

    per_hour: Money
    per_million_tokens: Money
    per_request: Money

    def month_by_hours(self) -> int:
        """Cents of a month, from the price of an hour."""
        return cents(self.per_hour * HOURS_PER_MONTH)

    def month_by_tokens(self, volume: Volume) -> int:
        """Cents of a month, from the price of tokens."""
        return cents(self.per_million_tokens * volume.tokens_per_month / MILLION)

    def month_by_requests(self, volume: Volume) -> int:
        """Cents of a month, from the price of a request."""
        return cents(self.per_request * volume.requests_per_month)


def per_million_tokens(monthly: Money, *, tokens_per_second: Fraction, use: Fraction) -> Money:
    """Monthly cost / (tokens per second x use x 720 x 3600 / 10^6).

    ``tokens_per_second`` is what the fleet could do, ``use`` the share of it that is done.
    """
    return monthly / (
        tokens_per_second * use * HOURS_PER_MONTH * SECONDS_PER_HOUR / Fraction(MILLION)
    )


def views(monthly: Money, volume: Volume) -> Views:
    """The same month in three ways, which agree to the cent."""
    return Views(
        per_hour=monthly / HOURS_PER_MONTH,
        per_million_tokens=per_million_tokens(
            monthly, tokens_per_second=volume.tokens_per_second, use=Fraction(1)
        ),
        per_request=monthly / volume.requests_per_month,
    )


def tenant_cents(monthly: Money, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """A month's cents for each tenant; together exactly the month's (largest remainder)."""
    total, whole = cents(monthly), sum(shares.values())
    exact = {name: total * share / whole for name, share in shares.items()}
    given = {name: math.floor(amount) for name, amount in exact.items()}
    rest = total - sum(given.values())
    order = sorted(exact, key=lambda name: (given[name] - exact[name], name))
    return given | {name: given[name] + 1 for name in order[:rest]}


def gpu_seconds_per_thousand_tokens(gpus: int, tokens_per_second: Fraction) -> Fraction:
    """Seconds of one GPU that a thousand tokens take, idle time included: no price is in it."""
    return gpus / tokens_per_second * 1000


@dataclass(frozen=True, kw_only=True)
class IdleNight:
    """Hours without load: what they cost, and what scaling to zero keeps of it.

    ``restart`` is what the nodes cost while they start again and serve nothing.
    """

    hours: Fraction
    cost: Money
    restart: Money

    @property
    def saved(self) -> Money:
        """What scaling to zero saves; negative where the night is shorter than the start."""
        return self.cost - self.restart


def idle_night(per_hour: Money, hours: Fraction, start_seconds: int) -> IdleNight:
    """One night of a fleet that costs ``per_hour`` and takes ``start_seconds`` to come back."""
    return IdleNight(
        hours=hours,
        cost=per_hour * hours,
        restart=per_hour * start_seconds / SECONDS_PER_HOUR,
    )


@dataclass(frozen=True, kw_only=True)
class Api:
    """What a managed service asks for the same tokens."""

    input_per_million: Money
    output_per_million: Money
    platform_fee_per_month: Money

    def per_token(self, volume: Volume) -> Money:
        """The mean price of a token at the volume's mix of prompt and output."""
        tokens = volume.prompt_tokens + volume.output_tokens
        mixed = (
            volume.prompt_tokens * self.input_per_million
            + volume.output_tokens * self.output_per_million
        )
        return mixed / tokens / MILLION


LEAST_REPLICAS = 2
"""Self-hosting that ends with one replica is no alternative to a service."""
FROM_HERE_LINEAR = 5
"""From five replicas on, redundancy by a factor asks for more than one spare replica does."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Self-hosting, which grows by whole replicas, beside an API, which is paid by the token.

    ``replica_tokens_per_day`` is what one replica serves at its limit and at the workload's peak to
    mean; the replicas of a load are those that a plan would give it. Money is by the month.
    """

    fixed: Money
    per_replica: Money
    replica_tokens_per_day: Fraction
    api_fee: Money
    api_per_token: Money

    def replicas(self, tokens_per_day: Fraction) -> int:
        """Replicas that run for a load, with redundancy."""
        return max(LEAST_REPLICAS, needed_replicas(tokens_per_day / self.replica_tokens_per_day, 1))

    def carried(self, replicas: int) -> Fraction:
        """Tokens per day up to which so many replicas are enough, with redundancy."""
        return self.replica_tokens_per_day * min(replicas / REDUNDANCY, Fraction(replicas - 1))

    def self_hosted(self, tokens_per_day: Fraction) -> Money:
        """A month of self-hosting: what is fixed, and whole replicas."""
        return self.fixed + self.per_replica * self.replicas(tokens_per_day)

    def api(self, tokens_per_day: Fraction) -> Money:
        """A month of the API."""
        return self.api_fee + self.api_per_token * tokens_per_day * DAYS_PER_MONTH

    def crossover(self) -> Fraction | None:
        """Tokens per day from which self-hosting first costs no more, or None if it never does.

        With n replicas both cost the same at (fixed + n x replica - fee) / API price, which is the
        crossover if n replicas carry that load. Small n are tried; from there on cost and load are
        linear in n, and the first n that gains enough follows by division.
        """
        daily, owed = self.api_per_token * DAYS_PER_MONTH, self.fixed - self.api_fee
        if daily == 0:
            return Fraction(0) if owed + LEAST_REPLICAS * self.per_replica <= 0 else None
        for replicas in range(LEAST_REPLICAS, FROM_HERE_LINEAR + 1):
            if owed + self.per_replica * replicas <= daily * self.carried(replicas):
                return self._equal(replicas)
        gained = daily * self.replica_tokens_per_day / REDUNDANCY - self.per_replica
        return None if gained <= 0 else self._equal(math.ceil(owed / gained))

    def _equal(self, replicas: int) -> Fraction:
        """Where so many replicas cost as much as the API, or the least load that has so many."""
        daily = self.api_per_token * DAYS_PER_MONTH
        equal = (self.fixed - self.api_fee + self.per_replica * replicas) / daily
        fewer = Fraction(0) if replicas == LEAST_REPLICAS else self.carried(replicas - 1)
        return max(equal, fewer)


def curve(comparison: Comparison, until: Fraction, steps: int) -> Sequence[tuple[int, int, int]]:
    """Points of both lines up to a load: tokens per day, self-hosted cents, API cents."""
    loads = (until * step / steps for step in range(steps + 1))
    return [
        (math.floor(load), cents(comparison.self_hosted(load)), cents(comparison.api(load)))
        for load in loads
    ]
