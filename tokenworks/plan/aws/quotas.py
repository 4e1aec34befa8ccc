"""Which service quotas an environment needs, and how much of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tokenworks.facts import aws_quotas
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.facts.aws_quotas import Quota
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.types import ImagePlan, NetworkPlan, NodeGroupPlan, QuotaNeed

SURGE = 2
"""Nodes that EKS starts beyond a group's size while it updates it: twice the number of its zones
(docs.aws.amazon.com/eks, managed-node-update-behavior)."""


def family_quota(instance: str) -> Quota:
    """The quota that an instance type counts against: P, G and VT, or all the others."""
    if instance.startswith("p"):
        return aws_quotas.P_INSTANCES
    return aws_quotas.G_INSTANCES if instance.startswith("g") else aws_quotas.STANDARD_INSTANCES


def vcpu_needs(groups: Iterable[NodeGroupPlan], images: Iterable[ImagePlan]) -> Iterator[QuotaNeed]:
    """Processors of each family; those of capacity blocks are paid ahead and count nowhere.

    Reservations count as if they ran on demand (docs.aws.amazon.com/ec2, capacity reservations).
    """
    sums: dict[Quota, int] = defaultdict(int)
    reasons: dict[Quota, list[str]] = defaultdict(list)
    for group in groups:
        if group.capacity.kind == "CAPACITY_BLOCK":
            continue
        vcpus, quota = aws_instances()[group.instance].vcpus, family_quota(group.instance)
        extra = SURGE if group.update_strategy == "DEFAULT" else 0
        sums[quota] += (group.nodes + extra) * vcpus
        more = f" and {extra} while it updates" if extra else ""
        reasons[quota].append(f"{group.nodes} x {group.instance}{more} ({vcpus} vCPU each)")
    for image in images:
        vcpus, quota = (
            aws_instances()[image.builder_instance].vcpus,
            family_quota(image.builder_instance),
        )
        sums[quota] += vcpus
        reasons[quota].append(f"{image.builder_instance} that builds {image.name}")
    for quota, needed in sums.items():
        yield _need(quota, needed, "; ".join(reasons[quota]))


def quota_needs(
    case: AwsCase,
    network: NetworkPlan,
    groups: tuple[NodeGroupPlan, ...],
    images: tuple[ImagePlan, ...],
) -> tuple[QuotaNeed, ...]:
    """Every quota that the environment takes from."""
    zones = len(case.section.network.zones)
    needs = list(vcpu_needs(groups, images))
    if network.egress.value == "nat":
        needs += [
            _need(aws_quotas.ADDRESSES, zones, "one for each NAT gateway"),
            _need(aws_quotas.NAT_GATEWAYS, 1, "one in each zone"),
        ]
    interfaces = sum(1 for endpoint in network.endpoints if endpoint.kind == "Interface")
    needs += [
        _need(aws_quotas.NETWORKS, 1, "the environment has a network of its own"),
        _need(aws_quotas.ENDPOINTS, interfaces, "AWS services are reached inside the network"),
        _need(aws_quotas.BALANCERS, 1, "the gateway's"),
        _need(aws_quotas.CLUSTERS, 1, "the environment's"),
    ]
    if case.section.weights.file_system == "fsx-lustre":
        needs.append(_need(aws_quotas.LUSTRE, 1, "weights lie there"))
    return tuple(needs)


def _need(quota: Quota, needed: int, because: str) -> QuotaNeed:
    return QuotaNeed(
        service=quota.service,
        code=quota.code,
        name=quota.name,
        needed=needed,
        unit=quota.unit,
        because=because,
    )
