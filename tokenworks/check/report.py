"""A judgement as text for people and as JSON for machines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from policy.rule import Finding, Rule, Severity, Verdict
from tokenworks.check.judge import Judgement, Outcome, refuses

if TYPE_CHECKING:
    from rich.table import Table

_ORDER: Final = (Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM)


def as_text(judgement: Judgement) -> str:
    """Return findings by resource, each with place, reason and remedy, and a line that sums up.

    The text has no colours and no fixed width, so that it greps and fits any log.
    """
    blocks = [_block(subject, findings) for subject, findings in by_subject(judgement)]
    return "\n".join([*blocks, summary(judgement), ""])


def as_table(judgement: Judgement) -> Table:
    """Return the same findings as a table for a terminal, a section for each resource."""
    from rich.table import Table

    table = Table(caption=summary(judgement), caption_justify="left", show_lines=False)
    for heading in ("resource", "rule", "where", "why, and what to do"):
        table.add_column(heading, overflow="fold")
    for subject, findings in by_subject(judgement):
        for number, finding in enumerate(findings):
            table.add_row(
                shown(subject) if not number else "",
                f"{finding.rule}\n{said(finding)}, {finding.severity}",
                where(finding),
                f"{why(finding)}\n→ {shown(finding.remedy)}",
                end_section=number == len(findings) - 1,
            )
    return table


def as_json(judgement: Judgement) -> str:
    """Return one object with outcome, counts, rules and findings, its keys sorted."""
    return json.dumps(to_data(judgement), indent=2, sort_keys=True) + "\n"


def to_data(judgement: Judgement) -> dict[str, Any]:
    """Return the judgement in plain data."""
    return {
        "outcome": judgement.outcome.value,
        "judged": judgement.judged,
        "rules": [_rule_data(rule) for rule in judgement.rules],
        "findings": [dataclasses.asdict(finding) for finding in in_order(judgement)],
    }


def in_order(judgement: Judgement) -> list[Finding]:
    """Return the findings, those that refuse first, the most severe of them before others.

    Readers of reports keep only so many: GitHub the first 5,000 of a run.
    """

    def rank(finding: Finding) -> tuple[bool, bool, int]:
        return bool(finding.waived), not refuses(finding), _ORDER.index(finding.severity)

    return sorted(judgement.findings, key=rank)


def by_subject(judgement: Judgement) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each resource with its findings; two files may have resources of one name."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in in_order(judgement):
        grouped.setdefault((finding.subject, finding.origin), []).append(finding)
    for (subject, _), findings in grouped.items():
        yield subject, findings


def where(finding: Finding) -> str:
    """Return file and line that a finding comes from, as far as they are known."""
    line = "" if finding.line is None else f":{finding.line}"
    return f"{shown(finding.origin)}{line}" if finding.origin else ""


def why(finding: Finding) -> str:
    """Return key, given value and reason as one line, and the waiver where there is one."""
    key = f"{finding.key}: " if finding.key else ""
    given = f"{finding.given} " if finding.given is not None else ""
    waived = f" ({finding.waived})" if finding.waived else ""
    return shown(f"{key}{given}{finding.reason}{waived}")


def said(finding: Finding) -> str:
    """Return the verdict in one word."""
    return "waived" if finding.waived else finding.verdict.value


def shown(text: str) -> str:
    """Return a text as one printable line: names in manifests may hold anything at all."""
    return text if text.isprintable() else ascii(text)[1:-1]


def summary(judgement: Judgement) -> str:
    """Return one sentence: the outcome, what refuses, and how much was judged by how many."""
    rules, judged = len(judgement.rules), judgement.judged
    by_rules = f"{_count(judged, 'item')} judged by {_count(rules, 'rule')}"
    waived = sum(1 for finding in judgement.findings if finding.waived)
    warnings = sum(1 for one in judgement.findings if one.verdict is Verdict.WARN) if judged else 0
    also = [_count(number, noun) for number, noun in ((warnings, "warning"),) if number]
    also += [f"{waived} waived"] if waived else []
    if judgement.outcome is Outcome.GOOD:
        return f"Good: {', '.join([by_rules, *also])}."
    if not judged and not judgement.findings:
        return "Could not tell: there was nothing to judge."
    found = _count(len(judgement.findings) - waived - warnings, "finding")
    said = judgement.outcome.value.capitalize()
    return f"{said}: {', '.join([found, *also])}; {by_rules}."


def _rule_data(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "description": rule.description,
        "family": rule.family.value,
        "severity": rule.severity.value,
        "remediation": rule.remediation,
        "references": list(rule.references),
    }


def _block(subject: str, findings: list[Finding]) -> str:
    lines = [shown(subject)]
    for finding in findings:
        place = where(finding)
        at = f"  {place}" if place and place != subject else ""
        lines += [
            f"  {said(finding):<14} {finding.rule} ({finding.severity.value}){at}",
            f"    {why(finding)}",
            f"    → {shown(finding.remedy)}",
        ]
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
