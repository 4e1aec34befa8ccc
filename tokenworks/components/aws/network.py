"""A VPC without any way in from the internet: subnets, routes, flow logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_aws import cloudwatch, ec2

from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.components.aws.role import Role
from tokenworks.plan.aws.types import NetworkPlan, SubnetPlan


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """The network as planned, and the name under which it is shown."""

    title: str
    plan: NetworkPlan
    tags: Tags


class Network(Owned):
    """A VPC with its subnets; ``subnet_ids`` is by the plan's names of subnets."""

    vpc_id: pulumi.Output[str]
    subnet_ids: dict[str, pulumi.Output[str]]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Network", name, args.tags, opts)
        self._args = args
        vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.plan.cidr,
            # Private names of endpoints and of the control plane need both (EKS user guide,
            # network-reqs).
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self.named(args.title),
            opts=self.child(),
        )
        self.vpc_id = vpc.id
        ec2.DefaultSecurityGroup(
            f"{name}-default-group",
            vpc_id=vpc.id,
            tags=self.named(f"{args.title}-unused"),
            opts=self.child(),
        )
        self.subnet_ids = {one.name: self._subnet(one).id for one in args.plan.subnets}
        self._flow_logs(name)
        self.register_outputs({"vpc_id": self.vpc_id, "subnet_ids": self.subnet_ids})

    def _subnet(self, subnet: SubnetPlan) -> ec2.Subnet:
        return ec2.Subnet(
            subnet.name,
            vpc_id=self.vpc_id,
            cidr_block=subnet.cidr,
            availability_zone_id=subnet.zone_id,
            # A NAT gateway brings its own address; nothing else starts in a public subnet.
            map_public_ip_on_launch=False,
            tags=self.named(subnet.name, subnet.tags),
            opts=self.child(),
        )

    def _flow_logs(self, name: str) -> None:
        title, plan = self._args.title, self._args.plan
        group = cloudwatch.LogGroup(
            f"{name}-flow-log-group",
            name=f"/{title}/flow-logs",
            retention_in_days=plan.flow_log_retention_days,
            tags=self.named(f"{title}-flow-logs"),
            opts=self.child(),
        )
        role = Role(
            f"{name}-flow-logs",
            plan.flow_log_role,
            self.tags,
            {"flow_log_group_arn": group.arn},
            self.child(),
        )
        ec2.FlowLog(
            f"{name}-flow-log",
            vpc_id=self.vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            tags=self.named(f"{title}-flow-log"),
            opts=self.child([role]),
        )


def subnet_names(plan: NetworkPlan, role: str) -> Mapping[str, str]:
    """Names of the subnets of a role by their zone."""
    return {one.zone_id: one.name for one in plan.subnets if one.role == role}
