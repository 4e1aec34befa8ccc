from __future__ import annotations

from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from policy.rule import Verdict
from tests.check.findings import IMAGES, finding, judgement
from tokenworks.check.judge import not_judged
from tokenworks.check.junit import as_junit

DOUBT = not_judged("x.yaml", reason="is no UTF-8 text", remedy="give text", origin="x.yaml")


def read(*findings: Any) -> JUnitXml:
    report = JUnitXml.fromstring(as_junit(judgement(*findings)))
    assert isinstance(report, JUnitXml)
    return report


def suite(name: str, *findings: Any) -> TestSuite:
    (found,) = [one for one in read(*findings) if one.name == name]
    assert isinstance(found, TestSuite)
    return found


def cases(*findings: Any) -> list[TestCase]:
    return list(suite(IMAGES, *findings))


def test_every_rule_is_a_suite_and_passes_where_nothing_is_found() -> None:
    report = read()
    assert [one.name for one in report] == [rule.name for rule in judgement().rules]
    assert (report.tests, report.failures, report.errors) == (len(judgement().rules), 0, 0)


def test_a_violation_is_a_failure_with_its_place() -> None:
    (case,) = cases(finding(origin="a.yaml", line=7))
    (result,) = case.result
    assert isinstance(result, Failure)
    assert case.name == "kubernetes:core/v1:Pod n/p spec.containers[0].image"
    assert case.classname == IMAGES
    assert (case._elem.get("file"), case._elem.get("line")) == ("a.yaml", "7")
    assert "append the digest" in result.text
    assert "a.yaml:7" in result.text


def test_a_doubt_is_an_error() -> None:
    (case,) = suite("everything-is-judged", DOUBT)
    assert isinstance(case.result[0], Error)


def test_what_is_waived_is_skipped_and_says_why() -> None:
    (case,) = cases(finding(waived="waived until then by me"))
    (result,) = case.result
    assert isinstance(result, Skipped)
    assert "waived until then by me" in result.message


def test_a_warning_passes_and_is_printed() -> None:
    (case,) = cases(finding(verdict=Verdict.WARN))
    assert case.is_passed
    assert "append the digest" in case.system_out


def test_the_report_counts() -> None:
    report = read(finding(), finding(key="k", waived="w"), DOUBT)
    assert (report.failures, report.errors, report.skipped) == (1, 1, 1)


@pytest.mark.parametrize("text", ["\x00\x1b", "\ud800", "]]>", "<a>&\"'", "\ufffe", "é"])
def test_any_text_gives_xml(text: str) -> None:
    (case,) = cases(finding(subject=text, key=text, reason=text, remedy=text, origin=text))
    assert case.result
