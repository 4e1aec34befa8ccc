"""Ways out of a network, only as planned: NAT in each zone, a transit gateway, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2, ec2transitgateway

from tokenworks.components.aws.network import subnet_names
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import NetworkPlan

EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class RoutesArgs:
    """The network as planned, and what of it exists; ``subnet_ids`` is by the plan's names."""

    title: str
    plan: NetworkPlan
    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    tags: Tags


class Routes(Owned):
    """A route table for each subnet, so that no zone depends on another one's way out.

    ``private_table_ids`` are those of subnets that no route of the internet leads to.
    """

    private_table_ids: list[pulumi.Output[str]]

    def __init__(
        self, name: str, args: RoutesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Routes", name, args.tags, opts)
        self._args = args
        self._tables = {one.name: self._table(one.name).id for one in args.plan.subnets}
        self._private = [one.name for one in args.plan.subnets if one.role != "public"]
        self.private_table_ids = [self._tables[name] for name in self._private]
        if args.plan.egress.value == "nat":
            self._by_nat()
        if args.plan.transit_gateway is not None:
            self._by_transit_gateway(args.plan.transit_gateway)
        self.register_outputs({"private_table_ids": self.private_table_ids})

    def _table(self, subnet: str) -> ec2.RouteTable:
        table = ec2.RouteTable(
            f"{subnet}-routes",
            vpc_id=self._args.vpc_id,
            tags=self.named(subnet),
            opts=self.child(),
        )
        ec2.RouteTableAssociation(
            f"{subnet}-association",
            route_table_id=table.id,
            subnet_id=self._args.subnet_ids[subnet],
            opts=self.child(),
        )
        return table

    def _by_nat(self) -> None:
        """Nodes leave by the NAT gateway of their own zone; access subnets do not leave at all."""
        title, plan = self._args.title, self._args.plan
        gateway = ec2.InternetGateway(
            "internet-gateway",
            vpc_id=self._args.vpc_id,
            tags=self.named(title),
            opts=self.child(),
        )
        nodes = subnet_names(plan, "nodes")
        for zone, subnet in subnet_names(plan, "public").items():
            way = self._route(subnet, EVERYWHERE, {"gateway_id": gateway.id})
            nat = self._nat(zone, subnet, way)
            self._route(nodes[zone], EVERYWHERE, {"nat_gateway_id": nat.id})

    def _nat(self, zone: str, subnet: str, way_out: ec2.Route) -> ec2.NatGateway:
        title = f"{self._args.title}-{zone}"
        address = ec2.Eip(
            f"nat-{zone}-address",
            domain="vpc",
            tags=self.named(title),
            opts=self.child([way_out]),
        )
        return ec2.NatGateway(
            f"nat-{zone}",
            allocation_id=address.allocation_id,
            subnet_id=self._args.subnet_ids[subnet],
            tags=self.named(title),
            opts=self.child([way_out]),
        )

    def _by_transit_gateway(self, gateway: str) -> None:
        access = subnet_names(self._args.plan, "access").values()
        attachment = ec2transitgateway.VpcAttachment(
            "transit-gateway-attachment",
            transit_gateway_id=gateway,
            vpc_id=self._args.vpc_id,
            subnet_ids=[self._args.subnet_ids[name] for name in access],
            tags=self.named(self._args.title),
            opts=self.child(),
        )
        for subnet in self._private:
            for cidr in self._args.plan.routed_cidrs:
                self._route(subnet, cidr, {"transit_gateway_id": gateway}, attachment)

    def _route(
        self, subnet: str, cidr: str, way: Mapping[str, Any], after: pulumi.Resource | None = None
    ) -> ec2.Route:
        return ec2.Route(
            f"{subnet}-to-{cidr.replace('/', '_')}",
            route_table_id=self._tables[subnet],
            destination_cidr_block=cidr,
            opts=self.child([after] if after else []),
            **way,
        )
