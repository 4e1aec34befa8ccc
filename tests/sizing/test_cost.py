"""Cost: the views of one sum agree to the cent, for any input."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tokenworks.facts.instances import instances
from tokenworks.facts.prices import list_prices
from tokenworks.sizing.cost import (
    Api,
    Comparison,
    MonthlyCost,
    Volume,
    cents,
    curve,
    gpu_seconds_per_thousand_tokens,
    idle_night,
    per_million_tokens,
    tenant_cents,
    views,
)

money = st.decimals(0, 10**9, places=6).map(Fraction)
some_money = st.decimals("0.000001", 10**9, places=6).map(Fraction)
positive = st.decimals("0.001", 10**6, places=3).map(Fraction)
volumes = st.builds(
    Volume,
    requests_per_second=positive,
    prompt_tokens=st.integers(1, 10**6),
    output_tokens=st.integers(1, 10**6),
)
comparisons = st.builds(
    Comparison,
    fixed=money,
    per_replica=some_money,
    replica_tokens_per_day=st.integers(1, 10**12).map(Fraction),
    api_fee=money,
    api_per_token=st.decimals("0.00000001", "0.001", places=8).map(Fraction),
)


def test_a_million_tokens_cost_the_month_over_what_is_made_in_it() -> None:
    # 10,000 a month, 1,000 tokens/s, 40 % used: 10,000 / (1,000 x 0.4 x 720 x 3600 / 10^6).
    found = per_million_tokens(
        Fraction(10_000), tokens_per_second=Fraction(1_000), use=Fraction(4, 10)
    )
    assert found == Fraction(10_000) / (1_000 * Fraction(4, 10) * 720 * 3600 / 10**6)
    assert float(found) == pytest.approx(9.645, abs=0.001)


@given(money, volumes, st.lists(st.integers(1, 1_000), min_size=1, max_size=9))
def test_hour_tokens_request_and_tenants_agree_to_the_cent(
    monthly: Fraction, volume: Volume, weights: list[int]
) -> None:
    seen = views(monthly, volume)
    shares = {f"tenant-{i}": Fraction(weight) for i, weight in enumerate(weights)}
    assert (
        cents(monthly)
        == seen.month_by_hours()
        == seen.month_by_tokens(volume)
        == seen.month_by_requests(volume)
        == sum(tenant_cents(monthly, shares).values())
    )


@given(money, volumes, st.integers(1, 100).map(lambda percent: Fraction(percent, 100)))
def test_what_is_used_of_a_capacity_and_its_share_give_one_price(
    monthly: Fraction, volume: Volume, use: Fraction
) -> None:
    capacity = volume.tokens_per_second / use
    by_use = per_million_tokens(monthly, tokens_per_second=capacity, use=use)
    assert by_use == views(monthly, volume).per_million_tokens


@given(money, st.dictionaries(st.text(min_size=1), positive, min_size=1, max_size=8))
def test_no_tenant_is_more_than_a_cent_from_its_share(
    monthly: Fraction, shares: dict[str, Fraction]
) -> None:
    whole = sum(shares.values())
    for name, given_cents in tenant_cents(monthly, shares).items():
        assert abs(given_cents - cents(monthly) * shares[name] / whole) < 1


def test_unknown_parts_are_left_out_of_a_month_and_known_ones_are_in() -> None:
    month = MonthlyCost(nodes=Fraction(720), people=None, storage_and_network=Fraction(80))
    assert month.total == 800
    assert month.per_hour == Fraction(10, 9)


def test_gpu_seconds_carry_no_price() -> None:
    # 8 GPUs that make 4,000 tokens/s take 2 GPU seconds for a thousand.
    assert gpu_seconds_per_thousand_tokens(8, Fraction(4_000)) == 2


def test_a_night_of_eight_hours_saves_all_but_the_way_back() -> None:
    night = idle_night(Fraction(60), Fraction(8), start_seconds=1_200)
    assert [night.cost, night.restart, night.saved] == [480, 20, 460]


def test_a_night_shorter_than_the_start_is_not_worth_it() -> None:
    assert idle_night(Fraction(60), Fraction(1, 4), start_seconds=1_200).saved < 0


def test_the_price_of_a_token_is_that_of_its_mix() -> None:
    api = Api(
        input_per_million=Fraction(1),
        output_per_million=Fraction(4),
        platform_fee_per_month=Fraction(0),
    )
    volume = Volume(requests_per_second=Fraction(1), prompt_tokens=300, output_tokens=100)
    assert api.per_token(volume) * 10**6 == Fraction(7, 4)


def test_the_crossover_is_where_both_cost_the_same() -> None:
    # 3,000 + 2 replicas of 3,000 against 10 for a million tokens: 30 million tokens a day.
    compared = Comparison(
        fixed=Fraction(3_000),
        per_replica=Fraction(3_000),
        replica_tokens_per_day=Fraction(50 * 10**6),
        api_fee=Fraction(0),
        api_per_token=Fraction(10, 10**6),
    )
    found = compared.crossover()
    assert found == 30 * 10**6
    assert compared.self_hosted(found) == compared.api(found) == 9_000


def test_a_replica_that_never_earns_its_cost_has_no_crossover() -> None:
    compared = Comparison(
        fixed=Fraction(0),
        per_replica=Fraction(3_000),
        replica_tokens_per_day=Fraction(10**6),
        api_fee=Fraction(0),
        api_per_token=Fraction(10, 10**6),
    )
    assert compared.crossover() is None


@given(comparisons)
def test_self_hosting_is_cheaper_from_the_crossover_and_not_before(compared: Comparison) -> None:
    found = compared.crossover()
    if found is None:
        for replicas in (2, 3, 4, 5, 6, 10, 1_000, 10**6):
            full = compared.carried(replicas)
            assert compared.self_hosted(full) > compared.api(full)
        return
    beyond = found + Fraction(1, 10**6)
    assume(compared.replicas(beyond) == compared.replicas(found + Fraction(1, 10**9)))
    assert compared.self_hosted(beyond) <= compared.api(beyond)
    for share in (Fraction(1, 3), Fraction(9, 10), Fraction(999, 1000)):
        before = found * share
        assert compared.self_hosted(before) > compared.api(before) or before == found == 0


@given(comparisons, st.integers(2, 1_000))
def test_replicas_are_enough_for_what_they_carry_and_not_for_more(
    compared: Comparison, replicas: int
) -> None:
    full = compared.carried(replicas)
    assert compared.replicas(full) == replicas
    assert compared.replicas(full + Fraction(1, 10**9)) > replicas


@given(comparisons, st.integers(1, 10**13), st.integers(1, 50))
def test_a_curve_starts_without_load_and_never_falls(
    compared: Comparison, until: int, steps: int
) -> None:
    points = curve(compared, Fraction(until), steps)
    assert len(points) == steps + 1
    assert points[0][0] == 0
    assert points[-1][0] == until
    for before, after in pairwise(points):
        assert all(a <= b for a, b in zip(before, after, strict=True))


def test_list_prices_are_of_known_instance_types_and_say_where_they_are_from() -> None:
    prices = list_prices()
    assert set(prices) <= set(instances())
    assert str(prices["p5.48xlarge"].per_hour) == "55.04"
    assert all(p.per_hour > 0 and p.region and p.date and p.source for p in prices.values())


@pytest.mark.parametrize(
    ("small", "large"), [("p5.4xlarge", "p5.48xlarge"), ("g6.xlarge", "g6.48xlarge")]
)
def test_larger_nodes_cost_more(small: str, large: str) -> None:
    assert list_prices()[small].per_hour < list_prices()[large].per_hour
