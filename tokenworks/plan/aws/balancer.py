"""The internal network load balancer before the gateway: who may call it, and what pods then see.

Whether callers' addresses are preserved and where their ranges are held against them are one
decision: the controller obeys ranges for targets only while addresses are preserved
(kubernetes-sigs/aws-load-balancer-controller 3.5.0, ``docs/guide/service/annotations.md``). Health
checks come from the load balancer's own subnets even so; the controller opens security groups for
them, and NetworkPolicies are ours (kubernetes-sigs/aws-load-balancer-controller#1830).
"""

from __future__ import annotations

from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.types import BalancerPlan, NetworkPlan
from tokenworks.plan.types import Decided

CLASS = "service.k8s.aws/nlb"
PREFIX = "service.beta.kubernetes.io/aws-load-balancer-"
IDLE_SECONDS = 3600
"""Longer than any answer may take: the default of 350 s ends streams that say nothing meanwhile;
60 to 6000 are possible (docs.aws.amazon.com/elasticloadbalancing, update-idle-timeout)."""
PORT = 443


def balancer_plan(case: AwsCase, network: NetworkPlan) -> BalancerPlan:
    """Class, annotations and ranges of the gateway's Service."""
    preserves = _preserves(case)
    access = tuple(subnet.cidr for subnet in network.subnets if subnet.role == "access")
    callers = case.section.network.callers
    return BalancerPlan(
        class_name=CLASS,
        annotations=_annotations(case, preserves=preserves.value),
        source_ranges=callers,
        seen_ranges=(*callers, *access) if preserves.value else access,
        preserves_client_address=preserves,
    )


def _preserves(case: AwsCase) -> Decided[bool]:
    if case.loaded.environment.gateway.proxy_protocol:
        return Decided(
            False,
            "the PROXY protocol tells the gateway who calls; pods see the load balancer, and its "
            "security group holds callers against their ranges",
        )
    return Decided(
        True, "pods see who calls, so ranges are obeyed at the load balancer and again at the pods"
    )


def _annotations(case: AwsCase, *, preserves: bool) -> dict[str, str]:
    attributes = f"preserve_client_ip.enabled={str(preserves).lower()}"
    annotations = {
        "scheme": "internal",
        "nlb-target-type": "ip",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": attributes,
        f"listener-attributes.TCP-{PORT}": f"tcp.idle_timeout.seconds={IDLE_SECONDS}",
        "additional-resource-tags": f"{ENVIRONMENT_TAG}={case.environment}",
    }
    if not preserves:
        annotations["proxy-protocol"] = "*"
    return {f"{PREFIX}{name}": value for name, value in sorted(annotations.items())}
