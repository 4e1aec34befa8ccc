"""By what each type of resource is found again: its tag ``Name``, its name, or what it joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Key = tuple[str, ...]
Inputs = Mapping[str, Any]

BY_NAME_TAG: Final = frozenset(
    {
        "aws:ec2/eip:Eip",
        "aws:ec2/flowLog:FlowLog",
        "aws:ec2/instance:Instance",
        "aws:ec2/internetGateway:InternetGateway",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/natGateway:NatGateway",
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:ec2/routeTable:RouteTable",
        "aws:ec2/securityGroup:SecurityGroup",
        "aws:ec2/subnet:Subnet",
        "aws:ec2/vpc:Vpc",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "aws:ec2transitgateway/vpcAttachment:VpcAttachment",
        "aws:efs/fileSystem:FileSystem",
        "aws:eks/nodeGroup:NodeGroup",
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        "aws:kms/key:Key",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    }
)
"""Types whose ids AWS makes; every one of ours has a tag ``Name`` that is alone among its type."""

CANNOT: Final = {
    "aws:ec2/amiFromInstance:AmiFromInstance": "an image is no resource to import: the image "
    "program takes one of that name as it finds it",
    "aws:s3/bucketObjectv2:BucketObjectv2": "the next update writes it anew, with the same content",
    "pulumi-python:dynamic:Resource": "made by this program itself; the next update makes it again",
    "pulumi-python:dynamic/hosts:Builder": "made by this program itself; the next update makes it "
    "again",
}
"""Types that cannot be imported, and what happens instead."""


def key_of(type_: str, inputs: Inputs) -> Key | None:
    """What a registration is found by; None for a type that nothing here knows."""
    if type_ in BY_NAME_TAG:
        name = (inputs.get("tags") or {}).get("Name")
        return (str(name),) if name else None
    read = _KEYS.get(type_)
    return read(inputs) if read is not None else None


def _fields(*names: str) -> Callable[[Inputs], Key | None]:
    def read(inputs: Inputs) -> Key | None:
        values = [inputs.get(name) for name in names]
        return tuple(str(value) for value in values) if all(values) else None

    return read


BUCKET_PARTS: Final = {
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        "get_bucket_lifecycle_configuration"
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "get_bucket_ownership_controls",
    "aws:s3/bucketPolicy:BucketPolicy": "get_bucket_policy",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "get_public_access_block",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        "get_bucket_encryption"
    ),
    "aws:s3/bucketVersioning:BucketVersioning": "get_bucket_versioning",
}
"""Settings of a bucket that are resources of their own, and the call that finds each."""

_KEYS: Final[Mapping[str, Callable[[Inputs], Key | None]]] = {
    "aws:cloudwatch/logGroup:LogGroup": _fields("name"),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _fields("vpcId"),
    "aws:ec2/route:Route": _fields("routeTableId", "destinationCidrBlock"),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _fields("subnetId", "routeTableId"),
    "aws:efs/mountTarget:MountTarget": _fields("fileSystemId", "subnetId"),
    "aws:eks/accessEntry:AccessEntry": _fields("clusterName", "principalArn"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _fields(
        "clusterName", "principalArn", "policyArn"
    ),
    "aws:eks/addon:Addon": _fields("clusterName", "addonName"),
    "aws:eks/cluster:Cluster": _fields("name"),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _fields(
        "clusterName", "namespace", "serviceAccount"
    ),
    "aws:iam/instanceProfile:InstanceProfile": _fields("name"),
    "aws:iam/role:Role": _fields("name"),
    "aws:iam/rolePolicy:RolePolicy": _fields("role", "name"),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _fields("role", "policyArn"),
    "aws:kms/alias:Alias": _fields("name"),
    "aws:s3/bucket:Bucket": _fields("bucket"),
    **dict.fromkeys(BUCKET_PARTS, _fields("bucket")),
}
KNOWN_TYPES: Final = BY_NAME_TAG | frozenset(_KEYS) | frozenset(CANNOT)
"""Every type that is found, or known not to be."""
