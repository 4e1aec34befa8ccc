"""VPC endpoints: how nodes and pods reach AWS without any way to the internet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2

from tokenworks.components.aws.documents import document
from tokenworks.components.aws.network import subnet_names
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import EndpointPlan, NetworkPlan

ENDPOINTS_GROUP = "endpoints"


@dataclass(frozen=True, kw_only=True)
class EndpointsArgs:
    """Where endpoints are: their subnets, route tables and security group."""

    title: str
    region: str
    plan: NetworkPlan
    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    table_ids: Sequence[pulumi.Input[str]]
    group_id: pulumi.Input[str]
    tags: Tags


class Endpoints(Owned):
    """Every endpoint of the plan, with private names, open to the network's own subnets."""

    def __init__(
        self, name: str, args: EndpointsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Endpoints", name, args.tags, opts)
        self._args = args
        for endpoint in args.plan.endpoints:
            self._endpoint(endpoint)
        self.register_outputs({})

    def _endpoint(self, endpoint: EndpointPlan) -> ec2.VpcEndpoint:
        place = self._in_tables() if endpoint.kind == "Gateway" else self._in_subnets()
        return ec2.VpcEndpoint(
            f"endpoint-{endpoint.service}",
            vpc_id=self._args.vpc_id,
            service_name=f"com.amazonaws.{self._args.region}.{endpoint.service}",
            vpc_endpoint_type=endpoint.kind,
            policy=document(endpoint.policy) if endpoint.policy is not None else None,
            tags=self.named(f"{self._args.title}-{endpoint.service}"),
            opts=self.child(),
            **place,
        )

    def _in_tables(self) -> dict[str, Any]:
        return {"route_table_ids": list(self._args.table_ids)}

    def _in_subnets(self) -> dict[str, Any]:
        access = subnet_names(self._args.plan, "access").values()
        return {
            "subnet_ids": [self._args.subnet_ids[name] for name in access],
            "security_group_ids": [self._args.group_id],
            "private_dns_enabled": True,
        }
