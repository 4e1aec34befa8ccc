from __future__ import annotations

import json
from typing import Any

import pulumi_kubernetes as kubernetes
import pytest

from policy.resources import UNKNOWN, Resource
from tokenworks.check.judge import (
    Outcome,
    judge,
    judge_recorded,
    judge_requirement_files,
    resources_from_list,
    resources_from_manifests,
)
from tokenworks.check.mocks import record, record_run
from tokenworks.check.report import as_json, as_text
from tokenworks.errors import ConfigError

BAD_SPEC = {"type": "NodePort", "selector": {"tokenworks.dev/role": "engine"}}
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def pod(image: object) -> Resource:
    properties = {"spec": {"containers": [{"name": "a", "image": image}]}}
    return Resource.of("kubernetes:core/v1:Pod", "p", properties)


GOOD_POD = pod(f"a@sha256:{'0' * 64}")


def test_a_good_resource_is_good_and_exits_with_0() -> None:
    outcome = judge([GOOD_POD]).outcome
    assert (outcome, outcome.exit_code) == (Outcome.GOOD, 0)


def test_a_violation_is_refused_and_exits_with_1() -> None:
    outcome = judge([GOOD_POD, pod("a:1"), pod(UNKNOWN)]).outcome
    assert (outcome, outcome.exit_code) == (Outcome.REFUSED, 1)


def test_a_pin_that_is_not_known_could_not_be_told_and_exits_with_3() -> None:
    outcome = judge([GOOD_POD, pod(UNKNOWN)]).outcome
    assert (outcome, outcome.exit_code) == (Outcome.COULD_NOT_TELL, 3)


def test_exposure_that_is_not_known_is_refused() -> None:
    service = Resource.of("kubernetes:core/v1:Service", "s", {"spec": {"type": UNKNOWN}})
    assert judge([service]).outcome is Outcome.REFUSED


def test_nothing_to_judge_is_no_pass() -> None:
    judgement = judge([])
    assert judgement.outcome is Outcome.COULD_NOT_TELL
    assert as_text(judgement) == "Could not tell: there was nothing to judge.\n"


def test_judgements_add_up_and_name_each_rule_once() -> None:
    total = judge([GOOD_POD]) + judge([pod("a:1")]) + judge_requirement_files([("r.txt", "a==1")])
    assert (total.judged, len(total.findings), len(total.rules)) == (3, 2, 3)


def test_a_recorded_program_and_its_rendered_charts_are_judged() -> None:
    def program() -> None:
        kubernetes.core.v1.Service("llama", spec=BAD_SPEC)
        kubernetes.helm.v3.Chart("k", kubernetes.helm.v3.ChartOpts(chart="keda", version="^2"))

    judgement = judge_recorded(record_run(program, "p", "s"))
    assert [(one.rule, one.key) for one in judgement.findings] == [
        ("engine-ports-are-never-public", "spec.type"),
        ("every-version-is-exact", "version"),
    ]
    assert len(judge_recorded(record(program, "p", "s")).findings) == 1


def test_manifests_are_judged_by_the_same_rules() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}
    documents: list[dict[str, Any]] = [
        {},
        {**POD, "spec": {"containers": [{"image": "nginx"}]}},
        {**service, "spec": BAD_SPEC},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generateName": "d-"}},
    ]
    resources = list(resources_from_manifests(documents, "all.yaml"))
    assert [(one.type, one.name) for one in resources] == [
        ("kubernetes:core/v1:Pod", "p"),
        ("kubernetes:core/v1:Service", "n/s"),
        ("kubernetes:apps/v1:Deployment", "d-"),
    ]
    findings = judge(resources).findings
    assert {(one.rule, one.origin) for one in findings} == {
        ("images-are-pinned-by-digest", "all.yaml"),
        ("engine-ports-are-never-public", "all.yaml"),
    }


@pytest.mark.parametrize("document", [{"kind": "Pod"}, {"apiVersion": "v1"}, {"a": 1}])
def test_a_document_that_is_no_manifest_is_refused_with_its_number(
    document: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match=r"all\.yaml document 2: has no apiVersion"):
        list(resources_from_manifests([POD, document], "all.yaml"))


def test_a_list_may_use_pythons_names_for_cloud_resources() -> None:
    rule = {"protocol": "tcp", "from_port": 8000, "to_port": 8000, "cidr_blocks": ["0.0.0.0/0"]}
    type_ = "aws:ec2/securityGroup:SecurityGroup"
    listed = [{"type": type_, "name": "g", "properties": {"ingress": [rule]}}]
    (finding,) = judge(resources_from_list(listed)).findings
    assert finding.key == "ingress[0].cidrBlocks[0]"


@pytest.mark.parametrize("entry", [{}, {"type": 1}, {"type": "a", "properties": []}])
def test_an_entry_that_is_no_resource_is_refused_with_its_place(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"r\.json \[0\]: is no resource"):
        list(resources_from_list([entry], "r.json"))


def test_the_text_names_resource_rule_reason_and_remedy() -> None:
    assert as_text(judge([GOOD_POD, pod("a:1")])) == (
        "kubernetes:core/v1:Pod p\n"
        "  fail           images-are-pinned-by-digest (high)\n"
        "    spec.containers[0].image: a:1 has a tag, which can be moved, and no digest\n"
        "    → append the digest that `tokenworks lock` resolves, @sha256:<64 hex digits>\n"
        "\n"
        "Refused: 1 finding; 2 items judged by 3 rules.\n"
    )


def test_the_json_holds_all_that_other_formats_need() -> None:
    judgement = judge([pod("a:1")]) + judge_requirement_files([("r.txt", "\na==1")])
    data = json.loads(as_json(judgement))
    assert data["outcome"] == "refused"
    assert {rule["name"] for rule in data["rules"]} == {rule.name for rule in judgement.rules}
    image, pin = data["findings"]
    assert image["given"] == "a:1"
    assert (pin["origin"], pin["line"], pin["verdict"]) == ("r.txt", 2, "fail")
