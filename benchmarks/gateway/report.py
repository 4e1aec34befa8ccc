"""Tables: what each subject did, and what of the goals was met."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.gateway.measure import Measured
from benchmarks.gateway.subjects import Subject

Results = Mapping[tuple[str, str], Measured]
OURS, DIRECT, ENVOY, NGINX = "tokenworks", "direct", "envoy", "nginx"


def median(rounds: Sequence[Measured]) -> Measured:
    """The median of each figure over the rounds; errors are added up."""

    def pair(name: str) -> tuple[float, float]:
        pairs = [getattr(each, name) for each in rounds]
        return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)

    middle = sorted(rounds, key=lambda each: each.requests_per_second)[len(rounds) // 2]
    return dataclasses.replace(
        middle,
        errors=sum(each.errors for each in rounds),
        first_token_ms=pair("first_token_ms"),
        inter_token_ms=pair("inter_token_ms"),
        memory_mib=max(each.memory_mib for each in rounds),
    )


def subjects_table(subjects: Sequence[Subject], results: Results) -> Table:
    """One row for each subject: medians of the rounds."""
    table = Table(title="milliseconds: median, 99th percentile", box=None, pad_edge=False)
    for heading in (
        *("", "first token", "inter-token (10 set)", "requests/s", "per core second"),
        *("generator's own", "memory MiB", "held, of them whole"),
    ):
        table.add_column(heading)
    for subject in subjects:
        first, inter, many = (
            results[subject.name, load] for load in ("first token", "inter-token", "requests")
        )
        held = results.get((subject.name, "held"))
        memory = max(each.memory_mib for each in (first, many, held or many))
        table.add_row(
            f"{subject.name} ({subject.about})",
            "{:.2f}, {:.2f}".format(*first.first_token_ms),
            "{:.2f}, {:.2f}".format(*inter.inter_token_ms),
            f"{many.requests_per_second:.0f}",
            f"{many.requests_per_core_second:.0f}",
            f"{1e6 * many.generator_cpu_seconds / max(1, many.requests):.0f} µs a request",
            f"{memory:.0f}",
            f"{held.most_at_a_time}, {held.requests}" if held else "",
        )
    return table


@dataclass(frozen=True, kw_only=True)
class Goal:
    """One goal: what was seen, and whether that meets it; None for what only explains another."""

    name: str
    goal: str
    seen: str
    met: bool | None


def goals_table(names: Sequence[str], results: Results, streams: int) -> Table:
    """The goals of the gateway against this run."""
    table = Table(title="goals", box=None, pad_edge=False)
    for heading in ("", "goal", "seen", "met"):
        table.add_column(heading)
    for goal in goals(names, results, streams):
        met = "" if goal.met is None else ("yes" if goal.met else "NO")
        table.add_row(goal.name, goal.goal, goal.seen, met)
    return table


def goals(names: Sequence[str], results: Results, streams: int) -> list[Goal]:
    """Each goal, as far as the subjects that it compares were there."""
    found = [*_added(names, results), *_throughput(names, results)]
    held = results.get((OURS, "held"))
    if held is not None:
        lost = streams - held.requests
        seen = f"{held.most_at_a_time} at a time, {lost} dropped"
        met = held.most_at_a_time == streams and lost == 0
        goal = Goal(name="slow streams held", goal=f"{streams}, none dropped", seen=seen, met=met)
        found.append(goal)
    return found


def _added(names: Sequence[str], results: Results) -> list[Goal]:
    """What the gateway adds to the time to first token."""
    if not {OURS, DIRECT} <= set(names):
        return []
    bare = results[DIRECT, "first token"].first_token_ms
    first = results[OURS, "first token"].first_token_ms
    found = []
    for index, what, limit in ((0, "median", 0.5), (1, "99th percentile", 1.0)):
        added = first[index] - bare[index]
        goal = Goal(
            name=f"added to the {what} of the first token",
            goal=f"≤ {limit} ms",
            seen=f"{added:.2f} ms",
            met=added <= limit,
        )
        found.append(goal)
    if "LiteLLM" in names:
        theirs = results["LiteLLM", "first token"].first_token_ms[0] - bare[0]
        ratio = theirs / max(0.01, first[0] - bare[0])
        found.append(_tenfold("first token added, against LiteLLM", ratio))
    return found


def _throughput(names: Sequence[str], results: Results) -> list[Goal]:
    if OURS not in names:
        return []
    ours = results[OURS, "requests"].requests_per_core_second
    found = [
        Goal(
            name="requests per core second",
            goal="≥ 4000",
            seen=f"{ours:.0f}",
            met=ours >= 4000,
        )
    ]
    found += _against_nginx(names, results)
    if "LiteLLM" in names:
        theirs = results["LiteLLM", "requests"].requests_per_core_second
        found.append(_tenfold("requests per core second, against LiteLLM", ours / max(0.1, theirs)))
    return found


def _against_nginx(names: Sequence[str], results: Results) -> list[Goal]:
    """How far nginx is ahead, and which part of that is Envoy's and which our features'."""

    def goal(name: str, ahead: str, behind: str, figure: str, met: bool = False) -> list[Goal]:
        if not {ahead, behind} <= set(names):
            return []
        first, second = (getattr(results[one, "requests"], figure) for one in (ahead, behind))
        ratio = first / max(1, second)
        limit = "within 3 x" if met else ""
        return [Goal(name=name, goal=limit, seen=f"{ratio:.1f} x", met=ratio <= 3 if met else None)]

    cores, clock = "requests_per_core_second", "requests_per_second"
    return [
        *goal("TLS-only nginx, by core second", NGINX, OURS, cores, met=True),
        *goal("- of that: TLS-only Envoy against nginx", NGINX, ENVOY, cores),
        *goal("- of that: our features against TLS-only Envoy", ENVOY, OURS, cores),
        *goal("- the same by requests/s, generator beside it", NGINX, OURS, clock),
    ]


def _tenfold(name: str, ratio: float) -> Goal:
    return Goal(name=name, goal="10 x better", seen=f"{ratio:.0f} x", met=ratio >= 10)
