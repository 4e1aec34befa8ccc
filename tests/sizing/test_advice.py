"""Findings: each is there when it should be, with its figures, and silent when all is well."""

from __future__ import annotations

from tokenworks.sizing import advice
from tokenworks.sizing.advice import Advice, Split


def said(found: Advice | None) -> str:
    assert found is not None
    assert found.remedy
    return str(found)


def test_no_rate_and_no_latency_target_is_no_ground_for_a_decision() -> None:
    both = advice.missing_targets("k", requests_per_second=None, target_seconds=None)
    assert "no request rate and no target time to first token" in said(both)
    one = said(advice.missing_targets("k", requests_per_second=2.0, target_seconds=None))
    assert "no target time to first token" in one
    assert "request rate given" not in one
    assert advice.missing_targets("k", requests_per_second=2.0, target_seconds=1.0) is None


def test_a_peak_above_twice_the_mean_favours_an_api() -> None:
    assert "67% of what the peak needs stands idle" in said(advice.steep_peak("k", 3.0))
    assert advice.steep_peak("k", 2.0) is None
    assert advice.steep_peak("k", None) is None


def test_a_sparse_load_is_told_not_to_build_a_cluster() -> None:
    found = said(advice.sparse_load("k", use=0.1, concurrency=0.4))
    assert "idle 90% of the time (0.4 sequences in flight" in found
    assert "use a managed API" in found
    assert advice.sparse_load("k", use=0.45, concurrency=30) is None


def test_a_load_below_the_crossover_is_told_by_how_much() -> None:
    found = advice.below_crossover("k", tokens_per_day=5e6, crossover_tokens_per_day=30e6)
    assert "5.0 million tokens a day are below the 30.0 million" in said(found)
    never = advice.below_crossover("k", tokens_per_day=5e6, crossover_tokens_per_day=None)
    assert "never earns its cost" in said(never)
    assert advice.below_crossover("k", tokens_per_day=31e6, crossover_tokens_per_day=30e6) is None


def split(gpus_per_replica: int, replicas: int) -> Split:
    return Split(
        spelt=f"tensor_parallel {gpus_per_replica}",
        gpus_per_replica=gpus_per_replica,
        replicas=replicas,
    )


def test_a_split_is_named_where_replicas_carry_the_peak_on_no_more_gpus() -> None:
    found = said(advice.replicas_are_better("k", asked=split(2, 2), fewest=split(1, 3)))
    assert "2 replicas of 2 GPUs, 4 GPUs, or 3 replicas of 1 on 3" in found
    assert "use tensor_parallel 1" in found


def test_a_split_that_saves_gpus_is_left_alone() -> None:
    assert advice.replicas_are_better("k", asked=split(2, 3), fewest=split(1, 16)) is None


def test_the_fewest_gpus_are_never_too_many() -> None:
    assert advice.replicas_are_better("k", asked=split(2, 3), fewest=split(2, 3)) is None


def test_a_memory_share_above_95_percent_waits_for_the_peak_to_fail() -> None:
    found = said(advice.high_memory_share("k", 97.5))
    assert "takes 97.5% of free memory, more than 95%" in found
    assert "use at most 95" in found
    assert advice.high_memory_share("k", 95) is None


def test_what_a_cost_leaves_out_is_named_and_nothing_else() -> None:
    found = said(advice.incomplete_cost("cost", people=False, storage_and_network=True, idle=False))
    assert "left out: people, idle time; so the true cost is higher" in found
    assert advice.incomplete_cost("cost", people=True, storage_and_network=True, idle=True) is None


def test_capacity_that_comes_after_the_callers_have_left_is_worth_nothing() -> None:
    found = advice.late_scale_out("k", scale_out_seconds=1_221, client_seconds=600)
    assert "1221 s after" in said(found)
    assert advice.late_scale_out("k", scale_out_seconds=300, client_seconds=600) is None


def test_a_target_that_replicas_cannot_reach_is_named() -> None:
    found = advice.unreachable_target("k", target_seconds=0.5, best_seconds=0.9, because="measured")
    assert "takes 0.90 s even without load (measured)" in said(found)
    assert advice.unreachable_target("k", target_seconds=1, best_seconds=0.9, because="m") is None


def test_requests_that_the_gateway_ends_are_named() -> None:
    found = said(advice.cut_off("k", request_seconds=700.4, limit_seconds=600))
    assert "takes 700 s with its wait, the gateway ends it after 600 s" in found
    assert advice.cut_off("k", request_seconds=600, limit_seconds=600) is None


def test_too_few_replicas_are_told_how_many_it_takes() -> None:
    found = advice.too_few_replicas("k", replicas=2, needed=5, because="law")
    assert "use 5 replicas" in said(found)
    assert advice.too_few_replicas("k", replicas=5, needed=5, because="law") is None


def test_unused_gpus_are_named_with_what_they_cost() -> None:
    found = said(advice.unused_gpus("k", gpus=16, used=4, month="59,443.20 USD"))
    assert "no model uses 12 of 16 GPUs, which costs 59,443.20 USD a month" in found
    assert "costs" not in said(advice.unused_gpus("k", gpus=16, used=4, month=None))
    assert advice.unused_gpus("k", gpus=16, used=16, month=None) is None


def test_only_findings_remain() -> None:
    one = Advice(key="k", finding="f", remedy="r")
    assert advice.given([None, one, None]) == (one,)
