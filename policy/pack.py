"""The rules as a Pulumi policy pack: one policy per family, one for stacks, and one that advises.

Everything here is synchronous, since violations vary between runs when a policy waits for
outputs (pulumi-policy#305). No policy remediates: that would change inputs at the deployment and
leave the repository wrong.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PackSeverity

from policy.estate import Estate
from policy.resources import Resource
from policy.rule import Family, Finding, Rule, Severity, Verdict
from policy.rules import RULES
from policy.waivers import in_force

NAME: Final = "tokenworks"
PARENT_CHECK_SECONDS: Final = 1.0

_DESCRIPTIONS: Final[dict[Family, str]] = {
    Family.EXPOSURE: "Engines are reached through the gateway, and through nothing else.",
    Family.CLOUD: "Networks, clusters and load balancers in the cloud are private.",
    Family.PINS: "What runs is pinned: the same program deploys the same bytes.",
    Family.PODS: "Pods have the rights that they need, and no others.",
    Family.PROGRAM: "The program hides nothing from the rules.",
}
_SEVERITIES: Final[dict[Severity, PackSeverity]] = {
    Severity.MEDIUM: PackSeverity.MEDIUM,
    Severity.HIGH: PackSeverity.HIGH,
    Severity.CRITICAL: PackSeverity.CRITICAL,
}


def start() -> None:
    """Serve the pack to the engine; returns only when the engine ends it."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    PolicyPack(name=NAME, enforcement_level=EnforcementLevel.MANDATORY, policies=policies())


def _end_with(parent: int) -> None:
    """End when the engine that started the pack does; a killed one cannot say so.

    The SDK's server otherwise waits for it for ever (pulumi-policy 1.21).
    """
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(0)


def policies() -> list[Policy]:
    """Return a mandatory policy per family, one for whole stacks, and one that only advises."""
    families = [family for family in Family if any(rule.family is family for rule in RULES)]
    return [*map(_family_policy, families), _advice_policy(), _stack_policy()]


def _family_policy(family: Family) -> ResourceValidationPolicy:
    rules = [rule for rule in RULES if rule.family is family]

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for finding in _findings(rules, args):
            if not _only_advises(finding):
                report(str(finding), None)

    return ResourceValidationPolicy(
        name=family.value,
        description=_DESCRIPTIONS[family],
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        severity=_highest(rules),
        tags=[rule.name for rule in rules],
        remediation_steps=" ".join(rule.remediation for rule in rules),
    )


def _advice_policy() -> ResourceValidationPolicy:
    """Return the policy that warns, shows what is waived, and which pins nobody can judge yet.

    It is a policy of its own because a policy has one enforcement level for all it reports.
    """

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for finding in _findings(RULES, args):
            if finding.waived:
                report(f"{finding} It is {finding.waived}.", None)
            elif finding.verdict is Verdict.WARN:
                report(str(finding), None)
            elif _only_advises(finding):
                report(f"{finding} The update will refuse it if it is loose then.", None)

    return ResourceValidationPolicy(
        name="advice",
        description="What is better otherwise, and pins that only the update can judge.",
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
        severity=PackSeverity.MEDIUM,
        tags=[rule.name for rule in RULES],
    )


def _stack_policy() -> StackValidationPolicy:
    """Return the policy that judges what only several resources together show.

    The engine asks it with outputs, after everything else; at an update that is after creation.
    So it repeats nothing that a resource policy has said already.
    """
    rules = [rule for rule in RULES if rule.joins]

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        estate = Estate.of(_resource(resource) for resource in args.resources)
        for resource in estate.resources:
            for rule in rules:
                known = set(rule.judge(resource))
                for finding in rule.judge(resource, estate):
                    new = finding not in known
                    if new and not _only_advises(in_force().applied(finding)):
                        report(str(finding), resource.urn)

    return StackValidationPolicy(
        name="whole-stack",
        description="Resources that are good one by one are good together.",
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        severity=_highest(rules),
        tags=[rule.name for rule in rules],
    )


def _findings(rules: Sequence[Rule], args: ResourceValidationArgs) -> list[Finding]:
    """Return findings; resources that no rule applies to are not even read."""
    concerned = [rule for rule in rules if rule.applies(args.resource_type)]
    if not concerned:
        return []
    resource = _resource(args)
    found = (finding for rule in concerned for finding in rule.judge(resource))
    return [in_force().applied(finding) for finding in found]


def _resource(given: ResourceValidationArgs | PolicyResource) -> Resource:
    opts = given.opts
    return Resource.of(
        given.resource_type,
        given.name,
        given.props,
        urn=given.urn,
        ignored=tuple(opts.ignore_changes or ()),
        parent=opts.parent or "",
    )


def _highest(rules: Sequence[Rule]) -> PackSeverity:
    """Return the highest severity of the rules, since a policy has one for all it reports."""
    severities = (_SEVERITIES[rule.severity] for rule in rules)
    return max(severities, key=list(PackSeverity).index, default=PackSeverity.HIGH)


def _only_advises(finding: Finding) -> bool:
    """Return whether it is waived, a warning, or a pin not known yet, which the update judges.

    Values are unknown in previews only. A language host says in the environment which of the two
    runs; a pack that is an executable file is told by ``ConfigureStack`` alone, which the SDK
    does not pass on (pulumi-policy 1.21), so there an unknown value itself means a preview.
    """
    if finding.waived or finding.verdict is Verdict.WARN:
        return True
    return finding.tolerable_at_preview and os.environ.get("PULUMI_DRY_RUN") != "false"
