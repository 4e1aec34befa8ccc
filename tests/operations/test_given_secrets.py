"""What is said of secrets that are not there, before anything is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.operations.given_secrets import secret_problems
from tokenworks.plan.types import Plan
from tokenworks.planning import plan_environment, resolve_loaded
from tokenworks.workspace import PROJECT, Workspace

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"


def plan_of(name: str) -> Plan:
    return resolve_loaded(load_environment(name, GOOD), read_lock(ROOT / "stacks"))


def setting(name: str, *, secret: bool = True) -> dict[str, Any]:
    return {f"{PROJECT}:{name}": {"secret": secret} | ({} if secret else {"value": "written out"})}


def said(plan: Plan, *settings: dict[str, Any]) -> list[str]:
    merged = {key: value for one in settings for key, value in one.items()}
    return [str(problem) for problem in secret_problems(plan, merged)]


def test_a_certificate_without_its_key_is_named_with_the_command_that_sets_it() -> None:
    assert said(plan_of("hosts")) == [
        (
            "cluster.certificate.private_key: gateway-private-key is not among the settings of "
            "hosts-serving; run `pulumi config set --secret gateway-private-key --stack "
            "hosts-serving < FILE`, which holds it."
        )
    ]
    assert said(plan_of("hosts"), setting("gateway-private-key")) == []


def test_every_managed_api_needs_its_key() -> None:
    plan = plan_of("gateway-with-everything")
    names = [api.credential_secret for api in plan.gateway.apis]
    assert names
    assert len(said(plan)) == len(names)
    assert said(plan, *map(setting, names)) == []


def test_a_secret_in_plain_text_is_refused_and_not_repeated() -> None:
    (line,) = said(plan_of("hosts"), setting("gateway-private-key", secret=False))
    assert "is in plain text" in line
    assert "written out" not in line


def test_a_cluster_on_aws_needs_the_key_of_its_certificate() -> None:
    (line,) = said(plan_of("aws-images"))
    assert line.startswith("aws.certificate.private_key: gateway-private-key is not among")
    assert said(plan_of("aws-images"), setting("gateway-private-key")) == []


def test_a_source_of_weights_needs_its_token() -> None:
    plan = plan_of("weights-from-everywhere")
    (line,) = [one for one in said(plan) if "hub-token" in one]
    assert line.startswith("models[0].weights.source: hub-token is not among the settings")
    assert not [one for one in said(plan, setting("hub-token")) if "hub-token" in one]


@pytest.mark.parametrize("name", ["certificate-from-an-issuer", "aws-certificate-from-an-issuer"])
def test_where_an_issuer_signs_no_key_is_asked_for(name: str) -> None:
    assert said(plan_of(name)) == []


def test_keys_that_are_made_here_are_not_asked_for() -> None:
    assert said(plan_environment(Workspace(ROOT), "local")) == []
