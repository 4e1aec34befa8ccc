"""What starts from a launch template names the version of it that was reviewed, by its number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type
from policy.estate import Estate
from policy.resources import UNKNOWN, Resource, Value, elements, is_body, key_path
from policy.rule import Family, Fault, Rule, Severity
from policy.versions import Exactness, is_template_version

Keys = tuple[str | int, ...]

_USERS: Final = frozenset(
    {
        "eks.NodeGroup",
        "eks.Nodegroup",
        "eks-component.ManagedNodeGroup",
        "autoscaling.Group",
        "autoscaling.AutoScalingGroup",
        "ec2.Instance",
        "ec2.SpotInstanceRequest",
        "ec2.SpotFleetRequest",
        "ec2.SpotFleet",
        "ec2.Fleet",
        "ec2.Ec2Fleet",
        "batch.ComputeEnvironment",
    }
)
# Every name under which these resources, and what is nested in them, refer to a template.
_REFERENCES: Final = frozenset(
    {
        "launchTemplate",
        "launchTemplateSpecification",
        "launchTemplateConfig",
        "fleetLaunchTemplateSpecification",
    }
)
_NAMES: Final = frozenset({"id", "name", "launchTemplateId", "launchTemplateName"})
_NUMBER: Final = Exactness(
    is_exact=is_template_version,
    missing="is missing, which means the template's default of the day",
    loose="moves with the template",
    remedy="give the number of one version of the launch template",
)


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    yield from _below(resource.properties, ())


def _below(value: Value, keys: Keys) -> Iterator[Fault]:
    children = value.items() if is_body(value) else elements(value)
    for key, child in children:
        if key in _REFERENCES and child is UNKNOWN:
            yield from _NUMBER.faults(key_path(*keys, key), UNKNOWN)
        elif key in _REFERENCES and is_body(child) and not _NAMES.isdisjoint(child):
            yield from _NUMBER.faults(key_path(*keys, key, "version"), child.get("version"))
        else:
            yield from _below(child, (*keys, key))


RULE: Final = Rule(
    code="P7",
    name="launch-templates-are-used-by-number",
    description="A launch template is used by the number of one version, not $Latest or $Default.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Pass the template's latestVersion output, or the number that was reviewed.",
    references=(
        "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
        "https://github.com/terraform-aws-modules/terraform-aws-autoscaling/issues/266",
    ),
    applies=lambda token: aws_type(token) in _USERS,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
