"""What a plan decides from traffic, load tests and prices, and what it says about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.errors import ConfigError
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import ModelPlan, Plan
from tokenworks.show import to_data
from tokenworks.sizing.cost import cents

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"
TEXT = (GOOD / "with-traffic.yaml").read_text("utf-8")
LOAD_TEST: dict[str, Any] = json.loads((GOOD / "load-tests" / "qwen.json").read_text("utf-8"))

Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    def plan(text: str = TEXT, load_test: dict[str, Any] = LOAD_TEST) -> Plan:
        (tmp_path / "load-tests").mkdir(exist_ok=True)
        (tmp_path / "load-tests" / "qwen.json").write_text(json.dumps(load_test))
        if not (tmp_path / "weights").exists():
            (tmp_path / "weights").symlink_to(GOOD / "weights")
        (tmp_path / "traffic.yaml").write_text(text)
        return resolve(load_environment("traffic", tmp_path), read_lock(ROOT / "stacks"))

    return plan


def llama(plan: Plan) -> ModelPlan:
    return plan.models[0]


def qwen(plan: Plan) -> ModelPlan:
    return plan.models[1]


def without(text: str, *keys: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(tuple(keys)))


def findings(plan: Plan) -> str:
    return "\n".join(map(str, plan.advice))


def test_a_load_test_gives_the_limit_that_still_meets_the_latency_target(planned: Planned) -> None:
    found = qwen(planned()).capacity
    # 20 sequences are the knee with 1.4 s, the scheduler takes 16, so the level of 10 remains.
    assert found.sequences_per_replica.value == 10
    assert found.rates is not None
    assert found.rates.value.measured
    assert found.rates.value.requests_per_second == (1.0, 1.0)  # 500 tokens/s of 500 each


def test_replicas_follow_from_rate_and_time_with_redundancy_and_one_spare(
    planned: Planned,
) -> None:
    found = qwen(planned())
    # 2.5 requests/s x 10 s are 25 in flight: ceil(25 / 10 x 1.3) = 4 = 3 + 1.
    assert found.capacity.peak_sequences.value == 25
    assert found.replicas.value == found.capacity.needed_replicas.value == 4


def test_without_a_load_test_the_slow_end_of_a_stated_range_is_planned(planned: Planned) -> None:
    rates = llama(planned()).capacity.rates
    assert rates is not None
    slow, fast = rates.value.requests_per_second
    assert not rates.value.measured
    assert slow < fast
    assert rates.value.planned_requests_per_second == slow
    assert "roofline estimate at 40% to 80%" in rates.because


def test_a_fleet_serves_its_peak_rate_at_the_slow_end(planned: Planned) -> None:
    for model in planned().models:
        assert model.capacity.rates is not None
        rates = model.capacity.rates.value
        served = rates.planned_requests_per_second * model.replicas.value
        assert served >= rates.asked.peak_requests_per_second


def test_asked_replicas_stay_and_are_told_when_they_are_too_few(planned: Planned) -> None:
    plan = planned(TEXT.replace("peak_concurrency: 16", "peak_concurrency: 16\n    replicas: 2"))
    assert qwen(plan).replicas.value == 2
    assert "models[1].replicas: 2 replicas are asked for, the traffic needs 4" in findings(plan)


def test_one_gateway_lets_in_twice_the_peak_however_many_replicas_there_are(
    planned: Planned,
) -> None:
    limits = []
    for replicas in (2, 3):
        plan = planned(
            TEXT.replace("peak_concurrency: 16", f"peak_concurrency: 16\n    replicas: {replicas}")
        )
        limits.append([model.max_concurrent_requests for model in plan.gateway.models])
        for limit, model in zip(limits[-1], plan.models, strict=True):
            assert limit >= 2 * model.capacity.peak_sequences.value
    assert limits[0] == limits[1]


def test_beyond_the_peak_the_rest_is_refused_and_the_longest_wait_meets_the_target(
    planned: Planned,
) -> None:
    known = qwen(planned()).capacity
    one, two, five = known.surges
    assert (one.refused, one.wait_seconds) == (0, 0.0)
    assert two.refused < five.refused
    assert known.rates is not None
    first = known.rates.value.first_token_seconds[0]
    assert five.wait_seconds is not None
    assert five.wait_seconds + first <= 1.5


def test_measured_parts_of_a_start_shorten_probes_and_deadlines(planned: Planned) -> None:
    public = llama(planned())
    text = TEXT.replace("models:", "start_up: {node_seconds: 90, warm_up_seconds: 60}\nmodels:", 1)
    own = llama(planned(text))
    assert own.cold_start.value.node_seconds == 90
    assert own.cold_start.value.image_pull_seconds == public.cold_start.value.image_pull_seconds
    assert own.progress_deadline_seconds.value < public.progress_deadline_seconds.value
    assert own.startup_probe.value.failure_threshold < public.startup_probe.value.failure_threshold


def test_a_mean_longer_than_the_longest_sequence_is_refused(planned: Planned) -> None:
    with pytest.raises(ConfigError, match=r"models\[0\].traffic: 9000 \+ 300 tokens is longer"):
        planned(TEXT.replace("prompt_tokens: 1500", "prompt_tokens: 9000"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpu", "h200"),
        ("tensor_parallel", 4),
        ("pipeline_parallel", 2),
        ("expert_parallel", 2),
        ("attention_data_parallel", True),
        ("engine_version", "1.1.0"),
        ("repository", "a/b"),
    ],
)
def test_a_load_test_of_something_else_is_refused(planned: Planned, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"measured {key} {value}, planned are {key}"):
        planned(load_test=LOAD_TEST | {key: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"levels": []}, "is incomplete at levels"),
        ({"levels": LOAD_TEST["levels"][::-1]}, "has levels out of order"),
        ({"gpus": 2}, "is incomplete at gpus"),
        ({"output_tokens": 0}, "is incomplete at output_tokens"),
    ],
)
def test_a_broken_load_test_is_refused(planned: Planned, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        planned(load_test=LOAD_TEST | change)


def test_a_missing_load_test_is_refused_at_its_key(planned: Planned) -> None:
    with pytest.raises(ConfigError, match=r"models\[1\].load_test: elsewhere.json does not exist"):
        planned(TEXT.replace("load-tests/qwen.json", "elsewhere.json"))


def test_the_cost_of_all_models_is_the_cost_of_all_nodes_and_people(planned: Planned) -> None:
    cost = planned().cost
    assert cost.month is not None
    parts = [model.month for model in cost.models]
    assert sum(part.total for part in parts) == cost.month.value.total
    assert cost.month.value.nodes == 2 * Fraction("39.5") * 720
    assert cost.month.value.total == 2 * Fraction("39.5") * 720 + 9000 + Fraction("750.5")


def test_the_views_of_every_model_agree_to_the_cent(planned: Planned) -> None:
    for model in planned().cost.models:
        assert model.views is not None
        assert model.volume is not None
        month = cents(model.month.total)
        assert model.views.month_by_hours() == month
        assert model.views.month_by_tokens(model.volume) == month
        assert model.views.month_by_requests(model.volume) == month
        assert sum(model.tenant_month_cents.values()) == month


def test_the_views_still_agree_when_a_machine_reads_them(planned: Planned) -> None:
    for model in to_data(planned())["cost"]["models"]:
        month = sum(model["tenant_month_cents"].values())
        hour, tokens = (Fraction(model["views"][k]) for k in ("per_hour", "per_million_tokens"))
        rate = Fraction(model["volume"]["requests_per_second"])
        lengths = model["volume"]["prompt_tokens"] + model["volume"]["output_tokens"]
        assert cents(hour * 720) == month
        assert cents(tokens * rate * lengths * 720 * 3600 / 10**6) == month


def test_the_curve_at_the_own_load_is_the_cost_of_the_plan(planned: Planned) -> None:
    for model in planned().cost.models:
        assert model.crossover is not None
        load = model.crossover.load_tokens_per_day
        at = min(model.crossover.curve, key=lambda point: abs(point.tokens_per_day - load))
        assert at.self_hosted_cents == cents(model.month.total)


def test_tenants_pay_their_shares(planned: Planned) -> None:
    paid = planned().cost.models[0].tenant_month_cents
    assert paid["search"] / (paid["search"] + paid["assistant"]) == pytest.approx(0.667, abs=1e-6)


def test_without_shares_tenants_pay_alike(planned: Planned) -> None:
    text = without(TEXT, "tenant_shares", "- {tenant")
    paid = planned(text).cost.models[0].tenant_month_cents
    assert abs(paid["search"] - paid["assistant"]) <= 1


def test_without_prices_of_ones_own_list_prices_are_taken_and_named(planned: Planned) -> None:
    cost = planned(without(TEXT, "node_prices", "- {instance")).cost
    assert str(cost.nodes[0].per_node_hour) == "55.04"
    assert "us-east-1, 2026-07-20" in cost.nodes[0].source


def test_an_instance_without_any_price_has_no_cost_and_says_so(planned: Planned) -> None:
    text = without(TEXT, "node_prices", "- {instance").replace("p5.48xlarge", "p5e.48xlarge")
    test = LOAD_TEST | {"gpu": "h200"}
    plan = planned(text, test)
    assert plan.cost.unpriced == ("p5e.48xlarge",)
    assert plan.cost.month is None
    assert plan.cost.models == ()
    assert "cost.node_prices: no price is known for p5e.48xlarge" in findings(plan)


def test_currencies_never_mix(planned: Planned) -> None:
    text = without(TEXT, "node_prices", "- {instance").replace("cost:", "cost:\n  currency: EUR")
    with pytest.raises(ConfigError, match=r"'EUR' is not that of the list price of p5\.48xlarge"):
        planned(text)


def test_ones_own_prices_may_be_in_any_currency(planned: Planned) -> None:
    assert planned(TEXT.replace("cost:", "cost:\n  currency: EUR")).cost.currency == "EUR"


def test_the_night_costs_its_hours_and_scaling_to_zero_pays_for_its_way_back(
    planned: Planned,
) -> None:
    plan = planned()
    assert plan.cost.night is not None
    night = plan.cost.night.value
    start = max(model.cold_start.value.on_new_node_seconds for model in plan.models)
    assert night.cost == 7 * 79
    assert night.saved == night.cost - Fraction(79 * start, 3600)


def test_a_steep_peak_and_an_idle_fleet_are_said_and_a_flat_one_is_not(planned: Planned) -> None:
    said = findings(planned())
    assert "models[1].traffic.peak_to_mean: peak to mean is 3" in said
    assert "models[1]: the fleet is idle 74% of the time" in said
    assert "models[0].traffic.peak_to_mean" not in said
    assert "models[0]: the fleet is idle" not in said


def test_a_model_that_never_earns_its_cost_is_told_and_the_other_is_not(planned: Planned) -> None:
    said = findings(planned())
    assert "models[1]: a replica never earns its cost" in said
    assert "models[0]: a replica never" not in said


def test_a_complete_environment_is_not_told_that_something_is_missing(planned: Planned) -> None:
    said = findings(planned())
    assert "left out" not in said
    assert "given" not in said


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (("people_per_month",), "cost: left out: people;"),
        (("storage_and_network_per_month",), "cost: left out: storage and network;"),
        (("peak_to_mean",), "cost: left out: idle time;"),
        (("time_to_first_token_seconds",), "models[0].traffic: no target time to first token"),
    ],
)
def test_what_is_left_out_is_said(planned: Planned, left_out: tuple[str, ...], said: str) -> None:
    assert said in findings(planned(without(TEXT, *left_out)))


def test_a_target_below_one_prefill_is_said_to_be_out_of_reach(planned: Planned) -> None:
    plan = planned(
        TEXT.replace("time_to_first_token_seconds: 0.8", "time_to_first_token_seconds: 0.01")
    )
    assert "models[0].traffic.time_to_first_token_seconds: the first token takes" in findings(plan)
    assert "models[1].traffic.time_to_first_token_seconds" not in findings(plan)


def test_a_split_where_replicas_carry_the_peak_on_fewer_gpus_is_said(planned: Planned) -> None:
    text = TEXT.replace("peak_concurrency: 64", "peak_concurrency: 64\n    tensor_parallel: 2")
    plan = planned(text.replace("requests_per_second: 30", "requests_per_second: 3"))
    said = "models[0].tensor_parallel: the peak takes 2 replicas of 2 GPUs, 4 GPUs, or 3 replicas"
    assert said in findings(plan)
    assert "models[1].tensor_parallel" not in findings(plan)


def test_lengths_that_were_not_measured_are_said(planned: Planned) -> None:
    plan = planned(load_test=LOAD_TEST | {"prompt_tokens": 500})
    assert "models[1].load_test: was measured with 500 + 500 tokens" in findings(plan)


def test_a_load_test_without_traffic_is_said_to_be_unused(planned: Planned) -> None:
    lines = TEXT.splitlines()
    start = max(i for i, line in enumerate(lines) if line == "    traffic:")
    plan = planned("\n".join(lines[:start] + lines[start + 6 :]))
    assert "models[1].load_test: is not used" in findings(plan)


def test_requests_longer_than_the_gateway_waits_are_said(planned: Planned) -> None:
    text = TEXT.replace("  tenants:", "  max_request_seconds: 5\n  tenants:")
    said = findings(planned(text))
    assert "models[0].traffic: a request of mean length takes" in said
    assert "the gateway ends it after 5 s" in said
    assert "the gateway ends it" not in findings(planned())


def test_gpus_that_no_model_uses_are_said_with_their_cost(planned: Planned) -> None:
    said = findings(planned(TEXT.replace("nodes: 2", "nodes: 4")))
    # 17 of 32 GPUs of 4 x 39.50 an hour, for 720 hours.
    assert "node_pools[0]: no model uses 17 of 32 GPUs, which costs 60,435.00 USD" in said
    assert "node_pools[0]" not in findings(planned())


def test_advice_never_stops_a_plan(planned: Planned) -> None:
    assert planned().advice
