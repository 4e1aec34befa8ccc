"""The rules as a Pulumi policy pack: one policy per family, and one that only advises.

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
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy import Severity as PackSeverity

from policy.resources import Resource
from policy.rule import Family, Finding, Rule, Severity
from policy.rules import RULES

NAME: Final = "tokenworks"
PARENT_CHECK_SECONDS: Final = 1.0

_DESCRIPTIONS: Final[dict[Family, str]] = {
    Family.EXPOSURE: "Engines are reached through the gateway, and through nothing else.",
    Family.PINS: "What runs is pinned: the same program deploys the same bytes.",
}
_SEVERITIES: Final[dict[Severity, PackSeverity]] = {
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
    """Return a mandatory policy for each family, and the advisory one for previews."""
    families: list[Policy] = [_family_policy(family) for family in Family]
    return [*families, _preview_policy()]


def _family_policy(family: Family) -> ResourceValidationPolicy:
    rules = [rule for rule in RULES if rule.family is family]

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for finding in _findings(rules, args):
            if not _is_tolerated(finding):
                report(str(finding), None)

    return ResourceValidationPolicy(
        name=family.value,
        description=_DESCRIPTIONS[family],
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        severity=max((_SEVERITIES[rule.severity] for rule in rules), key=lambda level: level.value),
        tags=[rule.name for rule in rules],
        remediation_steps=" ".join(rule.remediation for rule in rules),
    )


def _preview_policy() -> ResourceValidationPolicy:
    """Return the policy that tells, at a preview, which pins nobody can judge yet.

    It is a policy of its own because a policy has one enforcement level for all it reports.
    """
    rules = [rule for rule in RULES if rule.tolerates_unknown_at_preview]

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        for finding in _findings(rules, args):
            if _is_tolerated(finding):
                report(f"{finding} The update will refuse it if it is loose then.", None)

    return ResourceValidationPolicy(
        name="pins-not-known-yet",
        description="A pin that is not known during a preview is judged again by the update.",
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
        severity=PackSeverity.MEDIUM,
        tags=[rule.name for rule in rules],
    )


def _findings(rules: Sequence[Rule], args: ResourceValidationArgs) -> list[Finding]:
    """Return findings; resources that no rule applies to are not even read."""
    concerned = [rule for rule in rules if rule.applies(args.resource_type)]
    if not concerned:
        return []
    resource = Resource.of(args.resource_type, args.name, args.props, urn=args.urn)
    return [finding for rule in concerned for finding in rule.judge(resource)]


def _is_tolerated(finding: Finding) -> bool:
    """Return whether a pin that is not known yet may pass for now, for the update to judge it.

    Values are unknown in previews only. A language host says in the environment which of the two
    runs; a pack that is an executable file is told by ``ConfigureStack`` alone, which the SDK
    does not pass on (pulumi-policy 1.21), so there an unknown value itself means a preview.
    """
    return finding.tolerable_at_preview and os.environ.get("PULUMI_DRY_RUN") != "false"
