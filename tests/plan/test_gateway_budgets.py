"""How far a budget can be exceeded, wherever routes lead."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.gateway.harness import engines_of, model_step, route_to
from tokenworks.environment.gateway import Tenant
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.gateway_budgets import Ways, leads_elsewhere, longest_known, tenant_plan
from tokenworks.plan.gateway_types import GatewayRoute, ManagedApi, ModelEngines, Shadow, Step
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Decided, Plan
from tokenworks.show import plan_tables

API = ManagedApi(
    name="cloud",
    host="llm.example.com",
    port=443,
    base_path="/v1",
    model="cloud-model",
    credential_secret="key-cloud",  # noqa: S106  (the name of one)
    max_concurrent_requests=8,
)
TO_API = Step(kind="api", name="cloud", rewrites=True)
SENTENCE = Step(kind="answer", name="alpha", rewrites=True)
ALPHA, BIG = model_step("alpha"), model_step("big", rewrites=True)


def engines(name: str, *, places: int, longest: int, default: int) -> ModelEngines:
    return engines_of(name, 8000, most=places, longest_tokens=longest, default_tokens=default)


MODELS = (
    engines("alpha", places=4, longest=1000, default=100),
    engines("big", places=2, longest=20_000, default=500),
)


def ways(*routes: GatewayRoute) -> Ways:
    return Ways(models=MODELS, apis=(API,), routes=(*routes, route_to("big")))


def overshoot(
    found: Ways, *, replicas: int = 1, tokens: int = 100_000, **fields: Any
) -> Decided[Any]:
    tenant = Tenant.model_validate(
        {"name": "search", "models": ["alpha"], "tokens_per_minute": tokens, **fields}
    )
    budget = tenant_plan(tenant, found, counters=replicas, replicas=replicas).tokens
    assert budget
    return budget.overshoot


def test_a_model_alone_counts_its_own_places_and_length() -> None:
    assert overshoot(ways(route_to("alpha"))).value == 4 * 900
    assert overshoot(ways(route_to("alpha")), replicas=3).value == 3 * 4 * 900


def test_a_small_budget_pays_fewer_defaults_than_there_are_places() -> None:
    found = overshoot(ways(route_to("alpha")), tokens=250)
    assert found.value == 2 * 900
    assert "2 defaults of 100 tokens" in found.because


def test_wherever_a_route_leads_counts() -> None:
    """A rule, what stands in, a release: each may answer with 20,000 tokens instead of 1,000."""
    for routes in (
        (route_to("alpha", BIG, name="rule/long"), route_to("alpha")),
        (route_to("alpha", ALPHA, BIG, SENTENCE),),
        (route_to("alpha", BIG, ALPHA, name="release/big", release="big"), route_to("alpha")),
    ):
        found = overshoot(ways(*routes))
        assert found.value == 2 * 19_900 + 4 * 900
        assert "6 requests in flight (6 places" in found.because
        assert longest_known(ways(*routes).of("alpha")) == 20_000


def test_neither_a_shadow_nor_a_fixed_answer_counts() -> None:
    shadow = Shadow(model="big", percent=100, max_concurrent_requests=1)
    for route in (route_to("alpha", shadow=shadow), route_to("alpha", ALPHA, SENTENCE)):
        assert overshoot(ways(route)).value == 4 * 900


def test_how_long_an_answer_of_a_managed_api_is_nobody_claims_to_know() -> None:
    found = ways(route_to("alpha", ALPHA, TO_API, restricted=False), route_to("alpha"))
    assert leads_elsewhere(found.of("alpha"))
    assert overshoot(found).value is None
    assert "cloud" in overshoot(found).because
    assert overshoot(found, default_max_tokens=50).value == 0


def test_ways_that_are_closed_to_a_tenant_do_not_count() -> None:
    to_api = route_to("alpha", TO_API, name="rule/api", restricted=False)
    others = route_to("alpha", BIG, name="rule/others", tenants=("support",))
    found = ways(to_api, others, route_to("alpha"))
    assert overshoot(found).value is None
    assert overshoot(found, restricted=True).value == 4 * 900
    assert overshoot(found, restricted=True, name="support").value == 2 * 19_900 + 4 * 900


_sizes = st.tuples(st.integers(1, 3), st.integers(100, 3000), st.integers(1, 100))
_chains = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)


@given(
    sizes=st.lists(_sizes, min_size=3, max_size=3),
    chains=st.lists(_chains, min_size=3, max_size=3),
    per_minute=st.integers(1, 600),
)
def test_no_requests_that_fit_in_exceed_a_budget_by_more(
    sizes: list[tuple[int, int, int]], chains: list[list[int]], per_minute: int
) -> None:
    """Each of the requests in flight is asked of one model and answered in one place."""
    names = ("one", "two", "three")
    models = tuple(
        engines(name, places=places, longest=longest, default=default)
        for name, (places, longest, default) in zip(names, sizes, strict=True)
    )
    routes = tuple(
        route_to(name, *(model_step(names[place]) for place in chain))
        for name, chain in zip(names, chains, strict=True)
    )
    found = Ways(models=models, apis=(), routes=routes)
    said = overshoot(found, tokens=per_minute, models=None).value
    pairs = [(asked, place) for asked, chain in enumerate(chains) for place in chain]
    most = max(one.max_concurrent_requests for one in models)
    for counts in itertools.product(range(most + 1), repeat=min(len(pairs), 4)):
        held = [0, 0, 0]
        reserved = beyond = 0
        for count, (asked, place) in zip(counts, pairs, strict=False):
            held[place] += count
            reserved += count * models[asked].default_tokens
            beyond += count * max(0, models[place].longest_tokens - models[asked].default_tokens)
        fits = all(
            taken <= one.max_concurrent_requests for taken, one in zip(held, models, strict=True)
        )
        if fits and reserved <= per_minute:
            assert beyond <= said


def test_what_nobody_knows_is_said_in_the_plan(everything: Plan) -> None:
    """Whoever may leave for a managed API, states nothing and has a budget; not who stays here."""
    search, personnel, *_ = everything.gateway.tenants
    assert search.tokens
    assert personnel.tokens
    assert search.tokens.overshoot.value is None
    assert (personnel.tokens.overshoot.value or 0) > 0
    console = Console(width=400, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(plan_tables(everything))
    (row,) = [line for line in captured.get().splitlines() if "100,000 tokens" in line]
    assert "not known" in row
    (advice,) = [str(one) for one in everything.advice if "tenants[0].tokens" in one.key]
    assert "any number of tokens beyond the 100,000 of a minute" in advice


@pytest.fixture(scope="module")
def everything() -> Plan:
    root = Path(__file__).resolve().parents[2]
    folder = root / "tests" / "cases" / "environments" / "good"
    environment = load_environment("gateway-with-everything", folder)
    return resolve(environment, read_lock(root / "stacks"))
