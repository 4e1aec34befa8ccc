"""Resources as controllers leave them behind in an account, ours or somebody else's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.aws_fixtures import as_list, client, tagged


@dataclass(frozen=True)
class Leftovers:
    """One of each kind, by id, in a network of its own."""

    vpc: str
    balancer: str
    targets: str
    group: str
    interface: str
    volume: str
    address: str

    def missing(self) -> set[str]:
        """What of it no longer exists; the network is no part of it."""
        return {name for name, there in self._there().items() if not there}

    def _there(self) -> dict[str, bool]:
        ec2, elb = client("ec2"), client("elbv2")
        balancers = elb.describe_load_balancers()["LoadBalancers"]
        targets = elb.describe_target_groups()["TargetGroups"]
        groups = ec2.describe_security_groups()["SecurityGroups"]
        interfaces = ec2.describe_network_interfaces()["NetworkInterfaces"]
        volumes = ec2.describe_volumes()["Volumes"]
        addresses = ec2.describe_addresses()["Addresses"]
        return {
            "balancer": self.balancer in [each["LoadBalancerArn"] for each in balancers],
            "targets": self.targets in [each["TargetGroupArn"] for each in targets],
            "group": self.group in [each["GroupId"] for each in groups],
            "interface": self.interface in [each["NetworkInterfaceId"] for each in interfaces],
            "volume": self.volume in [each["VolumeId"] for each in volumes],
            "address": self.address in [each["AllocationId"] for each in addresses],
        }


SWEPT = {"balancer", "targets", "group", "interface", "volume"}


def leave_behind(cidr: str, name: str, vpc_tags: dict[str, str], tags: dict[str, str]) -> Leftovers:
    """One of each kind under the same tags, in a new network; ``name`` is that of everything."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock=cidr, TagSpecifications=_spec("vpc", vpc_tags))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=cidr)["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        VpcId=vpc, GroupName=name, Description=name, TagSpecifications=_spec("security-group", tags)
    )["GroupId"]
    interface = ec2.create_network_interface(
        SubnetId=subnet, Groups=[group], TagSpecifications=_spec("network-interface", tags)
    )["NetworkInterface"]["NetworkInterfaceId"]
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    volume = ec2.create_volume(
        AvailabilityZone=zone, Size=1, TagSpecifications=_spec("volume", tags)
    )["VolumeId"]
    balancer, targets = _balancer(name, vpc, subnet, tags)
    return Leftovers(
        vpc=vpc,
        balancer=balancer,
        targets=targets,
        group=group,
        interface=interface,
        volume=volume,
        address=ec2.allocate_address(Domain="vpc")["AllocationId"],
    )


def _balancer(name: str, vpc: str, subnet: str, tags: dict[str, str]) -> tuple[str, str]:
    elb, given = client("elbv2"), {"Tags": as_list(tags)} if tags else {}
    balancer = elb.create_load_balancer(
        Name=name, Type="network", Scheme="internal", Subnets=[subnet], **given
    )["LoadBalancers"][0]["LoadBalancerArn"]
    targets = elb.create_target_group(
        Name=name, Protocol="TCP", Port=443, VpcId=vpc, TargetType="ip", **given
    )["TargetGroups"][0]["TargetGroupArn"]
    forward = [{"Type": "forward", "TargetGroupArn": targets}]
    elb.create_listener(LoadBalancerArn=balancer, Protocol="TCP", Port=443, DefaultActions=forward)
    return balancer, targets


def _spec(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    return tagged(kind, tags) if tags else []
