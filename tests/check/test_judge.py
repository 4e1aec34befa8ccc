from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable
from typing import Any

import pulumi_kubernetes as kubernetes
import pytest

from policy.estate import Estate
from policy.files import CONTENT, PIP_REQUIREMENTS
from policy.resources import UNKNOWN, Resource
from policy.rule import Fault, Finding, Rule, Severity, Verdict
from policy.rules import RULES
from policy.waivers import Waivers, parse_waivers
from tokenworks.check.judge import (
    EVERYTHING_IS_JUDGED,
    Judgement,
    Outcome,
    judge,
    not_judged,
    waive,
    with_findings,
)
from tokenworks.check.mocks import record_run
from tokenworks.check.recorded import resources_of

IMAGES = next(rule for rule in RULES if rule.name == "images-are-pinned-by-digest")
ENGINES = next(rule for rule in RULES if rule.name == "only-the-gateway-has-a-load-balancer")
TODAY = datetime.date(2026, 5, 4)


def pod(image: object, name: str = "p") -> Resource:
    properties = {"spec": {"containers": [{"name": "a", "image": image}]}}
    return Resource.of("kubernetes:core/v1:Pod", name, properties, origin="a.yaml", line=3)


GOOD_POD = pod(f"a@sha256:{'0' * 64}")


def images(*pods: Resource) -> Judgement:
    return judge(pods, [IMAGES])


def failing(error: Exception) -> Rule:
    def faults(_resource: Resource, _estate: Estate) -> Iterable[Fault]:
        raise error

    return dataclasses.replace(IMAGES, name="fails-itself", faults=faults)


def test_a_good_resource_is_good_and_exits_with_0() -> None:
    outcome = images(GOOD_POD).outcome
    assert (outcome, outcome.exit_code) == (Outcome.GOOD, 0)


def test_a_violation_is_refused_and_exits_with_1() -> None:
    outcome = images(GOOD_POD, pod("a:1"), pod(UNKNOWN)).outcome
    assert (outcome, outcome.exit_code) == (Outcome.REFUSED, 1)


def test_a_pin_that_is_not_known_could_not_be_told_and_exits_with_3() -> None:
    outcome = images(GOOD_POD, pod(UNKNOWN)).outcome
    assert (outcome, outcome.exit_code) == (Outcome.COULD_NOT_TELL, 3)


def test_exposure_that_is_not_known_is_refused() -> None:
    service = Resource.of("kubernetes:core/v1:Service", "s", {"spec": {"type": UNKNOWN}})
    assert judge([service]).outcome is Outcome.REFUSED


def test_nothing_to_judge_is_no_pass() -> None:
    assert judge([]).outcome is Outcome.COULD_NOT_TELL


def test_a_warning_refuses_nothing() -> None:
    warning = dataclasses.replace(images(pod("a:1")).findings[0], verdict=Verdict.WARN)
    assert with_findings(images(GOOD_POD), [warning]).outcome is Outcome.GOOD


def test_what_could_not_be_judged_is_no_pass() -> None:
    one = not_judged("x.yaml", reason="is binary", remedy="give text")
    assert with_findings(images(GOOD_POD), [one]).outcome is Outcome.COULD_NOT_TELL


def test_a_certain_refusal_decides_before_a_doubt() -> None:
    one = not_judged("x.yaml", reason="is binary", remedy="give text")
    assert with_findings(images(pod("a:1")), [one]).outcome is Outcome.REFUSED


@pytest.mark.parametrize("error", [KeyError("s3cret"), RecursionError(), MemoryError()])
def test_a_rule_that_fails_is_no_pass_and_stops_no_other_rule(error: Exception) -> None:
    judgement = judge([pod("a:1"), GOOD_POD], [failing(error), IMAGES])
    assert [one.rule for one in judgement.findings] == [
        EVERYTHING_IS_JUDGED.name,
        IMAGES.name,
        EVERYTHING_IS_JUDGED.name,
    ]
    first = judgement.findings[0]
    assert f"made the rule fails-itself fail ({type(error).__name__})" in first.reason
    assert (first.origin, first.line) == ("a.yaml", 3)
    assert "s3cret" not in str(judgement.findings)
    assert judge([GOOD_POD], [failing(error)]).outcome is Outcome.COULD_NOT_TELL


