"""Reading what exists of an environment, as Pulumi imports it; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tokenworks.aws.client import AwsError, Cloud, tags_of
from tokenworks.aws.import_eks import read_cluster
from tokenworks.aws.import_keys import BUCKET_PARTS
from tokenworks.aws.import_plan import Existing
from tokenworks.aws.target import ENVIRONMENT_TAG, PROGRAM_TAG, STATE_PROGRAM, Target


@dataclass(frozen=True)
class _Listed:
    """How a kind that carries tags is listed: the call, where its entries and their ids are."""

    type: str
    service: str
    operation: str
    entries: str
    id: str
    arn: str = ""
    tags: str = "Tags"


# Each with a filter by tag, so that nothing of others is even read.
_BY_TAG: Final = (
    _Listed("aws:ec2/vpc:Vpc", "ec2", "describe_vpcs", "Vpcs", "VpcId"),
    _Listed("aws:ec2/subnet:Subnet", "ec2", "describe_subnets", "Subnets", "SubnetId"),
    _Listed(
        "aws:ec2/routeTable:RouteTable", "ec2", "describe_route_tables", "RouteTables",
        "RouteTableId",
    ),
    _Listed(
        "aws:ec2/internetGateway:InternetGateway", "ec2", "describe_internet_gateways",
        "InternetGateways", "InternetGatewayId",
    ),
    _Listed(
        "aws:ec2/securityGroup:SecurityGroup", "ec2", "describe_security_groups",
        "SecurityGroups", "GroupId",
    ),
    _Listed(
        "aws:ec2/vpcEndpoint:VpcEndpoint", "ec2", "describe_vpc_endpoints", "VpcEndpoints",
        "VpcEndpointId",
    ),
    _Listed(
        "aws:ec2/launchTemplate:LaunchTemplate", "ec2", "describe_launch_templates",
        "LaunchTemplates", "LaunchTemplateId",
    ),
    _Listed(
        "aws:ec2transitgateway/vpcAttachment:VpcAttachment", "ec2",
        "describe_transit_gateway_vpc_attachments", "TransitGatewayVpcAttachments",
        "TransitGatewayAttachmentId",
    ),
)  # fmt: skip
_ALIVE_NAT: Final = ["pending", "available"]
_ALIVE_INSTANCE: Final = ["pending", "running", "stopping", "stopped"]


def read_existing(cloud: Cloud) -> list[Existing]:
    """Everything of an environment that Pulumi could import, the state's own parts left out.

    Raises:
        AwsError: something could not be listed.
    """
    found: list[Existing] = []
    for listed in _BY_TAG:
        found += _listed(cloud, listed)
    for read in _READERS:
        found += read(cloud)
    found += read_cluster(cloud)
    return found


def _listed(cloud: Cloud, listed: _Listed) -> Iterator[Existing]:
    own = [{"Name": f"tag:{ENVIRONMENT_TAG}", "Values": [cloud.target.environment]}]
    for each in cloud.pages(listed.service, listed.operation, listed.entries, Filters=own):
        yield from _tagged(listed.type, each[listed.id], tags_of(each.get(listed.tags)))


def _tagged(
    type_: str, id_: str, tags: Mapping[str, str], *, arn: str = "", ours: bool = True
) -> Iterator[Existing]:
    """A resource by its tag ``Name``; what keeps the state belongs to no stack."""
    if tags.get(PROGRAM_TAG) != STATE_PROGRAM:
        key = (tags.get("Name", ""),)
        yield Existing(
            type=type_, id=id_, key=key, ours=ours, known_as=frozenset({id_, arn} - {""})
        )


def is_ours(tags: Mapping[str, str], target: Target) -> bool:
    """Whether tags prove a resource to be the environment's."""
    return tags.get(ENVIRONMENT_TAG) == target.environment


def _own_filter(cloud: Cloud) -> dict[str, Any]:
    return {"Name": f"tag:{ENVIRONMENT_TAG}", "Values": [cloud.target.environment]}


def _addresses(cloud: Cloud) -> Iterator[Existing]:
    answer = cloud.call("ec2", "describe_addresses", Filters=[_own_filter(cloud)])
    for each in answer["Addresses"]:
        yield from _tagged("aws:ec2/eip:Eip", each["AllocationId"], tags_of(each.get("Tags")))


def _gateways(cloud: Cloud) -> Iterator[Existing]:
    alive = {"Name": "state", "Values": _ALIVE_NAT}
    listing = ("ec2", "describe_nat_gateways", "NatGateways")
    for each in cloud.pages(*listing, Filters=[_own_filter(cloud), alive]):
        tags = tags_of(each.get("Tags"))
        yield from _tagged("aws:ec2/natGateway:NatGateway", each["NatGatewayId"], tags)


def _flow_logs(cloud: Cloud) -> Iterator[Existing]:
    listing = ("ec2", "describe_flow_logs", "FlowLogs")
    for each in cloud.pages(*listing, Filters=[_own_filter(cloud)]):
        tags = tags_of(each.get("Tags"))
        yield from _tagged("aws:ec2/flowLog:FlowLog", each["FlowLogId"], tags)


