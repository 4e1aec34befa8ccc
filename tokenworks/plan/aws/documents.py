"""Statements of policy documents, and those few that AWS lets nobody narrow to a resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Statement = dict[str, object]
Document = dict[str, object]

VERSION: Final = "2012-10-17"

_EC2 = (
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeVpcs",
)
_BALANCING = (
    "elasticloadbalancing:DescribeListenerAttributes",
    "elasticloadbalancing:DescribeListenerCertificates",
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeLoadBalancerAttributes",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeSSLPolicies",
    "elasticloadbalancing:DescribeTags",
    "elasticloadbalancing:DescribeTargetGroupAttributes",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
)
_LISTS = "lists, and takes no resource: service authorization reference, "
NO_RESOURCE: Final[Mapping[str, str]] = {
    **dict.fromkeys(_EC2, f"{_LISTS}list_amazonec2"),
    **dict.fromkeys(_BALANCING, f"{_LISTS}list_awselasticloadbalancingv2"),
    "fsx:DescribeFileSystems": f"{_LISTS}list_amazonfsx",
    "logs:DescribeLogGroups": f"{_LISTS}list_amazoncloudwatchlogs",
}
"""Actions for which ``*`` is all that can be written, each with the reason; none changes any."""

WHOLE: Final[Mapping[str, str]] = {
    "key": "the policy of a KMS key calls the key itself *",
    "endpoint": "the policy of an interface endpoint only narrows what roles allow: to one account",
    "refusal": "a refusal of everything without TLS leaves nothing out",
}
"""The other places with a ``*``: policies of resources, each with the reason."""


def allow(
    sid: str,
    actions: Iterable[str],
    resources: Sequence[str],
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> Statement:
    """A statement of a role's policy; lists are sorted, a single entry stands alone."""
    body: Statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": listed(actions),
        "Resource": listed(resources),
    }
    return body | ({"Condition": conditions} if conditions else {})


def of_resource(
    sid: str,
    principal: Mapping[str, object] | str,
    actions: Iterable[str],
    resources: Sequence[str] | None = None,
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> Statement:
    """A statement of a resource's own policy.

    Without ``resources`` it is of a KMS key, whose policy calls the key itself ``*``.
    """
    body: Statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": principal,
        "Action": listed(actions),
        "Resource": listed(resources) if resources else "*",
    }
    return body | ({"Condition": conditions} if conditions else {})


def lists(sid: str, actions: Iterable[str]) -> Statement:
    """A statement of actions that take no resource; any other action is a mistake.

    Raises:
        ValueError: an action that is not known to take none.
    """
    wanted = sorted(actions)
    if strange := [action for action in wanted if action not in NO_RESOURCE]:
        raise ValueError(f"{', '.join(strange)} can be narrowed to a resource")
    return allow(sid, wanted, ["*"])


def trust(
    service: str,
    *,
    tags_session: bool = False,
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> Document:
    """A trust policy for one AWS service."""
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if tags_session else [])]
    body: Statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": listed(actions),
    }
    return document([body | ({"Condition": conditions} if conditions else {})])


def document(statements: Iterable[Statement]) -> Document:
    """A policy document."""
    return {"Version": VERSION, "Statement": list(statements)}


def listed(values: Iterable[str]) -> str | list[str]:
    """Sorted, and a single value as text, as AWS gives it back: other orders would be changes.

    See pulumi-aws#1338 and #856.
    """
    found = sorted(set(values))
    return found[0] if len(found) == 1 else found
