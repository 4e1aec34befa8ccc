"""The network: addresses, endpoints, ways out, firewall."""

from __future__ import annotations

from tokenworks.plan.aws import iam
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.endpoints import endpoints
from tokenworks.plan.aws.firewall import groups, rules
from tokenworks.plan.aws.subnets import subnets
from tokenworks.plan.aws.types import NetworkPlan
from tokenworks.plan.types import Decided

FLOW_LOG_DAYS = 90
"""Long enough to look into an incident that is found late; they are of no use after that."""


def network_plan(case: AwsCase, *, builds_images: bool) -> NetworkPlan:
    """Everything about the network, of which nothing is public but NAT where that is asked for."""
    section = case.section.network
    gateway = section.transit_gateway
    routed = gateway.routes if gateway else ()
    if section.egress == "transit-gateway":
        routed = ("0.0.0.0/0",)
    return NetworkPlan(
        cidr=section.cidr,
        subnets=subnets(
            case.prefix,
            case.prefix,
            section.cidr,
            section.zones,
            with_public=section.egress == "nat",
        ),
        endpoints=endpoints(case, (case.bucket("weights"), case.bucket("transfer"))),
        egress=_egress(case),
        transit_gateway=gateway.id if gateway else None,
        routed_cidrs=routed,
        security_groups=groups(builds_images=builds_images),
        rules=rules(case, builds_images=builds_images),
        flow_log_retention_days=FLOW_LOG_DAYS,
        flow_log_role=iam.flow_log_role(case),
    )


def _egress(case: AwsCase) -> Decided[str]:
    section = case.section.network
    if section.egress == "nat":
        return Decided("nat", "a NAT gateway in each zone, so that no zone needs another one's")
    if section.egress == "transit-gateway" and section.transit_gateway is not None:
        return Decided(
            section.transit_gateway.id,
            "everything that is no address of this network goes to the transit gateway",
        )
    return Decided(
        "none", "nothing leaves the network: AWS is reached by endpoints, images by a mirror"
    )
