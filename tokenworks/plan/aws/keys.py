"""Keys and the weights bucket: who may use each, and for what."""

from __future__ import annotations

from tokenworks.plan.aws import iam
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.documents import Document, Statement, document, of_resource
from tokenworks.plan.aws.types import KeyPlan

WEIGHTS, SECRETS, NODES, LOGS = "weights", "secrets", "nodes", "logs"
"""Names of the keys in the plan; their aliases carry the environment as well."""

_ADMINISTER = (
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:RevokeGrant",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
)
_USE = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
AUTO_SCALING_ROLE = "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
"""The role that starts nodes, and so opens their volumes: docs.aws.amazon.com/autoscaling/ec2,
key-policy-requirements-EBS-encryption."""
FSX_ROLES = (
    "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"
)
"""Roles, one for each file system, by which FSx reads a bucket: FSx for Lustre user guide,
using-service-linked-roles."""


def keys(case: AwsCase) -> tuple[KeyPlan, ...]:
    """A key for each kind of data, so that a right to one is no right to another."""
    lustre = case.section.weights.file_system == "fsx-lustre"
    weights = _by(case, "s3", "fsx" if lustre else "elasticfilesystem")
    follows = [_lustre(case)] if lustre else []
    return (
        _key(case, WEIGHTS, "Weights in the bucket and on the file system", [*weights, *follows]),
        _key(case, SECRETS, "Secrets in the Kubernetes API", _by(case, "eks")),
        _key(case, NODES, "Disks and images of nodes", [*_by(case, "ec2"), *_nodes(case)]),
        _key(case, LOGS, "Logs", [_logs(case)]),
    )


def _key(case: AwsCase, name: str, description: str, use: list[Statement]) -> KeyPlan:
    return KeyPlan(
        name=name,
        alias=f"alias/{case.prefix}-{name}",
        policy=document([_administration(case), *use]),
        description=description,
    )


def _administration(case: AwsCase) -> Statement:
    """IAM of this account decides who; without it nobody could ever change the key again."""
    return of_resource("Administration", _account(case), _ADMINISTER)


def _account(case: AwsCase) -> dict[str, object]:
    return {"AWS": f"arn:aws:iam::{case.section.account}:root"}


def _by(case: AwsCase, *services: str) -> list[Statement]:
    """Use through services only, by those of this account whom IAM lets."""
    through = sorted(f"{name}.{case.section.region}.amazonaws.com" for name in services)
    via: dict[str, dict[str, object]] = {
        "StringEquals": {
            "kms:CallerAccount": case.section.account,
            "kms:ViaService": through if len(through) > 1 else through[0],
        }
    }
    granted: dict[str, dict[str, object]] = {
        **via,
        "Bool": {"kms:GrantIsForAWSResource": "true"},
    }
    return [
        of_resource("UseByServices", _account(case), _USE, None, via),
        of_resource("GrantToServices", _account(case), ["kms:CreateGrant"], None, granted),
    ]


def _lustre(case: AwsCase) -> Statement:
    """Lustre reads the bucket by a role that AWS names after the file system, once there is one.

    That role has no rights to keys: FSx for Lustre user guide, s3-server-side-encryption.
    """
    conditions: dict[str, dict[str, object]] = {
        "ArnLike": {"aws:PrincipalArn": case.role_arn(FSX_ROLES)},
        "StringEquals": {
            "kms:CallerAccount": case.section.account,
            "kms:ViaService": f"s3.{case.section.region}.amazonaws.com",
        },
    }
    decrypt = ["kms:Decrypt", "kms:DescribeKey"]
    return of_resource("FollowTheBucket", {"AWS": "*"}, decrypt, None, conditions)


def _nodes(case: AwsCase) -> list[Statement]:
    role: dict[str, object] = {"AWS": case.role_arn(AUTO_SCALING_ROLE)}
    granted: dict[str, dict[str, object]] = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    return [
        of_resource("StartNodes", role, _USE),
        of_resource("GrantToNodes", role, ["kms:CreateGrant"], None, granted),
    ]


def _logs(case: AwsCase) -> Statement:
    """CloudWatch for log groups of this environment: docs.aws.amazon.com/AmazonCloudWatch, KMS."""
    groups = [
        case.arn("logs", f"log-group:/{case.prefix}/*"),
        case.arn("logs", f"log-group:/aws/eks/{case.prefix}/*"),
    ]
    return of_resource(
        "UseByLogs",
        {"Service": f"logs.{case.section.region}.amazonaws.com"},
        _USE,
        None,
        {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def weights_bucket_policy(case: AwsCase) -> Document:
    """Read by Lustre where it follows, written by the deployer, and by nobody without TLS."""
    bucket = f"arn:aws:s3:::{case.bucket('weights')}"
    lustre = case.section.weights.file_system == "fsx-lustre"
    followers = [case.role_arn(FSX_ROLES)] if lustre else []
    deployer = case.section.access.deployer
    return bucket_policy(case, bucket, readers=[deployer, *followers], writers=[deployer])


def transfer_bucket_policy(case: AwsCase) -> Document:
    """Used by builders of images and whoever runs Ansible on them, and by nobody without TLS."""
    users = [case.section.access.deployer, case.role_arn(iam.builder_role(case).name)]
    bucket = f"arn:aws:s3:::{case.bucket('transfer')}"
    return bucket_policy(case, bucket, readers=users, writers=users)


def bucket_policy(
    case: AwsCase, bucket: str, *, readers: list[str], writers: list[str]
) -> Document:
    """Refusals for everybody but those named; what they may do is up to their own policies.

    The account's root is named everywhere, so that a lost role locks nobody out for good.
    """
    root = f"arn:aws:iam::{case.section.account}:root"
    return document(
        [
            _deny(
                "OnlyByTls",
                ["s3:*"],
                [bucket, f"{bucket}/*"],
                {"Bool": {"aws:SecureTransport": "false"}},
            ),
            _deny(
                "OnlyByReaders",
                ["s3:GetObject", "s3:GetObjectVersion"],
                [f"{bucket}/*"],
                {"StringNotLike": {"aws:PrincipalArn": sorted({*readers, *writers, root})}},
            ),
            _deny(
                "OnlyByWriters",
                ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"],
                [f"{bucket}/*"],
                {"StringNotLike": {"aws:PrincipalArn": sorted({*writers, root})}},
            ),
        ]
    )


def _deny(
    sid: str, actions: list[str], resources: list[str], condition: dict[str, object]
) -> Statement:
    return {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": actions[0] if len(actions) == 1 else actions,
        "Resource": resources[0] if len(resources) == 1 else resources,
        "Condition": condition,
    }
