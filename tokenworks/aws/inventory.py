"""What lies in an account's region of the kinds that controllers make, whosever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tokenworks.aws.client import AwsError, Cloud, tags_of
from tokenworks.aws.ownership import Kind
from tokenworks.aws.target import ENVIRONMENT_TAG

_TAGS_AT_ONCE: Final = 20
"""DescribeTags of both load-balancing services takes this many (API reference)."""
_BALANCER_INTERFACE: Final = "ELB "
"""How ELB describes its own interfaces: ``ELB net/<name>/<hash>`` (EC2 user guide)."""


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One resource as it was found.

    ``id`` is the ARN of load balancers and target groups. ``busy`` says what uses it at this
    moment, empty where nothing does. ``holds`` are ids of security groups that cannot go before
    it; ``part_of`` what it belongs to: a rule's group, a target group's load balancers, the load
    balancer (``net/<name>/<hash>``) whose interface it is. ``made_by_aws`` is true where a
    service, and nobody else, can delete it.
    """

    kind: Kind
    id: str
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    vpc: str = ""
    busy: str = ""
    holds: frozenset[str] = frozenset()
    part_of: frozenset[str] = frozenset()
    made_by_aws: bool = False


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything found; ``networks`` are the VPCs that carry the environment's tag."""

    things: tuple[Thing, ...]
    networks: frozenset[str]
    cluster_exists: bool


def read_inventory(cloud: Cloud) -> Inventory:
    """What is there now; a listing that fails is an error, since half an inventory is none.

    Raises:
        AwsError: something could not be listed.
    """
    things = (
        *_balancers(cloud),
        *_classic_balancers(cloud),
        *_target_groups(cloud),
        *_interfaces(cloud),
        *_groups(cloud),
        *_rules(cloud),
        *_volumes(cloud),
    )
    own = {"Name": f"tag:{ENVIRONMENT_TAG}", "Values": [cloud.target.environment]}
    networks = cloud.pages("ec2", "describe_vpcs", "Vpcs", Filters=[own])
    return Inventory(
        things=things,
        networks=frozenset(each["VpcId"] for each in networks),
        cluster_exists=cluster_exists(cloud),
    )


def cluster_exists(cloud: Cloud) -> bool:
    """Whether the environment's control plane is there, in whatever state."""
    try:
        cloud.call("eks", "describe_cluster", name=cloud.target.cluster)
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return False
        raise
    return True


def _balancers(cloud: Cloud) -> Iterator[Thing]:
    found = list(cloud.pages("elbv2", "describe_load_balancers", "LoadBalancers"))
    tags = _balancer_tags(cloud, [each["LoadBalancerArn"] for each in found])
    for each in found:
        arn = each["LoadBalancerArn"]
        yield Thing(
            kind="load balancer",
            id=arn,
            name=each["LoadBalancerName"],
            tags=tags[arn],
            vpc=each.get("VpcId", ""),
            holds=frozenset(each.get("SecurityGroups") or ()),
            part_of=frozenset({arn.partition(":loadbalancer/")[2]}),
        )


def _classic_balancers(cloud: Cloud) -> Iterator[Thing]:
    listing = "LoadBalancerDescriptions"
    found = {
        each["LoadBalancerName"]: each
        for each in cloud.pages("elb", "describe_load_balancers", listing)
    }
    for names in _batches(found):
        answer = cloud.call("elb", "describe_tags", LoadBalancerNames=names)
        for tagged in answer["TagDescriptions"]:
            each = found[tagged["LoadBalancerName"]]
            yield Thing(
                kind="classic load balancer",
                id=each["LoadBalancerName"],
                name=each["LoadBalancerName"],
                tags=tags_of(tagged["Tags"]),
                vpc=each.get("VPCId", ""),
                busy=_classic_use(cloud, each),
                holds=frozenset(each.get("SecurityGroups") or ()),
                part_of=frozenset({each["LoadBalancerName"]}),
            )


