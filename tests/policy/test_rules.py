from __future__ import annotations

from pathlib import Path

import pytest

from policy import rules
from policy.resources import UNKNOWN, Resource
from policy.rule import Rule
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
    assert any(not case.finds for case in own)
    assert any(one.verdict == "fail" for case in own for one in case.finds)
    assert any(one.verdict == "undeterminable" for case in own for one in case.finds)


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
        "kubernetes:core/v1:Service llama: engine-ports-are-never-public: spec.type: NodePort "
        "would publish an engine, since its selector's tokenworks.dev/role is engine; "
        "use type ClusterIP, and let the gateway serve it."
    )


def test_a_given_value_cannot_break_out_of_its_line() -> None:
    properties = {"chart": "keda", "version": "1\n::error::x\x1b[2J"}
    release = Resource.of("kubernetes:helm.sh/v3:Release", "keda", properties)
    (finding,) = (finding for rule in RULES for finding in rule.judge(release))
    assert str(finding).isprintable()


def test_only_pins_wait_for_the_update() -> None:
    assert {rule.name for rule in RULES if rule.tolerates_unknown_at_preview} == {
        "images-are-pinned-by-digest",
        "every-version-is-exact",
    }
    pod = {"spec": {"containers": [{"image": UNKNOWN}], "hostNetwork": UNKNOWN}}
    findings = [
        finding
        for rule in RULES
        for finding in rule.judge(Resource.of("kubernetes:core/v1:Pod", "p", pod))
    ]
    assert [finding.tolerable_at_preview for finding in findings] == [False, True]
