"""A program ignores no change to what a rule reads.

With ``ignoreChanges`` the rules see the old value for ever, and a good first deployment covers
every later one. What other machinery changes, such as the number of replicas, may be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type
from policy.estate import Estate
from policy.ignored import is_guarded, segments
from policy.objects import is_kubernetes
from policy.resources import Resource
from policy.rule import Family, Fault, Rule, Severity, Verdict

_REMEDY: Final = "take the path out of ignoreChanges, or name only what another controller changes"


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    for path in resource.ignored:
        keys = segments(path)
        if keys is None:
            yield Fault(
                key="ignoreChanges",
                reason=f"{_shown(path)} cannot be read, and may hide what the rules look at",
                remedy='write it as spec.replicas or metadata.annotations["a.b/c"]',
                verdict=Verdict.UNDETERMINABLE,
            )
        elif is_guarded(resource.type, keys):
            yield Fault(
                key="ignoreChanges",
                reason=f"{_shown(path)} hides changes from the rules, which see the old value",
                remedy=_REMEDY,
            )


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)


RULE: Final = Rule(
    code="M1",
    name="guarded-changes-are-never-ignored",
    description="No program ignores changes to what the rules look at.",
    family=Family.PROGRAM,
    severity=Severity.HIGH,
    remediation="Ignore single paths that another controller owns, such as spec.replicas.",
    references=(
        "https://www.pulumi.com/docs/iac/concepts/options/ignorechanges/",
        "https://github.com/pulumi/pulumi-policy/issues/172",
    ),
    applies=lambda token: is_kubernetes(token) or bool(aws_type(token)),
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
