"""A machine answers questions about itself, its credentials among them, to those with a token only.

Without one, whoever makes a server on it fetch an address, or a pod with a proxy in it, has the
rights of the node (docs.aws.amazon.com/AWSEC2, configuring-instance-metadata-service).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type
from policy.estate import Estate
from policy.resources import UNKNOWN, Body, Resource, Value, is_body, key_path, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

Keys = tuple[str, ...]

_TEMPLATES: Final = frozenset({"ec2.LaunchTemplate"})
_MACHINES: Final = frozenset(
    {
        "ec2.Instance",
        "ec2.SpotInstanceRequest",
        "ec2.LaunchConfiguration",
        "autoscaling.LaunchConfiguration",
    }
)
_TOKENS: Final = ("metadataOptions", "httpTokens")
_REMEDY: Final = "set metadataOptions.httpTokens: required"


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    properties = resource.properties
    if "launchTemplateData" in properties:  # the other AWS provider's
        yield from _judged(properties["launchTemplateData"], ("launchTemplateData",))
    elif aws_type(resource.type) in _TEMPLATES or not _is_the_templates(properties):
        yield from _judged(properties, ())


def _is_the_templates(machine: Body) -> bool:
    """Return whether a machine leaves the question to its launch template."""
    return machine.get("launchTemplate") is not None and machine.get("metadataOptions") is None


def _judged(body: Value, keys: Keys) -> Iterator[Fault]:
    if body is UNKNOWN:
        yield _fault(keys, UNKNOWN, "is not known, and may answer without a token")
        return
    options = peek(body, "metadataOptions") if is_body(body) else None
    if peek(options, "httpEndpoint") == "disabled":
        return
    tokens = peek(options, "httpTokens")
    if tokens is UNKNOWN:
        yield _fault((*keys, *_TOKENS), tokens, "is not known, and may answer without a token")
    elif tokens != "required":
        missing = "is missing, so that questions without a token may be answered"
        reason = missing if tokens is None else "answers questions without a token"
        yield _fault((*keys, *_TOKENS), tokens, reason, Verdict.FAIL)


def _fault(
    keys: Keys, given: Value, reason: str, verdict: Verdict = Verdict.UNDETERMINABLE
) -> Fault:
    return Fault(key=key_path(*keys), given=given, reason=reason, remedy=_REMEDY, verdict=verdict)


RULE: Final = Rule(
    code="E13",
    name="metadata-is-answered-by-token-only",
    description="Machines answer questions about themselves only to those who bring a token.",
    family=Family.CLOUD,
    severity=Severity.HIGH,
    remediation="Require tokens, with one hop, so that pods cannot have the node's credentials.",
    references=(
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html#ec2-170",
    ),
    applies=lambda token: aws_type(token) in _TEMPLATES | _MACHINES,
    faults=_faults,
    tolerates_unknown_at_preview=False,
)
