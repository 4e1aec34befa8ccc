"""Which AWS services are reached inside the network, and what may be asked of S3 there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.documents import listed
from tokenworks.plan.aws.types import EndpointPlan

BASE: Final = (
    ("ec2", "nodes and the network plugin look up and attach interfaces"),
    ("ecr.api", "pulling images of add-ons"),
    ("ecr.dkr", "pulling images of add-ons"),
    ("eks", "nodes ask for their cluster"),
    ("eks-auth", "Pod Identity hands out credentials"),
    ("elasticloadbalancing", "the controller makes the internal load balancer"),
    ("kms", "volumes, buckets and Secrets are decrypted"),
    ("logs", "logs leave the network"),
    ("sts", "roles are taken"),
    ("ssm", "Session Manager, without any inbound rule"),
    ("ssmmessages", "Session Manager, without any inbound rule"),
    ("autoscaling", "node groups are scaled"),
)
"""Interfaces of a cluster without internet: docs.aws.amazon.com/eks, private-clusters; KMS and
Session Manager are what this platform uses besides."""
_FILE_SYSTEMS: Final = {
    "fsx-lustre": ("fsx", "the CSI driver looks up the file system"),
    "efs": ("elasticfilesystem", "the CSI driver looks up the file system"),
}


def endpoint_reasons(case: AwsCase) -> dict[str, str]:
    """Every interface endpoint by its service, with what needs it."""
    name, because = _FILE_SYSTEMS[case.section.weights.file_system]
    return dict(BASE) | {name: because}


def endpoints(case: AwsCase, buckets: tuple[str, ...]) -> tuple[EndpointPlan, ...]:
    """S3 by a gateway, which costs nothing, and every other service by an interface."""
    interfaces = (
        EndpointPlan(service=service, kind="Interface", policy=_account_only(case))
        for service in sorted(endpoint_reasons(case))
    )
    gateway = EndpointPlan(service="s3", kind="Gateway", policy=s3_policy(case, buckets))
    return (gateway, *interfaces)


def _account_only(case: AwsCase) -> dict[str, object]:
    """Nobody of another account may use the endpoint, so stolen credentials are of no use here."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "OwnAccountOnly",
                "Effect": "Allow",
                "Principal": "*",
                "Action": "*",
                "Resource": "*",
                "Condition": {"StringEquals": {"aws:PrincipalAccount": case.section.account}},
            }
        ],
    }


def aws_buckets(region: str) -> Iterator[tuple[str, str]]:
    """Buckets of AWS that nodes read, each with what lies there.

    Image layers: docs.aws.amazon.com/AmazonECR vpc-endpoints. Packages of Amazon Linux 2023:
    docs.aws.amazon.com/linux/al2023 ug, repository access by a gateway endpoint. Session Manager:
    docs.aws.amazon.com/systems-manager, ssm-agent-minimum-s3-permissions.
    """
    yield f"prod-{region}-starport-layer-bucket", "layers of images in ECR"
    yield f"al2023-repos-{region}-de612dc2", "packages of Amazon Linux 2023"
    yield f"aws-ssm-{region}", "the agent of Session Manager"


def s3_policy(case: AwsCase, buckets: tuple[str, ...]) -> dict[str, object]:
    """Own buckets by this account, and AWS's own to be read; nothing can be carried elsewhere.

    Registries keep layers in buckets of S3 under names that they tell nobody, and the endpoint is
    the way to all of S3: where there is a way to the internet, every bucket may be read.
    """
    own = [arn for name in buckets for arn in _arns(name)]
    theirs = [arn for name, _ in aws_buckets(case.section.region) for arn in _arns(name)[1:]]
    if case.section.network.egress != "none":
        theirs = ["arn:aws:s3:::*/*"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "OwnBuckets",
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["s3:DeleteObject", "s3:GetObject", "s3:ListBucket", "s3:PutObject"],
                "Resource": listed(own),
                "Condition": {"StringEquals": {"aws:PrincipalAccount": case.section.account}},
            },
            {
                "Sid": "WhatNodesRead",
                "Effect": "Allow",
                "Principal": "*",
                "Action": "s3:GetObject",
                "Resource": listed(theirs),
            },
        ],
    }


def _arns(bucket: str) -> tuple[str, str]:
    return f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"