def _instances(cloud: Cloud) -> Iterator[Existing]:
    """Builders of images; nodes carry the same tags, and belong to their group."""
    alive = {"Name": "instance-state-name", "Values": _ALIVE_INSTANCE}
    builders = {"Name": f"tag:{PROGRAM_TAG}", "Values": ["image"]}
    filters = [_own_filter(cloud), alive, builders]
    for reservation in cloud.pages("ec2", "describe_instances", "Reservations", Filters=filters):
        for each in reservation["Instances"]:
            tags = tags_of(each.get("Tags"))
            yield from _tagged("aws:ec2/instance:Instance", each["InstanceId"], tags)


def _rules(cloud: Cloud) -> Iterator[Existing]:
    listing = ("ec2", "describe_security_group_rules", "SecurityGroupRules")
    for each in cloud.pages(*listing, Filters=[_own_filter(cloud)]):
        side = "Egress" if each.get("IsEgress") else "Ingress"
        type_ = f"aws:vpc/securityGroup{side}Rule:SecurityGroup{side}Rule"
        yield from _tagged(type_, each["SecurityGroupRuleId"], tags_of(each.get("Tags")))


def _default_groups(cloud: Cloud) -> Iterator[Existing]:
    for vpc in cloud.pages("ec2", "describe_vpcs", "Vpcs", Filters=[_own_filter(cloud)]):
        filters = [
            {"Name": "vpc-id", "Values": [vpc["VpcId"]]},
            {"Name": "group-name", "Values": ["default"]},
        ]
        listing = ("ec2", "describe_security_groups", "SecurityGroups")
        for each in cloud.pages(*listing, Filters=filters):
            type_ = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
            yield Existing(type=type_, id=each["GroupId"], key=(vpc["VpcId"],), ours=True)


def _ways(cloud: Cloud) -> Iterator[Existing]:
    """Routes and associations of route tables of ours."""
    listing = ("ec2", "describe_route_tables", "RouteTables")
    for table in cloud.pages(*listing, Filters=[_own_filter(cloud)]):
        id_ = table["RouteTableId"]
        for one in table.get("Associations") or ():
            if subnet := one.get("SubnetId"):
                type_ = "aws:ec2/routeTableAssociation:RouteTableAssociation"
                yield Existing(type=type_, id=f"{subnet}/{id_}", key=(subnet, id_), ours=True)
        for route in table.get("Routes") or ():
            cidr = route.get("DestinationCidrBlock")
            if cidr and route.get("Origin") == "CreateRoute":
                key = (id_, cidr)
                yield Existing(type="aws:ec2/route:Route", id=f"{id_}_{cidr}", key=key, ours=True)


def _placement_groups(cloud: Cloud) -> Iterator[Existing]:
    answer = cloud.call("ec2", "describe_placement_groups", Filters=[_own_filter(cloud)])
    for each in answer["PlacementGroups"]:
        tags = tags_of(each.get("Tags"))
        yield from _tagged("aws:ec2/placementGroup:PlacementGroup", each["GroupName"], tags)


def _keys(cloud: Cloud) -> Iterator[Existing]:
    """Keys that can still be used, found by tag, and the aliases of these."""
    aliases = list(cloud.pages("kms", "list_aliases", "Aliases"))
    for arn, tags in _by_tag(cloud, "kms:key"):
        described = cloud.call("kms", "describe_key", KeyId=arn)["KeyMetadata"]
        if described["KeyState"] != "Enabled" or tags.get(PROGRAM_TAG) == STATE_PROGRAM:
            continue
        id_ = described["KeyId"]
        yield from _tagged("aws:kms/key:Key", id_, tags, arn=arn)
        for alias in aliases:
            if alias.get("TargetKeyId") == id_:
                name = alias["AliasName"]
                yield Existing(type="aws:kms/alias:Alias", id=name, key=(name,), ours=True)


def _by_tag(cloud: Cloud, kind: str) -> Iterator[tuple[str, dict[str, str]]]:
    tag = {"Key": ENVIRONMENT_TAG, "Values": [cloud.target.environment]}
    listing = ("resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList")
    for each in cloud.pages(*listing, TagFilters=[tag], ResourceTypeFilters=[kind]):
        yield each["ResourceARN"], tags_of(each["Tags"])


def _buckets(cloud: Cloud) -> Iterator[Existing]:
    """Buckets whose names begin as ours do; others of that name are told, and never adopted."""
    for each in cloud.call("s3", "list_buckets")["Buckets"]:
        name = each["Name"]
        if name.startswith(cloud.target.cluster) and name != cloud.target.state_bucket:
            tags = tags_of(_setting(cloud, name, "get_bucket_tagging").get("TagSet"))
            ours = is_ours(tags, cloud.target)
            yield Existing(type="aws:s3/bucket:Bucket", id=name, key=(name,), ours=ours)
            for type_, operation in BUCKET_PARTS.items() if ours else ():
                if _setting(cloud, name, operation):
                    yield Existing(type=type_, id=name, key=(name,), ours=True)


