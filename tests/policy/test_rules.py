from __future__ import annotations

from pathlib import Path

import pytest

from policy import rules
from policy.resources import UNKNOWN, Resource
from policy.rule import Family, Rule
from policy.rules import RULES
from tests.policy import policy_cases
from tests.policy.policy_cases import Case, as_secrets, with_unknown_leaves

CASES = list(policy_cases.all_cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_finds_what_it_says(case: Case) -> None:
    case.check(case.judged(case.properties))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_unknown_value_elsewhere_changes_nothing(case: Case) -> None:
    if case.properties:
        case.check(case.judged(with_unknown_leaves(case.properties)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_secrets_are_judged_and_never_shown(case: Case) -> None:
    found = case.judged(as_secrets(case.properties))
    plain = case.judged(case.properties)
    assert [(f.key, f.verdict, f.reason) for f in found] == [
        (f.key, f.verdict, f.reason) for f in plain
    ]
    for finding, shown in zip(found, plain, strict=True):
        assert finding.given == (None if shown.given is None else "[secret]")
        assert shown.given is None or len(shown.given) <= 8 or shown.given not in str(finding)


def test_each_rule_has_a_module_and_a_folder_of_cases_with_its_name() -> None:
    names = {rule.name for rule in RULES}
    modules = Path(rules.__file__).parent.glob("[a-z]*.py")
    assert {path.stem.replace("_", "-") for path in modules} == names
    assert {path.name for path in policy_cases.FOLDER.iterdir()} == names
    assert len(names) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_good_bad_and_undeterminable_cases(rule: Rule) -> None:
    own = [case for case in CASES if case.rule is rule]
    verdicts = {one.verdict for case in own for one in case.finds}
    assert any(not case.finds for case in own)
    if verdicts != {"warn"}:  # what only warns leaves unknown values to the rule that refuses them
        assert verdicts >= {"fail", "undeterminable"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_says_what_to_do_and_why(rule: Rule) -> None:
    assert rule.description.endswith(".")
    assert rule.remediation.endswith(".")
    assert rule.references
    assert all(reference.startswith("https://") for reference in rule.references)


def test_a_finding_reads_as_resource_rule_key_reason_and_remedy() -> None:
    properties = {"spec": {"type": "NodePort", "selector": {"tokenworks.dev/role": "engine"}}}
    service = Resource.of("kubernetes:core/v1:Service", "llama", properties)
    (finding,) = (finding for rule in RULES for finding in rule.judge(service))
    assert str(finding) == (
        "kubernetes:core/v1:Service llama: only-the-gateway-has-a-load-balancer: spec.type: "
        "NodePort would publish an engine, since its selector's tokenworks.dev/role is engine; "
        "use type ClusterIP, and let the gateway serve it."
    )


def test_a_given_value_cannot_break_out_of_its_line() -> None:
    properties = {"chart": "keda", "version": "1\n::error::x\x1b[2J"}
    release = Resource.of("kubernetes:helm.sh/v3:Release", "keda", properties)
    (finding,) = (finding for rule in RULES for finding in rule.judge(release))
    assert str(finding).isprintable()


def test_only_pins_and_rights_of_pods_wait_for_the_update() -> None:
    waiting = {rule.family for rule in RULES if rule.tolerates_unknown_at_preview}
    assert waiting == {Family.PINS, Family.PODS}
    body = {"spec": {"containers": [{"image": UNKNOWN}], "hostNetwork": UNKNOWN}}
    pod = Resource.of("kubernetes:core/v1:Pod", "p", body)
    found = [finding for rule in RULES for finding in rule.judge(pod)]
    waits = {finding.rule: finding.tolerable_at_preview for finding in found}
    assert waits["engines-stay-off-their-nodes-network"] is False
    assert waits["images-are-pinned-by-digest"] is True
    assert waits["pods-never-own-their-node"] is True
