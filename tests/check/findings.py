"""Findings and judgements made up for tests of reports."""

from __future__ import annotations

from typing import Any

from policy.rule import Finding, Severity, Verdict
from tokenworks.check.judge import Judgement, judge

IMAGES = "images-are-pinned-by-digest"
ENGINES = "only-the-gateway-has-a-load-balancer"


def finding(**changes: Any) -> Finding:
    """Return a finding about an image, changed as wanted."""
    given: dict[str, Any] = {
        "rule": IMAGES,
        "severity": Severity.HIGH,
        "subject": "kubernetes:core/v1:Pod n/p",
        "key": "spec.containers[0].image",
        "given": "a:1",
        "reason": "has a tag, which can be moved, and no digest",
        "remedy": "append the digest",
        "verdict": Verdict.FAIL,
        **changes,
    }
    return Finding(**given)


def judgement(*findings: Finding, judged: int = 2) -> Judgement:
    """Return a judgement of every rule with these findings."""
    return Judgement(findings=findings, judged=judged, rules=judge([]).rules)
