"""The pack through its real run-time path: the servicer that the engine talks to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy.policy import EnforcementLevel, ResourceValidationPolicy, _PolicyAnalyzerServicer

from policy.pack import policies
from policy.rules import RULES
from tests.policy import policy_cases
from tests.policy.policy_cases import NAME, Case, as_secrets, on_the_wire, with_unknown_leaves

CASES = list(policy_cases.all_cases())
REPOSITORY = Path(__file__).parents[2]
MANDATORY, ADVISORY = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY


@pytest.fixture(params=["preview", "preview of an executable pack", "update"])
def phase(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Say what runs as the engine does: in the environment, or, to an executable, not at all."""
    said = {"preview": "true", "update": "false"}.get(request.param)
    monkeypatch.delenv("PULUMI_DRY_RUN", raising=False)
    if said is not None:
        monkeypatch.setenv("PULUMI_PROJECT", "tokenworks")
        monkeypatch.setenv("PULUMI_STACK", "test")
        monkeypatch.setenv("PULUMI_DRY_RUN", said)
    return str(request.param)


def servicer() -> _PolicyAnalyzerServicer:
    return _PolicyAnalyzerServicer("tokenworks", "0.1.0", policies(), EnforcementLevel.MANDATORY)


def sent(type_: str, name: str, properties: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a resource as the engine sends it."""
    struct = struct_pb2.Struct()
    struct.update(on_the_wire(properties))
    urn = f"urn:pulumi:test::tokenworks::{type_}::{name}"
    return {
        "type": type_,
        "properties": struct,
        "urn": urn,
        "name": name,
        "options": analyzer_pb2.AnalyzerResourceOptions(**options),
    }


def analyze(type_: str, properties: dict[str, Any], **options: Any) -> list[Any]:
    request = analyzer_pb2.AnalyzeRequest(**sent(type_, NAME, properties, **options))
    return list(servicer().Analyze(request, None).diagnostics)  # type: ignore[no-untyped-call]


def analyze_stack(case: Case, properties: dict[str, Any]) -> list[Any]:
    others = [sent(one["type"], one["name"], one["properties"]) for one in case.among or ()]
    resources = [sent(case.type, NAME, properties), *others]
    request = analyzer_pb2.AnalyzeStackRequest(
        resources=[analyzer_pb2.AnalyzerResource(**one) for one in resources]
    )
    return list(servicer().AnalyzeStack(request, None).diagnostics)  # type: ignore[no-untyped-call]


def analyze_case(case: Case, properties: dict[str, Any]) -> list[Any]:
    """Return what both kinds of policy say, as the engine asks them for the case."""
    options = {"ignoreChanges": case.ignored, "parent": case.parent}
    said = analyze(case.type, properties, **options)
    return said if case.among is None else said + analyze_stack(case, properties)


def expected_level(case: Case, verdict: str, phase: str) -> Any:
    tolerant = case.rule.tolerates_unknown_at_preview and phase != "update"
    advises = verdict == "warn" or (verdict == "undeterminable" and tolerant)
    return ADVISORY if advises else MANDATORY


@pytest.mark.parametrize("form", ["known", "unknown elsewhere", "secret"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_pack_reports_what_a_case_says(case: Case, form: str, phase: str) -> None:
    properties = case.properties
    if form == "unknown elsewhere" and properties:
        properties = with_unknown_leaves(properties)
    if form == "secret":
        properties = as_secrets(properties)
    whose = f"{case.type} {NAME}: {case.rule.name}: "
    own = [one for one in analyze_case(case, properties) if whose in one.message]
    expected = [
        (whose + (f"{one.key}: " if one.key else ""), expected_level(case, one.verdict, phase))
        for one in case.finds
    ]
    for start, level in expected:
        assert any(start in one.message and one.enforcementLevel == level for one in own)
    if case.among is None:  # what others acquit is still refused where each is judged alone
        assert len(own) == len(expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_pack_never_gives_up_on_an_unknown_value(case: Case, phase: str) -> None:
    messages = [one.message for one in analyze_case(case, case.properties)]
    assert not [message for message in messages if "can't run policy" in message]


def test_a_resource_of_no_concern_is_not_even_read(phase: str) -> None:
    assert analyze("random:index/randomPet:RandomPet", {"containers": [{"image": "nginx"}]}) == []


def test_every_family_is_one_mandatory_policy_and_one_policy_advises() -> None:
    names = {one.name: one.enforcement_level for one in policies()}
    assert names.pop("advice") is EnforcementLevel.ADVISORY
    assert names.pop("whole-stack") is EnforcementLevel.MANDATORY
    families = {rule.family for rule in RULES}
    assert names == {family.value: EnforcementLevel.MANDATORY for family in families}


def test_no_policy_changes_what_it_judges() -> None:
    for one in policies():
        assert not (isinstance(one, ResourceValidationPolicy) and one.has_remediation())


def test_few_enough_policies_for_the_packs_cost_per_policy() -> None:
    assert len(policies()) <= 10


def test_the_pack_says_nothing_while_it_is_imported() -> None:
    command = [sys.executable, "-c", "import policy.pack"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_rules_need_neither_pulumi_nor_tokenworks() -> None:
    code = (
        "import sys, policy.rules; "
        "print([m for m in sys.modules if m.split('.')[0] in {'pulumi', 'grpc', 'tokenworks'}])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
