"""The parts that differ by platform, chosen once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pulumi

from tokenworks.plan.types import Plan
from tokenworks.platforms import hosts, simulated
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class PlatformParts:
    """The way to the cluster, its load balancers, and the gateway's certificate with its key."""

    provider: pulumi.ProviderResource
    load_balancer: LoadBalancer
    certificate: Callable[[], tuple[str, pulumi.Output[str]]]


def platform_parts(workspace: Workspace, plan: Plan) -> PlatformParts:
    """Return the parts of the plan's platform; the certificate is read once it is asked for."""
    cluster = plan.cluster
    if cluster is not None:
        return PlatformParts(
            provider=hosts.provider(cluster),
            load_balancer=hosts.load_balancer(cluster),
            certificate=lambda: hosts.certificate(workspace, cluster),
        )

    def local() -> tuple[str, pulumi.Output[str]]:
        chain, private_key = simulated.certificate(workspace, plan.environment)
        return chain, pulumi.Output.secret(private_key)

    return PlatformParts(
        provider=simulated.provider(workspace, plan.environment),
        load_balancer=simulated.LOAD_BALANCER,
        certificate=local,
    )
