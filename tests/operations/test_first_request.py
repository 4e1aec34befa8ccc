"""The first request that `up` shows: by whom, to which model, and why there may be none."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.checkout import ROOT
from tokenworks.operations.first_request import askers, first_request, key_file, why_nobody_asks
from tokenworks.plan.gateway_types import ClientCertificates, TenantPlan
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment
from tokenworks.workspace import Workspace

REAL, SIMULATED = "tiny-llama", "qwen3-32b"
KEY = ("gateway-key-search",)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_environment(Workspace(ROOT), "onenode")


def with_tenants(plan: Plan, *tenants: TenantPlan) -> Plan:
    return replace(plan, gateway=replace(plan.gateway, tenants=tenants))


def by_token() -> TenantPlan:
    return TenantPlan(name="by-token", key_secrets=())


def with_key(name: str, *models: str) -> TenantPlan:
    return TenantPlan(name=name, key_secrets=KEY, models=models)


def elsewhere(plan: Plan) -> Plan:
    """The same where every model is on simulated nodes."""
    pool = next(one.name for one in plan.pools if not one.real)
    return replace(plan, models=tuple(replace(one, node_pool=pool) for one in plan.models))


def certified(plan: Plan, *, required: bool) -> Plan:
    wanted = ClientCertificates(ca="", required=required)
    return replace(plan, gateway=replace(plan.gateway, client_certificates=wanted))


def test_every_tenant_with_a_key_asks_the_model_that_runs(plan: Plan) -> None:
    assert [(one.tenant, one.model) for one in askers(plan)] == [
        ("search", REAL),
        ("assistant", REAL),
    ]


def test_the_first_tenant_that_gets_an_answer_is_shown_whoever_stands_before_it(
    plan: Plan,
) -> None:
    tenants = (by_token(), with_key("other", SIMULATED), with_key("right", SIMULATED, REAL))
    assert [(one.tenant, one.model) for one in askers(with_tenants(plan, *tenants))] == [
        ("right", REAL)
    ]


def test_nobody_asks_where_no_request_gets_an_answer_and_the_reason_is_said(plan: Plan) -> None:
    reasons = {
        "tokens of an identity provider": with_tenants(plan, by_token()),
        f"may use {REAL}": with_tenants(plan, by_token(), with_key("other", SIMULATED)),
        "no model is on the node": elsewhere(plan),
        "client certificates": certified(plan, required=True),
    }
    for reason, other in reasons.items():
        assert askers(other) == ()
        assert reason in why_nobody_asks(other)


def test_certificates_that_callers_may_bring_keep_nobody_from_asking(plan: Plan) -> None:
    assert askers(certified(plan, required=False)) == askers(plan)


def test_the_command_has_the_key_in_a_file_and_the_address_of_this_machine(
    plan: Plan, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    command = first_request(workspace, plan, askers(plan)[0], 4443)
    words = shlex.split(command.replace("\\\n", " "))
    assert "https://inference.local:4443/v1/chat/completions" in words
    assert "inference.local:4443:127.0.0.1" in words
    assert f"@{key_file(workspace, 'onenode', 'search')}" in words
    body = json.loads(words[words.index("--data") + 1])
    assert (body["model"], body["stream"]) == (REAL, True)
