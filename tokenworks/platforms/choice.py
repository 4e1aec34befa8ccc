"""The parts that differ by platform, chosen once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pulumi

from tokenworks.plan.aws.types import AwsPlan
from tokenworks.plan.types import ClusterPlan, Plan
from tokenworks.platforms import hosts, simulated
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.platforms.stacks import Stacks
from tokenworks.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class PlatformParts:
    """The way to the cluster, its load balancers, and the gateway's certificate with its key.

    Each is made when it is asked for: not every program has a cluster yet.
    """

    stacks: Stacks
    provider: Callable[[], pulumi.ProviderResource]
    load_balancer: Callable[[], LoadBalancer]
    certificate: Callable[[], tuple[str, pulumi.Output[str]]]


def platform_parts(workspace: Workspace, plan: Plan) -> PlatformParts:
    """Return the parts of the plan's platform."""
    stacks = Stacks(plan.environment)
    if plan.aws is not None:
        return _aws(workspace, stacks, plan.aws)
    if plan.cluster is not None:
        return _hosts(workspace, stacks, plan.cluster)
    return _simulated(workspace, stacks)


def _aws(workspace: Workspace, stacks: Stacks, cloud: AwsPlan) -> PlatformParts:
    from tokenworks.platforms import aws  # its SDK is large, and other platforms need none of it

    return PlatformParts(
        stacks=stacks,
        provider=lambda: aws.from_stack(stacks.of("cluster"), cloud),
        load_balancer=lambda: aws.load_balancer(stacks.of("cluster"), cloud),
        certificate=lambda: aws.certificate(workspace, cloud),
    )


def _hosts(workspace: Workspace, stacks: Stacks, cluster: ClusterPlan) -> PlatformParts:
    return PlatformParts(
        stacks=stacks,
        provider=lambda: hosts.provider(cluster),
        load_balancer=lambda: hosts.load_balancer(cluster),
        certificate=lambda: hosts.certificate(workspace, cluster),
    )


def _simulated(workspace: Workspace, stacks: Stacks) -> PlatformParts:
    def certificate() -> tuple[str, pulumi.Output[str]]:
        chain, private_key = simulated.certificate(workspace, stacks.environment)
        return chain, pulumi.Output.secret(private_key)

    return PlatformParts(
        stacks=stacks,
        provider=lambda: simulated.provider(workspace, stacks.environment),
        load_balancer=lambda: simulated.LOAD_BALANCER,
        certificate=certificate,
    )
