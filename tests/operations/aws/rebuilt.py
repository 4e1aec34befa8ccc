"""What a provider would have made of a recorded network and its storage, made in a moto account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.aws_fixtures import as_list, client, tagged
from tokenworks.check.recording import RecordedResource, Recording

Made = dict[str, str]


def rebuild(recording: Recording, made: Made) -> list[RecordedResource]:
    """Make each resource that is known here, with the real ids of those before it."""
    done = []
    for one in recording.resources:
        maker = MAKERS.get(one.type)
        if maker is not None:
            id_ = maker(_real(one.inputs, made))
            # A key is also referred to by the last part of its ARN.
            short = {name.rpartition("/")[2] for name in one.known_as}
            made |= dict.fromkeys(one.known_as | short, id_)
            done.append(one)
    return done


def _real(value: Any, made: Made) -> Any:
    if isinstance(value, Mapping):
        return {key: _real(child, made) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_real(child, made) for child in value]
    return made.get(value, value) if isinstance(value, str) else value


def _vpc(given: dict[str, Any]) -> str:
    spec = tagged("vpc", given["tags"])
    made = client("ec2").create_vpc(CidrBlock=given["cidrBlock"], TagSpecifications=spec)["Vpc"]
    return str(made["VpcId"])


def _subnet(given: dict[str, Any]) -> str:
    spec = tagged("subnet", given["tags"])
    place = {"VpcId": given["vpcId"], "CidrBlock": given["cidrBlock"]}
    return str(client("ec2").create_subnet(**place, TagSpecifications=spec)["Subnet"]["SubnetId"])


def _table(given: dict[str, Any]) -> str:
    spec = tagged("route-table", given["tags"])
    made = client("ec2").create_route_table(VpcId=given["vpcId"], TagSpecifications=spec)
    return str(made["RouteTable"]["RouteTableId"])


def _association(given: dict[str, Any]) -> str:
    place = {"RouteTableId": given["routeTableId"], "SubnetId": given["subnetId"]}
    return str(client("ec2").associate_route_table(**place)["AssociationId"])


def _group(given: dict[str, Any]) -> str:
    spec = tagged("security-group", given["tags"])
    # EC2 allows no quotes and semicolons in descriptions, and neither does it matter here.
    named = {"GroupName": given["name"], "Description": "as planned", "VpcId": given["vpcId"]}
    return str(client("ec2").create_security_group(**named, TagSpecifications=spec)["GroupId"])


def _ingress(given: dict[str, Any]) -> str:
    return _rule("authorize_security_group_ingress", given)


def _rule(call: str, given: dict[str, Any]) -> str:
    permission: dict[str, Any] = {"IpProtocol": given["ipProtocol"]}
    if "fromPort" in given:
        ports = {"FromPort": int(given["fromPort"]), "ToPort": int(given["toPort"])}
        permission |= ports
    if "cidrIpv4" in given:
        permission["IpRanges"] = [{"CidrIp": given["cidrIpv4"]}]
    else:
        permission["UserIdGroupPairs"] = [{"GroupId": given["referencedSecurityGroupId"]}]
    answer = getattr(client("ec2"), call)(
        GroupId=given["securityGroupId"],
        IpPermissions=[permission],
        TagSpecifications=tagged("security-group-rule", given["tags"]),
    )
    return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])


def _log_group(given: dict[str, Any]) -> str:
    client("logs").create_log_group(logGroupName=given["name"], tags=dict(given["tags"]))
    return str(given["name"])


def _role(given: dict[str, Any]) -> str:
    client("iam").create_role(
        RoleName=given["name"], AssumeRolePolicyDocument="{}", Tags=as_list(given["tags"])
    )
    return str(given["name"])


def _role_policy(given: dict[str, Any]) -> str:
    names = {"RoleName": given["role"], "PolicyName": given["name"]}
    client("iam").put_role_policy(**names, PolicyDocument=given["policy"])
    return f"{given['role']}:{given['name']}"


def _key(given: dict[str, Any]) -> str:
    tags = [{"TagKey": key, "TagValue": value} for key, value in given["tags"].items()]
    return str(client("kms").create_key(Tags=tags)["KeyMetadata"]["KeyId"])


def _alias(given: dict[str, Any]) -> str:
    client("kms").create_alias(AliasName=given["name"], TargetKeyId=given["targetKeyId"])
    return str(given["name"])


def _bucket(given: dict[str, Any]) -> str:
    s3 = client("s3")
    s3.create_bucket(Bucket=given["bucket"])
    s3.put_bucket_tagging(Bucket=given["bucket"], Tagging={"TagSet": as_list(given["tags"])})
    return str(given["bucket"])


def _versions(given: dict[str, Any]) -> str:
    enabled = {"Status": "Enabled"}
    client("s3").put_bucket_versioning(Bucket=given["bucket"], VersioningConfiguration=enabled)
    return str(given["bucket"])


MAKERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:ec2/routeTable:RouteTable": _table,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _association,
    "aws:ec2/securityGroup:SecurityGroup": _group,
    "aws:ec2/subnet:Subnet": _subnet,
    "aws:ec2/vpc:Vpc": _vpc,
    "aws:iam/role:Role": _role,
    "aws:iam/rolePolicy:RolePolicy": _role_policy,
    "aws:kms/alias:Alias": _alias,
    "aws:kms/key:Key": _key,
    "aws:s3/bucket:Bucket": _bucket,
    "aws:s3/bucketVersioning:BucketVersioning": _versions,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _ingress,
}
"""By type, how it is made; what moto has, and of which the import plan reads the most."""
