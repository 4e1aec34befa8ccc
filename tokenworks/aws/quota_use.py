"""Counting what an account uses of a quota, where the things themselves can be counted.

CloudWatch's figures come late, and not at all for what was never used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from tokenworks.aws.client import Cloud
from tokenworks.facts import aws_quotas

# docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html: which families count
# towards which quota of processors of on-demand instances.
_FAMILIES: Final = {
    aws_quotas.STANDARD_INSTANCES.code: ("a", "c", "d", "h", "i", "m", "r", "t", "z"),
    aws_quotas.P_INSTANCES.code: ("p",),
    aws_quotas.G_INSTANCES.code: ("g", "vt", "gr"),
}
_RUNNING: Final = ["pending", "running"]


def processors_used(cloud: Cloud, code: str) -> int:
    """Processors of instances that count towards a quota: on demand, and not in capacity blocks.

    Each counts with all that its type has: how many of them were turned off makes less of it.
    """
    running = {"Name": "instance-state-name", "Values": _RUNNING}
    found = cloud.pages("ec2", "describe_instances", "Reservations", Filters=[running])
    types = Counter(
        one["InstanceType"]
        for reservation in found
        for one in reservation["Instances"]
        if one.get("InstanceLifecycle") is None and family(one["InstanceType"]) == code
    )
    if not types:
        return 0
    listing = ("ec2", "describe_instance_types", "InstanceTypes")
    return sum(
        each["VCpuInfo"]["DefaultVCpus"] * types[each["InstanceType"]]
        for each in cloud.pages(*listing, InstanceTypes=sorted(types))
    )


def family(instance: str) -> str | None:
    """The quota of processors that an instance type counts towards."""
    letters = re.match(r"[a-z]+", instance.partition(".")[0])
    name = letters.group() if letters else ""
    return next((code for code, families in _FAMILIES.items() if name in families), None)


def _networks(cloud: Cloud) -> int:
    return sum(1 for _ in cloud.pages("ec2", "describe_vpcs", "Vpcs"))


def _addresses(cloud: Cloud) -> int:
    return len(cloud.call("ec2", "describe_addresses")["Addresses"])


def _network_balancers(cloud: Cloud) -> int:
    found = cloud.pages("elbv2", "describe_load_balancers", "LoadBalancers")
    return sum(1 for each in found if each["Type"] == "network")


def _clusters(cloud: Cloud) -> int:
    return sum(1 for _ in cloud.pages("eks", "list_clusters", "clusters"))


def _gateways(cloud: Cloud) -> int:
    """NAT gateways of the zone that has the most."""
    subnets = cloud.pages("ec2", "describe_subnets", "Subnets")
    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in subnets}
    alive = {"Name": "state", "Values": ["pending", "available"]}
    found = cloud.pages("ec2", "describe_nat_gateways", "NatGateways", Filters=[alive])
    counts = Counter(zones.get(each["SubnetId"], "") for each in found)
    return max(counts.values(), default=0)


def _in_our_own_network(_: Cloud) -> int:
    """Nothing: the quota is one of each network, and the environment makes its own."""
    return 0


def _lustre(cloud: Cloud) -> int:
    found = cloud.pages("fsx", "describe_file_systems", "FileSystems")
    configurations = (each.get("LustreConfiguration") or {} for each in found)
    return sum(1 for each in configurations if each.get("DeploymentType") == "PERSISTENT_2")


def _processors(code: str) -> Callable[[Cloud], int]:
    return lambda cloud: processors_used(cloud, code)


COUNTERS: Final[dict[str, Callable[[Cloud], int]]] = {
    aws_quotas.NETWORKS.code: _networks,
    aws_quotas.ADDRESSES.code: _addresses,
    aws_quotas.NAT_GATEWAYS.code: _gateways,
    aws_quotas.ENDPOINTS.code: _in_our_own_network,
    aws_quotas.BALANCERS.code: _network_balancers,
    aws_quotas.CLUSTERS.code: _clusters,
    aws_quotas.LUSTRE.code: _lustre,
    **{code: _processors(code) for code in _FAMILIES},
}
"""By the code of a quota, how much of it the account uses."""
