"""Resources, from wherever they come, judged by every rule.

Recorded programs, plain manifests, lists of resources and what is deployed all give the same
``Resource``. What cannot be judged is a finding too: a judgement that looked at nothing, or in
which a rule failed, is no pass.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from policy.estate import Estate
from policy.resources import Resource
from policy.rule import Family, Finding, Rule, Severity, Verdict
from policy.rules import RULES
from policy.waivers import RULE as WAIVERS_EXPIRE
from policy.waivers import Waivers

EVERYTHING_IS_JUDGED: Final = Rule(
    code="C2",
    name="everything-is-judged",
    description="Everything that the check is asked about can be read, and every rule can judge "
    "it.",
    family=Family.PROGRAM,
    severity=Severity.HIGH,
    remediation="Correct what cannot be read; until then nobody can tell whether it is good.",
    references=("https://kubernetes.io/docs/concepts/overview/working-with-objects/",),
    applies=lambda _: False,
    faults=lambda _resource, _estate: (),
    tolerates_unknown_at_preview=True,
)

_OF_THE_CHECK: Final = (WAIVERS_EXPIRE, EVERYTHING_IS_JUDGED)
"""Rules over the check itself, which reports name beside those over resources."""


class Outcome(enum.StrEnum):
    """What a judgement comes to."""

    GOOD = "good"
    REFUSED = "refused"
    COULD_NOT_TELL = "could not tell"

    @property
    def exit_code(self) -> int:
        """0 good, 1 refused, 3 could not tell: a check that could not run is never a pass."""
        return {Outcome.GOOD: 0, Outcome.REFUSED: 1, Outcome.COULD_NOT_TELL: 3}[self]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Every finding over a number of resources or files, and the rules that were asked."""

    findings: tuple[Finding, ...]
    judged: int
    rules: tuple[Rule, ...]

    @property
    def outcome(self) -> Outcome:
        """Refused if anything breaks a rule, else could not tell if anything is not known.

        What certainly breaks a rule is refused, whatever else could not be read.
        """
        serious = [one for one in self.findings if refuses(one) or one.tolerable_at_preview]
        serious = [one for one in serious if not one.waived]
        if any(refuses(finding) for finding in serious):
            return Outcome.REFUSED
        return Outcome.COULD_NOT_TELL if serious or not self.judged else Outcome.GOOD

    def __add__(self, other: Judgement) -> Judgement:
        """Return both judgements as one; rules are named once."""
        more = tuple(rule for rule in other.rules if rule not in self.rules)
        return Judgement(
            findings=self.findings + other.findings,
            judged=self.judged + other.judged,
            rules=self.rules + more,
        )


def refuses(finding: Finding) -> bool:
    """Return whether a finding alone refuses what was judged."""
    warns = finding.verdict is Verdict.WARN
    return not (warns or finding.waived or finding.tolerable_at_preview)


def judge(resources: Iterable[Resource], rules: Sequence[Rule] = RULES) -> Judgement:
    """Return every finding of every rule, resource by resource.

    The resources are taken for all that is deployed together.
    """
    estate = Estate.of(resources)
    findings = (
        finding
        for resource in estate.resources
        for rule in rules
        if rule.applies(resource.type)
        for finding in _judged(rule, resource, estate)
    )
    return Judgement(
        findings=tuple(findings), judged=len(estate.resources), rules=(*rules, *_OF_THE_CHECK)
    )


def _judged(rule: Rule, resource: Resource, estate: Estate) -> Iterator[Finding]:
    try:
        yield from rule.judge(resource, estate)
    except Exception as error:  # whatever goes wrong, this rule has not judged
        # The message of an error may hold a value, and a value may be a secret.
        yield not_judged(
            f"{resource.type} {resource.name}",
            reason=f"made the rule {rule.name} fail ({type(error).__name__})",
            remedy="report the rule with this resource; nobody knows whether it is good",
            origin=resource.origin,
            line=resource.line,
        )


def not_judged(
    subject: str, *, reason: str, remedy: str, origin: str = "", line: int | None = None
) -> Finding:
    """Return the finding that something could not be judged, which is never a pass."""
    return Finding(
        rule=EVERYTHING_IS_JUDGED.name,
        severity=EVERYTHING_IS_JUDGED.severity,
        subject=subject,
        key="",
        reason=reason,
        remedy=remedy,
        verdict=Verdict.UNDETERMINABLE,
        origin=origin,
        line=line,
        tolerable_at_preview=True,
    )


def with_findings(judgement: Judgement, findings: Iterable[Finding]) -> Judgement:
    """Return the judgement with more findings, such as those of what could not be read."""
    return replace(judgement, findings=(*judgement.findings, *findings))


def waive(
    judgement: Judgement, waivers: Waivers, judged: Iterable[Resource], *, everything: bool
) -> Judgement:
    """Return the judgement with waived findings marked, and what is wrong with the waivers.

    ``judged`` are the resources that it is about; ``everything`` says that they are all that the
    checkout has. A waiver that nothing needs is a finding.
    """
    findings = tuple(waivers.applied(finding) for finding in judgement.findings)
    idle = waivers.unmatched(judgement.findings, judged, everything=everything)
    return replace(judgement, findings=(*findings, *waivers.findings, *idle))