def _classic_use(cloud: Cloud, each: Mapping[str, Any]) -> str:
    if not each.get("Instances"):
        return ""
    name = each["LoadBalancerName"]
    states = cloud.call("elb", "describe_instance_health", LoadBalancerName=name)
    healthy = [one for one in states["InstanceStates"] if one["State"] == "InService"]
    return f"{len(healthy)} instances in service behind it" if healthy else ""


def _target_groups(cloud: Cloud) -> Iterator[Thing]:
    found = list(cloud.pages("elbv2", "describe_target_groups", "TargetGroups"))
    tags = _balancer_tags(cloud, [each["TargetGroupArn"] for each in found])
    for each in found:
        arn = each["TargetGroupArn"]
        health = cloud.call("elbv2", "describe_target_health", TargetGroupArn=arn)
        states = [one["TargetHealth"]["State"] for one in health["TargetHealthDescriptions"]]
        serving = states.count("healthy")
        yield Thing(
            kind="target group",
            id=arn,
            name=each["TargetGroupName"],
            tags=tags[arn],
            vpc=each.get("VpcId", ""),
            busy=f"{serving} healthy targets" if serving else "",
            part_of=frozenset(each.get("LoadBalancerArns") or ()),
        )


def _interfaces(cloud: Cloud) -> Iterator[Thing]:
    for each in cloud.pages("ec2", "describe_network_interfaces", "NetworkInterfaces"):
        attached = (each.get("Attachment") or {}).get("InstanceId", "")
        free = each["Status"] == "available"
        text = each.get("Description", "")
        balancer = text.removeprefix(_BALANCER_INTERFACE) if _BALANCER_INTERFACE in text else ""
        yield Thing(
            kind="network interface",
            id=each["NetworkInterfaceId"],
            name=text,
            tags=tags_of(each.get("TagSet")),
            vpc=each.get("VpcId", ""),
            busy="" if free else f"{each['Status']} {attached}".strip(),
            holds=frozenset(group["GroupId"] for group in each.get("Groups") or ()),
            part_of=frozenset({balancer} - {""}),
            made_by_aws=bool(each.get("RequesterManaged")),
        )


def _groups(cloud: Cloud) -> Iterator[Thing]:
    for each in cloud.pages("ec2", "describe_security_groups", "SecurityGroups"):
        yield Thing(
            kind="security group",
            id=each["GroupId"],
            name=each["GroupName"],
            tags=tags_of(each.get("Tags")),
            vpc=each.get("VpcId", ""),
            made_by_aws=each["GroupName"] == "default",
        )


def _rules(cloud: Cloud) -> Iterator[Thing]:
    """Rules that refer to another group, which cannot be deleted while they do."""
    for each in cloud.pages("ec2", "describe_security_group_rules", "SecurityGroupRules"):
        referred = (each.get("ReferencedGroupInfo") or {}).get("GroupId")
        if referred and referred != each["GroupId"]:
            yield Thing(
                kind="firewall rule",
                id=each["SecurityGroupRuleId"],
                name="egress" if each.get("IsEgress") else "ingress",
                tags=tags_of(each.get("Tags")),
                holds=frozenset({referred}),
                part_of=frozenset({each["GroupId"]}),
            )


def _volumes(cloud: Cloud) -> Iterator[Thing]:
    for each in cloud.pages("ec2", "describe_volumes", "Volumes"):
        tags = tags_of(each.get("Tags"))
        free = each["State"] == "available"
        instances = [one.get("InstanceId", "") for one in each.get("Attachments") or ()]
        yield Thing(
            kind="volume",
            id=each["VolumeId"],
            name=tags.get("kubernetes.io/created-for/pvc/name", tags.get("Name", "")),
            tags=tags,
            busy="" if free else " ".join([each["State"], *instances]),
        )


def _balancer_tags(cloud: Cloud, arns: Iterable[str]) -> dict[str, dict[str, str]]:
    return {
        each["ResourceArn"]: tags_of(each["Tags"])
        for batch in _batches(arns)
        for each in cloud.call("elbv2", "describe_tags", ResourceArns=batch)["TagDescriptions"]
    }


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while batch := list(islice(rest, _TAGS_AT_ONCE)):
        yield batch
