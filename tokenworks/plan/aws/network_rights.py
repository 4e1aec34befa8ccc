"""What the network plugin may do: with interfaces of this cluster's nodes, and no others.

After the policy for one cluster in aws/amazon-vpc-cni-k8s (``docs/iam-policy.md``), whose condition
is the plugin's own tag; interfaces that a node starts with carry the tag of the environment instead
(by its launch template), so those may be used as well.
"""

from __future__ import annotations

from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.documents import Document, allow, document, lists

CLUSTER_TAG = "cluster.k8s.amazonaws.com/name"
"""Tag that the plugin puts on every interface it makes."""
_HANDLE = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)


def network_policy(case: AwsCase) -> Document:
    """The policy of ``aws-node``."""
    interfaces = case.arn("ec2", "network-interface/*")
    made = {"StringEquals": {f"aws:RequestTag/{CLUSTER_TAG}": case.prefix}}
    plugins = {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": case.prefix}}
    ours = {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": case.environment}}
    return document(
        [
            lists(
                "Look",
                [
                    "ec2:DescribeInstanceTypes",
                    "ec2:DescribeInstances",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeTags",
                ],
            ),
            allow("MakeInterfaces", ["ec2:CreateNetworkInterface"], [interfaces], made),
            allow(
                "MakeInterfacesInSubnets",
                ["ec2:CreateNetworkInterface"],
                [case.arn("ec2", "subnet/*")],
                ours,
            ),
            allow(
                "MakeInterfacesInGroups",
                ["ec2:CreateNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute"],
                [case.arn("ec2", "security-group/*")],
            ),
            allow("HandleOwnInterfaces", _HANDLE, [interfaces], plugins),
            allow("HandleFirstInterfaces", [*_HANDLE, "ec2:CreateTags"], [interfaces], ours),
            allow(
                "HandleNodes",
                [
                    "ec2:AttachNetworkInterface",
                    "ec2:DetachNetworkInterface",
                    "ec2:ModifyNetworkInterfaceAttribute",
                ],
                [case.arn("ec2", "instance/*")],
                ours,
            ),
            allow(
                "TagNewInterfaces",
                ["ec2:CreateTags"],
                [interfaces],
                {"StringEquals": {"ec2:CreateAction": "CreateNetworkInterface"}},
            ),
        ]
    )
