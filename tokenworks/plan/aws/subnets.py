"""Which addresses each subnet gets, and whether they are enough.

A network is cut into eight equal slices. Slice ``i`` of the first six holds the nodes and pods of
the ``i``-th zone; the seventh is cut by eight again for control plane, endpoints and load balancer
of each zone, the eighth for NAT gateways. A zone that is added at the end changes no other subnet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ipaddress import IPv4Network

from tokenworks.facts.aws_instances import AwsInstance
from tokenworks.plan.aws.types import SubnetPlan, SubnetRole

LARGEST_PREFIX, SMALLEST_PREFIX = 16, 20
"""A VPC has at most a /16 (docs.aws.amazon.com/vpc, VPC CIDR blocks); below a /20 an access subnet
would be smaller than a /26, and hold fewer than its endpoints and interfaces."""
SLICE_BITS = 3
MOST_ZONES = 6
_ACCESS_SLICE, _PUBLIC_SLICE = 6, 7

TAKEN_BY_AWS = 5
"""Addresses of each subnet that AWS keeps: docs.aws.amazon.com/vpc, subnet CIDR blocks."""
CONTROL_PLANE_ADDRESSES = 16
"""Free addresses that EKS advises for its interfaces: EKS user guide, network-reqs."""
BALANCER_ADDRESSES = 8
"""Free addresses below which the controller passes a subnet over: its guide, subnet_discovery."""
WARM_ADDRESSES = 5
"""Addresses that the VPC CNI holds ready on each node; ``WARM_IP_TARGET`` in its add-on."""
MOST_PODS = 110
"""Pods on a node that Kubernetes is tested with: kubernetes.io, large clusters."""


def slices(cidr: str) -> tuple[IPv4Network, ...]:
    """The eight equal parts of a network, in order."""
    return tuple(IPv4Network(cidr).subnets(prefixlen_diff=SLICE_BITS))


def subnets(
    prefix: str, cluster: str, cidr: str, zones: Sequence[str], *, with_public: bool
) -> tuple[SubnetPlan, ...]:
    """Subnets of every zone, by role and then by zone.

    Load balancers are put into ``access`` subnets by the tag that their controller looks for.
    """
    parts = slices(cidr)
    access = tuple(parts[_ACCESS_SLICE].subnets(prefixlen_diff=SLICE_BITS))
    public = tuple(parts[_PUBLIC_SLICE].subnets(prefixlen_diff=SLICE_BITS))
    roles: list[tuple[SubnetRole, Sequence[IPv4Network], dict[str, str]]] = [
        ("nodes", parts, {}),
        (
            "access",
            access,
            {"kubernetes.io/role/internal-elb": "1", f"kubernetes.io/cluster/{cluster}": "shared"},
        ),
    ]
    if with_public:
        roles.append(("public", public, {}))
    return tuple(
        SubnetPlan(
            name=f"{prefix}-{role}-{zone}",
            role=role,
            zone_id=zone,
            cidr=str(networks[index]),
            tags={"tokenworks:subnet": role, **tags},
        )
        for role, networks, tags in roles
        for index, zone in enumerate(zones)
    )


def usable(cidr: str) -> int:
    """Addresses of a subnet that anything may have."""
    return IPv4Network(cidr).num_addresses - TAKEN_BY_AWS


def pods_of(shape: AwsInstance, *, with_efa: bool) -> int:
    """Pods that one node can give an address, at most the number that Kubernetes is tested with.

    An EFA-only interface on network card 0 takes the place of one that would hold pods.
    """
    interfaces = shape.card0_interfaces - (1 if with_efa and _efa_on_card_0(shape) else 0)
    return min(MOST_PODS, interfaces * (shape.addresses_per_interface - 1) + 2)


def _efa_on_card_0(shape: AwsInstance) -> bool:
    return shape.efa >= shape.network_cards


def addresses_of(shape: AwsInstance, pods: int) -> int:
    """Addresses that one node takes at most: its pods', those held ready, and its interfaces'."""
    interfaces = math.ceil(pods / (shape.addresses_per_interface - 1))
    most = shape.card0_interfaces * shape.addresses_per_interface
    return min(most, pods + WARM_ADDRESSES + interfaces)


def smallest_vpc(most_needed: int) -> int | None:
    """Prefix of the smallest VPC whose node subnets hold so many addresses; None if none does."""
    for prefix in range(SMALLEST_PREFIX, LARGEST_PREFIX - 1, -1):
        if 2 ** (32 - prefix - SLICE_BITS) - TAKEN_BY_AWS >= most_needed:
            return prefix
    return None
