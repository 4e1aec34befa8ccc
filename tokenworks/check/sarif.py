"""A judgement as SARIF 2.1.0, which code scanning services show at the lines of a change."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from policy.rule import Finding, Rule, Severity, Verdict
from tokenworks.check.judge import Judgement, Outcome
from tokenworks.check.report import in_order, shown, why

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ROOT: Final = "%SRCROOT%"
# GitHub shows above 9.0 as critical, above 7.0 as high and above 4.0 as medium
# (docs.github.com, SARIF support for code scanning, reportingDescriptor).
_SCORES: Final = {Severity.CRITICAL: "9.5", Severity.HIGH: "8.0", Severity.MEDIUM: "5.5"}


def as_sarif(judgement: Judgement, root: Path) -> str:
    """Return one run with every rule, so that what is fixed closes, and every finding.

    Files below ``root``, the checkout, are named relative to it. Waived findings are suppressed,
    not left out.
    """
    rules = {rule.name: index for index, rule in enumerate(judgement.rules)}
    seen: Counter[str] = Counter()
    run = {
        "tool": {
            "driver": {"name": "tokenworks", "rules": [_rule(rule) for rule in judgement.rules]}
        },
        "invocations": [
            {
                "executionSuccessful": judgement.outcome is not Outcome.COULD_NOT_TELL,
                "exitCode": judgement.outcome.exit_code,
            }
        ],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the checkout."}}},
        "automationDetails": {"id": "tokenworks-check/"},
        "columnKind": "utf16CodeUnits",
        "results": [_result(finding, rules, root, seen) for finding in in_order(judgement)],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    references = "\n".join(f"- <{reference}>" for reference in rule.references)
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.description},
        "fullDescription": {"text": rule.description},
        "help": {
            "text": rule.remediation,
            "markdown": f"{rule.description}\n\n**What to do.** {rule.remediation}\n\n{references}",
        },
        "helpUri": rule.references[0],
        "defaultConfiguration": {"level": "error"},
        "properties": {
            "tags": ["security", rule.family.value, rule.code],
            "precision": "very-high",
            "problem.severity": "error",
            "security-severity": _SCORES[rule.severity],
        },
    }


def _result(
    finding: Finding, rules: dict[str, int], root: Path, seen: Counter[str]
) -> dict[str, Any]:
    suppressions = [{"kind": "external", "justification": finding.waived}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules[finding.rule],
        "level": "warning" if finding.verdict is Verdict.WARN else "error",
        "message": {"text": f"{shown(finding.subject)}: {why(finding)}; {shown(finding.remedy)}."},
        "locations": [_location(finding, root)],
        "partialFingerprints": _fingerprints(finding, seen),
        "suppressions": suppressions if finding.waived else [],
        "properties": {"verdict": finding.verdict.value},
    }


def _location(finding: Finding, root: Path) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [
            {"fullyQualifiedName": shown(finding.subject), "kind": "resource"},
        ]
    }
    artifact = _artifact(finding.origin, root)
    if artifact is not None:
        location["physicalLocation"] = {
            "artifactLocation": artifact,
            "region": {"startLine": finding.line or 1},
        }
    return location


def _artifact(origin: str, root: Path) -> dict[str, str] | None:
    """Return where a file is, relative to the checkout if it is in there; None for no file."""
    if not origin:
        return None
    base = root.resolve()
    here = Path(origin).absolute()
    file = here if here.exists() else base / origin
    if not file.exists():
        return None  # standard input, or a name that could not be printed as it is
    if file.resolve().is_relative_to(base):
        relative = file.resolve().relative_to(base).as_posix()
        return {"uri": quote(relative), "uriBaseId": _ROOT}
    return {"uri": file.resolve().as_uri()}


def _fingerprints(finding: Finding, seen: Counter[str]) -> dict[str, str]:
    """Return what recognises a finding again after its lines have moved.

    ``primaryLocationLineHash`` is the name by which GitHub looks for it.
    """
    known_by = "\0".join((finding.rule, finding.origin, finding.subject, finding.key))
    digest = hashlib.sha256(known_by.encode("utf-8", "backslashreplace")).hexdigest()[:32]
    seen[digest] += 1
    print_ = f"{digest}:{seen[digest]}"
    return {"primaryLocationLineHash": print_, "tokenworks/v1": print_}
