"""How a GPU node comes by a public address: by template, by subnet, by itself, or afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type, bodies, by_reference, truth
from policy.estate import Estate
from policy.objects import is_kubernetes, objects_in
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Fault, Verdict

Keys = tuple[str | int, ...]

# Families with GPUs or accelerators that serve models (aws.amazon.com/ec2/instance-types).
_GPU_INSTANCE: Final = re.compile(r"(?:p|g|gr|dl|inf|trn)[0-9][a-z0-9-]*\.[a-z0-9-]+")
_TEMPLATES: Final = frozenset(
    {"ec2.LaunchTemplate", "ec2.LaunchConfiguration", "autoscaling.LaunchConfiguration"}
)
_INSTANCES: Final = frozenset({"ec2.Instance", "ec2.SpotInstanceRequest"})
_SUBNETS: Final = frozenset({"ec2.Subnet", "ec2.DefaultSubnet"})
_GROUPS: Final = frozenset(
    {
        "eks.NodeGroup",
        "eks.Nodegroup",
        "autoscaling.Group",
        "autoscaling.AutoScalingGroup",
        "eks-component.ManagedNodeGroup",
        "eks-component.NodeGroup",
        "eks-component.NodeGroupV2",
    }
)
_ADDRESSES: Final = frozenset({"ec2.Eip", "ec2.EipAssociation", "ec2.EIP", "ec2.EIPAssociation"})
TYPES: Final = _TEMPLATES | _INSTANCES | _SUBNETS | _GROUPS | _ADDRESSES

_ASSIGNS: Final = ("associatePublicIpAddress", "nodeAssociatePublicIpAddress")
_MAPS: Final = "mapPublicIpOnLaunch"
_IN_SUBNETS: Final = (
    "subnetIds",
    "subnets",
    "nodeSubnetIds",
    "vpcZoneIdentifiers",
    "vpcZoneIdentifier",
    "subnetId",
)
_REMEDY: Final = "keep nodes in private subnets, and let a NAT gateway take them out"


def is_concerned(type_token: str) -> bool:
    """Return whether a type token is of something that may give a node a public address."""
    return aws_type(type_token) in TYPES or is_kubernetes(type_token)


def public_address_faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each way in which a GPU node gets, or may get, a public address."""
    kind = aws_type(resource.type)
    if kind in _SUBNETS:
        yield from _subnet_faults(resource.properties)
    elif kind in _ADDRESSES:
        yield from _attached_faults(resource, estate)
    elif kind:
        if _is_gpu_node(resource.properties) is not False:
            yield from _assigned_faults(resource.properties)
            yield from _placed_faults(resource, estate)
    else:
        yield from _node_class_faults(resource)


def _is_gpu_node(properties: Body) -> bool | None:
    """Return whether instances have a GPU; None where nobody says of which type they are."""
    types = list(_instance_types(properties))
    if not types or UNKNOWN in types:
        return None
    return any(isinstance(one, str) and _GPU_INSTANCE.fullmatch(one) for one in types)


def _instance_types(properties: Body) -> Iterator[Value]:
    for body in (properties, properties.get("launchTemplateData")):
        one = peek(body, "instanceType")
        if one is not None:
            yield one
        several = peek(body, "instanceTypes")
        if several is UNKNOWN:
            yield UNKNOWN
        yield from (one for _, one in elements(several))


def _assigned_faults(properties: Body) -> Iterator[Fault]:
    """Yield a fault for each place that asks for a public address."""
    data = properties.get("launchTemplateData")
    if data is UNKNOWN:
        yield _fault(("launchTemplateData",), UNKNOWN, "a node")
    places: list[tuple[Keys, Value]] = [((), properties), (("launchTemplateData",), data)]
    for keys, body in places:
        interfaces = peek(body, "networkInterfaces")
        if interfaces is UNKNOWN and body is not UNKNOWN:
            yield _fault((*keys, "networkInterfaces"), UNKNOWN, "a node")
        for more, one in ((keys, body), *bodies(interfaces, *keys, "networkInterfaces")):
            for name in _ASSIGNS:
                given = one.get(name) if is_body(one) else None
                if given is UNKNOWN or truth(given) is True:
                    yield _fault((*more, name), given, "a node")


def _subnet_faults(subnet: Body) -> Iterator[Fault]:
    given = subnet.get(_MAPS)
    if given is UNKNOWN or truth(given) is True:
        yield _fault((_MAPS,), given, "whatever starts in the subnet")


def _placed_faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for each subnet of the estate that gives nodes addresses, and is used here."""
    if _says_no(resource.properties):
        return
    for keys, reference in _subnets_of(resource.properties):
        subnet = by_reference(estate).get(reference) if isinstance(reference, str) else None
        if subnet is None or aws_type(subnet.type) not in _SUBNETS:
            continue
        maps = subnet.properties.get(_MAPS)
        if maps is UNKNOWN or truth(maps) is True:
            unknown = maps is UNKNOWN
            yield Fault(
                key=key_path(*keys),
                given=reference,
                reason=f"{'may give' if unknown else 'gives'} each of its nodes a public address",
                remedy=_REMEDY,
                verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
            )


def _says_no(properties: Body) -> bool:
    """Return whether an instance refuses the address that its subnet would give it."""
    return any(truth(properties.get(name)) is False for name in _ASSIGNS)


def _subnets_of(properties: Body) -> Iterator[tuple[Keys, Value]]:
    for name in _IN_SUBNETS:
        given = properties.get(name)
        if isinstance(given, str):
            yield (name,), given
        for index, one in elements(given):
            yield (name, index), one


def _attached_faults(address: Resource, estate: Estate) -> Iterator[Fault]:
    """Yield a fault for an address that is given to an instance with GPUs."""
    for name in ("instance", "instanceId"):
        reference = address.properties.get(name)
        instance = by_reference(estate).get(reference) if isinstance(reference, str) else None
        if instance is None or aws_type(instance.type) not in _INSTANCES:
            continue
        if _is_gpu_node(instance.properties) is not False:
            yield _fault((name,), reference, "a node")


def _node_class_faults(resource: Resource) -> Iterator[Fault]:
    """Judge Karpenter's node class (karpenter.sh/docs/concepts/nodeclasses)."""
    for thing in objects_in(resource):
        if thing.kind == "EC2NodeClass" and thing.group == "karpenter.k8s.aws":
            given = peek(thing.body, "spec", "associatePublicIPAddress")
            if given is UNKNOWN or truth(given) is True:
                keys = (*thing.keys, "spec", "associatePublicIPAddress")
                yield _fault(keys, given, "a node")


def _fault(keys: Keys, given: Value, whom: str) -> Fault:
    unknown = given is UNKNOWN
    return Fault(
        key=key_path(*keys),
        given=given,
        reason=f"{'may give' if unknown else 'gives'} {whom} a public address",
        remedy=_REMEDY,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )
