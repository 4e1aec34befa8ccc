"""What the load balancer controller may do: with what carries its tag for this cluster.

After kubernetes-sigs/aws-load-balancer-controller 3.5.0 (``docs/install/iam_policy.json``), without
what an internal network load balancer never needs (certificates, WAF, Shield, Cognito, application
load balancers), in this account and region, and with the cluster's name where upstream only asks
that there be a tag.
"""

from __future__ import annotations

from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.documents import Document, Statement, allow, document, lists

CONTROLLER_TAG = "elbv2.k8s.aws/cluster"


def balancer_policy(case: AwsCase) -> Document:
    """The policy of ``aws-load-balancer-controller``."""
    return document([_look(), *_groups(case), *_balancers(case), *_tags(case), _linked_role(case)])


def _made(case: AwsCase) -> dict[str, dict[str, object]]:
    return {"StringEquals": {f"aws:RequestTag/{CONTROLLER_TAG}": case.prefix}}


def _own(case: AwsCase) -> dict[str, dict[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/{CONTROLLER_TAG}": case.prefix}}


def _ours(case: AwsCase) -> dict[str, dict[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": case.environment}}


def _look() -> Statement:
    return lists(
        "Look",
        [
            "ec2:DescribeAccountAttributes",
            "ec2:DescribeAddresses",
            "ec2:DescribeAvailabilityZones",
            "ec2:DescribeInstances",
            "ec2:DescribeInternetGateways",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeRouteTables",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeTags",
            "ec2:DescribeVpcPeeringConnections",
            "ec2:DescribeVpcs",
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
        ],
    )


def _groups(case: AwsCase) -> tuple[Statement, ...]:
    """Groups of its own, and rules in ours: the cluster's own group is the one that it opens."""
    group = case.arn("ec2", "security-group/*")
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    # EKS puts this tag on the cluster's own group, the one that the controller looks for.
    cluster = {"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{case.prefix}": "owned"}}
    return (
        allow("MakeGroups", ["ec2:CreateSecurityGroup"], [group], _made(case)),
        allow(
            "MakeGroupsInNetwork",
            ["ec2:CreateSecurityGroup"],
            [case.arn("ec2", "vpc/*")],
            _ours(case),
        ),
        allow("GroupsOfNetwork", ["ec2:GetSecurityGroupsForVpc"], [case.arn("ec2", "vpc/*")]),
        allow("OwnGroups", [*rules, "ec2:DeleteSecurityGroup"], [group], _own(case)),
        allow("OpenNodes", rules, [group], _ours(case)),
        allow("OpenCluster", rules, [group], cluster),
    )


def _balancers(case: AwsCase) -> tuple[Statement, ...]:
    balancer = case.arn("elasticloadbalancing", "loadbalancer/net/*/*")
    targets = case.arn("elasticloadbalancing", "targetgroup/*/*")
    listener = case.arn("elasticloadbalancing", "listener/net/*/*/*")
    act = "elasticloadbalancing:"
    return (
        allow(
            "MakeBalancers",
            [f"{act}CreateLoadBalancer", f"{act}CreateTargetGroup"],
            [balancer, targets],
            _made(case),
        ),
        # A listener is judged by the tags of its load balancer.
        allow("MakeListeners", [f"{act}CreateListener"], [balancer], _own(case)),
        allow(
            "OwnBalancers",
            [
                f"{act}DeleteListener",
                f"{act}DeleteLoadBalancer",
                f"{act}DeleteTargetGroup",
                f"{act}ModifyListener",
                f"{act}ModifyListenerAttributes",
                f"{act}ModifyLoadBalancerAttributes",
                f"{act}ModifyTargetGroup",
                f"{act}ModifyTargetGroupAttributes",
                f"{act}SetIpAddressType",
                f"{act}SetSecurityGroups",
                f"{act}SetSubnets",
            ],
            [balancer, targets, listener],
            _own(case),
        ),
        allow(
            "Targets",
            [f"{act}DeregisterTargets", f"{act}RegisterTargets"],
            [targets],
            _own(case),
        ),
    )


def _tags(case: AwsCase) -> tuple[Statement, ...]:
    group = case.arn("ec2", "security-group/*")
    balanced = [
        case.arn("elasticloadbalancing", kind)
        for kind in ("loadbalancer/net/*/*", "targetgroup/*/*", "listener/net/*/*/*")
    ]
    made = _made(case)
    create = {"ec2:CreateAction": "CreateSecurityGroup"}
    return (
        allow(
            "TagNewGroups",
            ["ec2:CreateTags"],
            [group],
            {"StringEquals": {**made["StringEquals"], **create}},
        ),
        allow("TagOwnGroups", ["ec2:CreateTags", "ec2:DeleteTags"], [group], _own(case)),
        allow("TagNewBalancers", ["elasticloadbalancing:AddTags"], balanced, made),
        allow(
            "TagOwnBalancers",
            ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            balanced,
            _own(case),
        ),
    )


def _linked_role(case: AwsCase) -> Statement:
    """AWS makes this role once in an account, for whoever makes its first load balancer."""
    service = "elasticloadbalancing.amazonaws.com"
    return allow(
        "LinkedRole",
        ["iam:CreateServiceLinkedRole"],
        [case.role_arn(f"aws-service-role/{service}/AWSServiceRoleForElasticLoadBalancing")],
        {"StringEquals": {"iam:AWSServiceName": service}},
    )
