"""What the gateway's benchmark makes of its figures."""

from __future__ import annotations

import dataclasses

from benchmarks.gateway.measure import Measured
from benchmarks.gateway.report import goals, median

PLAIN = Measured(
    load="first token",
    requests=1000,
    errors=0,
    first_error="",
    seconds=2.0,
    first_token_ms=(0.4, 1.0),
    inter_token_ms=(10.0, 11.0),
    cpu_seconds=0.1,
    generator_cpu_seconds=0.02,
    memory_mib=50.0,
    most_at_a_time=0,
)
SLOWER = dataclasses.replace(PLAIN, first_token_ms=(0.8, 2.5), cpu_seconds=0.2)


def test_rounds_are_joined_by_their_medians_and_no_error_is_lost() -> None:
    rounds = [
        dataclasses.replace(PLAIN, first_token_ms=(p50, 9 - p50), errors=1, memory_mib=p50)
        for p50 in (3.0, 1.0, 2.0)
    ]
    joined = median(rounds)
    assert joined.first_token_ms == (2.0, 7.0)
    assert (joined.errors, joined.memory_mib) == (3, 3.0)


def test_each_goal_is_held_against_what_it_names() -> None:
    results = {
        (name, load): PLAIN if name in ("direct", "nginx") else SLOWER
        for name in ("direct", "tokenworks", "nginx")
        for load in ("first token", "inter-token", "requests")
    }
    results["tokenworks", "held"] = dataclasses.replace(SLOWER, requests=99, most_at_a_time=100)
    seen = {goal.name: (goal.seen, goal.met) for goal in goals(list("x"), results, 100)}
    assert seen == {"slow streams held": ("100 at a time, 1 dropped", False)}
    names = ["direct", "tokenworks", "nginx"]
    assert {goal.name: (goal.seen, goal.met) for goal in goals(names, results, 100)} == {
        "added to the median of the first token": ("0.40 ms", True),
        "added to the 99th percentile of the first token": ("1.50 ms", False),
        "requests per core second": ("5000", True),
        "TLS-only nginx, by core second": ("2.0 x", True),
        "- the same by requests/s, generator beside it": ("1.0 x", None),
        "slow streams held": ("100 at a time, 1 dropped", False),
    }


def test_the_distance_to_nginx_is_shared_out_between_envoy_and_our_features() -> None:
    cpu = {"nginx": 0.1, "envoy": 0.2, "tokenworks": 0.5}
    results = {
        (name, load): dataclasses.replace(PLAIN, cpu_seconds=seconds)
        for name, seconds in cpu.items()
        for load in ("first token", "requests")
    }
    seen = {goal.name: (goal.seen, goal.met) for goal in goals(list(cpu), results, 0)}
    assert seen["TLS-only nginx, by core second"] == ("5.0 x", False)
    assert seen["- of that: TLS-only Envoy against nginx"] == ("2.0 x", None)
    assert seen["- of that: our features against TLS-only Envoy"] == ("2.5 x", None)


def test_what_is_not_there_is_not_judged() -> None:
    results = {("tokenworks", load): SLOWER for load in ("first token", "requests")}
    assert [goal.name for goal in goals(["tokenworks"], results, 0)] == ["requests per core second"]