def _setting(cloud: Cloud, bucket: str, operation: str) -> dict[str, Any]:
    """A setting of a bucket; empty where it was never made."""
    try:
        answer = cloud.call("s3", operation, Bucket=bucket)
    except AwsError as error:
        if error.code.startswith("NoSuch") or error.code.endswith("NotFoundError"):
            return {}
        raise
    return {name: value for name, value in answer.items() if name != "ResponseMetadata" and value}


def _log_groups(cloud: Cloud) -> Iterator[Existing]:
    """Log groups with our names; a control plane may write one anew after it was deleted."""
    prefixes = (f"/aws/eks/{cloud.target.cluster}/", f"/{cloud.target.cluster}/")
    for prefix in prefixes:
        listing = {"logGroupNamePrefix": prefix}
        for each in cloud.pages("logs", "describe_log_groups", "logGroups", **listing):
            name, arn = each["logGroupName"], each["arn"].removesuffix(":*")
            tags = cloud.call("logs", "list_tags_for_resource", resourceArn=arn)["tags"]
            type_, ours = "aws:cloudwatch/logGroup:LogGroup", is_ours(tags, cloud.target)
            known_as = frozenset({arn})
            yield Existing(type=type_, id=name, key=(name,), ours=ours, known_as=known_as)


def _roles(cloud: Cloud) -> Iterator[Existing]:
    """Roles with our names, what they may do, and the profiles of instances that take them."""
    for role in cloud.pages("iam", "list_roles", "Roles"):
        name = role["RoleName"]
        if not name.startswith(cloud.target.cluster):
            continue
        tags = tags_of(cloud.call("iam", "list_role_tags", RoleName=name)["Tags"])
        ours = is_ours(tags, cloud.target)
        made = Existing(type="aws:iam/role:Role", id=name, key=(name,), ours=ours)
        yield replace(made, known_as=frozenset({role["Arn"]}))
        yield from _rights(cloud, name) if ours else ()


def _rights(cloud: Cloud, role: str) -> Iterator[Existing]:
    listing = ("iam", "list_attached_role_policies", "AttachedPolicies")
    for policy in cloud.pages(*listing, RoleName=role):
        arn = policy["PolicyArn"]
        type_ = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
        yield Existing(type=type_, id=f"{role}/{arn}", key=(role, arn), ours=True)
    for name in cloud.pages("iam", "list_role_policies", "PolicyNames", RoleName=role):
        key = (role, str(name))
        yield Existing(
            type="aws:iam/rolePolicy:RolePolicy", id=f"{role}:{name}", key=key, ours=True
        )
    listing = ("iam", "list_instance_profiles_for_role", "InstanceProfiles")
    for profile in cloud.pages(*listing, RoleName=role):
        name = profile["InstanceProfileName"]
        type_ = "aws:iam/instanceProfile:InstanceProfile"
        yield Existing(type=type_, id=name, key=(name,), ours=True)


def _elastic_file_systems(cloud: Cloud) -> Iterator[Existing]:
    for each in cloud.pages("efs", "describe_file_systems", "FileSystems"):
        tags, id_ = tags_of(each.get("Tags")), each["FileSystemId"]
        if not is_ours(tags, cloud.target):
            continue
        yield from _tagged("aws:efs/fileSystem:FileSystem", id_, tags)
        answer = cloud.call("efs", "describe_mount_targets", FileSystemId=id_)
        for one in answer["MountTargets"]:
            key = (id_, one["SubnetId"])
            type_ = "aws:efs/mountTarget:MountTarget"
            yield Existing(type=type_, id=one["MountTargetId"], key=key, ours=True)


def _lustre(cloud: Cloud) -> Iterator[Existing]:
    for each in cloud.pages("fsx", "describe_file_systems", "FileSystems"):
        tags, id_ = tags_of(each.get("Tags")), each["FileSystemId"]
        if not is_ours(tags, cloud.target):
            continue
        yield from _tagged("aws:fsx/lustreFileSystem:LustreFileSystem", id_, tags)
        filters = [{"Name": "file-system-id", "Values": [id_]}]
        call = ("fsx", "describe_data_repository_associations", "Associations")
        for one in cloud.pages(*call, Filters=filters):
            type_ = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
            yield from _tagged(type_, one["AssociationId"], tags_of(one.get("Tags")))


_READERS: Final[tuple[Callable[[Cloud], Iterator[Existing]], ...]] = (
    _addresses,
    _gateways,
    _flow_logs,
    _instances,
    _rules,
    _default_groups,
    _ways,
    _placement_groups,
    _keys,
    _buckets,
    _log_groups,
    _roles,
    _elastic_file_systems,
    _lustre,
)
