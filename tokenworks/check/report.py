"""A judgement as text for people and as JSON for machines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from policy.rule import Finding, Rule
from tokenworks.check.judge import Judgement, Outcome


def as_text(judgement: Judgement) -> str:
    """Return findings by resource, each with reason and remedy, and a line that sums up.

    The text has no colours and no fixed width, so that it greps and fits any log.
    """
    blocks = [_block(subject, findings) for subject, findings in _by_subject(judgement)]
    return "\n".join([*blocks, _summary(judgement), ""])


def as_json(judgement: Judgement) -> str:
    """Return one object with outcome, counts, rules and findings, its keys sorted."""
    return json.dumps(to_data(judgement), indent=2, sort_keys=True) + "\n"


def to_data(judgement: Judgement) -> dict[str, Any]:
    """Return the judgement in plain data, from which every format is made."""
    return {
        "outcome": judgement.outcome.value,
        "judged": judgement.judged,
        "rules": [_rule_data(rule) for rule in judgement.rules],
        "findings": [dataclasses.asdict(finding) for finding in judgement.findings],
    }


def _rule_data(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "description": rule.description,
        "family": rule.family.value,
        "severity": rule.severity.value,
        "remediation": rule.remediation,
        "references": list(rule.references),
    }


def _by_subject(judgement: Judgement) -> Iterator[tuple[str, list[Finding]]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in judgement.findings:
        place = f"{finding.origin}: " if finding.origin and finding.line is None else ""
        grouped.setdefault(f"{place}{finding.subject}", []).append(finding)
    yield from grouped.items()


def _block(subject: str, findings: list[Finding]) -> str:
    lines = [subject]
    for finding in findings:
        key = f"{finding.key}: " if finding.key else ""
        given = f"{finding.given} " if finding.given is not None else ""
        lines += [
            f"  {finding.verdict.value:<14} {finding.rule} ({finding.severity.value})",
            f"    {key}{given}{finding.reason}",
            f"    → {finding.remedy}",
        ]
    return "\n".join(lines) + "\n"


def _summary(judgement: Judgement) -> str:
    rules, judged = len(judgement.rules), judgement.judged
    by_rules = f"{_count(judged, 'item')} judged by {_count(rules, 'rule')}"
    if judgement.outcome is Outcome.GOOD:
        return f"Good: {by_rules}."
    if not judged and not judgement.findings:
        return "Could not tell: there was nothing to judge."
    found = _count(len(judgement.findings), "finding")
    return f"{judgement.outcome.value.capitalize()}: {found}; {by_rules}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