def test_a_report_names_the_rules_about_the_check_itself() -> None:
    names = [rule.name for rule in judge([GOOD_POD]).rules]
    assert names == [
        *(rule.name for rule in RULES),
        "waivers-are-exact-and-expire",
        "everything-is-judged",
    ]
    assert len({rule.code for rule in judge([]).rules}) == len(names)


def test_judgements_add_up_and_name_each_rule_once() -> None:
    file = Resource.of(PIP_REQUIREMENTS, "r.txt", {CONTENT: "a==1"}, origin="r.txt")
    total = judge([GOOD_POD]) + judge([pod("a:1")]) + judge([file])
    assert total.judged == 3
    assert len(total.rules) == len(RULES) + 2


def test_a_recorded_program_and_its_rendered_charts_are_judged() -> None:
    def program() -> None:
        spec = {"type": "NodePort", "selector": {"tokenworks.dev/role": "engine"}}
        kubernetes.core.v1.Service("llama", spec=spec)
        kubernetes.helm.v3.Chart("k", kubernetes.helm.v3.ChartOpts(chart="keda", version="^2"))

    resources = list(resources_of([record_run(program, "p", "s")], "stacks/e.yaml"))
    assert {one.origin for one in resources} == {"stacks/e.yaml"}
    found = {(one.rule, one.key) for one in judge(resources).findings}
    assert ("only-the-gateway-has-a-load-balancer", "spec.type") in found
    assert ("charts-have-one-exact-version", "version") in found


def test_all_that_is_given_is_deployed_together() -> None:
    def faults(resource: Resource, estate: Estate) -> Iterable[Fault]:
        if estate.complete and len(estate.resources) == 2 and resource.name == "one":
            yield Fault(key="", reason="has company", remedy="none")

    rule = dataclasses.replace(IMAGES, faults=faults)
    (finding,) = judge([pod("a:1", "one"), pod("a:1", "two")], [rule]).findings
    assert finding.reason == "has company"


def waivers(*names: str) -> Waivers:
    entries = [
        {
            "rule": IMAGES.name,
            "resource": {"type": "kubernetes:core/v1:Pod", "name": name},
            "reason": "Because.",
            "owner": "me",
            "issue": "https://example.com/1",
            "expires": "2026-05-05",
        }
        for name in names
    ]
    return parse_waivers(json.dumps({"waivers": entries}), RULES, TODAY)


def test_what_is_waived_is_still_found_and_refuses_nothing() -> None:
    bad = pod("a:1")
    judgement = waive(images(bad), waivers("p"), [bad], everything=False)
    (finding,) = judgement.findings
    assert finding.waived.startswith("waived until 2026-05-05 by me: Because.")
    assert judgement.outcome is Outcome.GOOD


def test_a_waiver_lets_only_its_own_resource_through() -> None:
    bad, other = pod("a:1"), pod("a:1", "q")
    judgement = waive(images(bad, other), waivers("p"), [bad, other], everything=False)
    assert judgement.outcome is Outcome.REFUSED


def test_a_waiver_that_is_not_needed_any_more_refuses() -> None:
    judgement = waive(images(GOOD_POD), waivers("p"), [GOOD_POD], everything=True)
    assert judgement.outcome is Outcome.REFUSED
    assert judgement.findings[0].rule == "waivers-are-exact-and-expire"


def test_a_waived_doubt_is_no_doubt() -> None:
    unknown = pod(UNKNOWN)
    judgement = waive(images(unknown), waivers("p"), [unknown], everything=False)
    assert judgement.outcome is Outcome.GOOD


def finding(**changes: Any) -> Finding:
    base = not_judged("x", reason="r", remedy="m")
    return dataclasses.replace(base, severity=Severity.HIGH, **changes)


def test_a_doubt_about_exposure_refuses_although_it_is_a_doubt() -> None:
    doubt = finding(tolerable_at_preview=False)
    assert with_findings(images(GOOD_POD), [doubt]).outcome is Outcome.REFUSED
