"""A judgement as JUnit XML, which GitLab and Jenkins show beside the tests."""

from __future__ import annotations

import re

from junitparser import Attr, Error, Failure, IntAttr, JUnitXml, Skipped, TestCase, TestSuite

from policy.rule import Finding, Rule, Verdict
from tokenworks.check.judge import Judgement, refuses
from tokenworks.check.report import in_order, shown, where, why

# What XML 1.0 cannot hold in any form (w3.org/TR/xml, section 2.2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Case(TestCase):
    """A test case with its place, which GitLab links (docs.gitlab.com, unit test reports)."""

    file = Attr("file")
    line = IntAttr("line")


def as_junit(judgement: Judgement) -> str:
    """Return a suite for each rule, with a case for each finding, or one that passed.

    What breaks the rule has failed, what nobody can tell is an error, and what is waived was
    skipped; a warning passes and says so.
    """
    found: dict[str, list[Finding]] = {rule.name: [] for rule in judgement.rules}
    for finding in in_order(judgement):
        found[finding.rule].append(finding)
    report = JUnitXml("tokenworks check")
    for rule in judgement.rules:
        report.add_testsuite(_suite(rule, found[rule.name]))
    report.update_statistics()  # type: ignore[no-untyped-call]
    return str(report.tostring().decode("utf-8")) + "\n"  # type: ignore[no-untyped-call]


def _suite(rule: Rule, findings: list[Finding]) -> TestSuite:
    suite = TestSuite(rule.name)
    if not findings:
        suite.add_testcase(TestCase(rule.description, classname=rule.name))
    for finding in findings:
        suite.add_testcase(_case(finding))
    return suite


def _case(finding: Finding) -> TestCase:
    case = _Case(_xml(_name(finding)), classname=finding.rule)
    if finding.origin:
        case.file = _xml(shown(finding.origin))
    if finding.line is not None:
        case.line = finding.line
    text = _xml("\n".join(filter(None, (where(finding), why(finding), f"→ {finding.remedy}"))))
    message = _xml(f"{why(finding)}; {shown(finding.remedy)}")
    if finding.waived:
        case.result = [Skipped(message)]
    elif finding.verdict is Verdict.WARN:
        case.system_out = text
    else:
        kind = Failure if refuses(finding) else Error
        result = kind(message, finding.verdict.value)
        result.text = text
        case.result = [result]
    return case


def _name(finding: Finding) -> str:
    key = f" {finding.key}" if finding.key else ""
    return shown(f"{finding.subject}{key}")


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
