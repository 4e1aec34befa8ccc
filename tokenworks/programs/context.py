"""What every program is given: the checkout, the plan, and the way to its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pulumi

from tokenworks.naming import labels
from tokenworks.plan.aws.types import ChartPlan
from tokenworks.plan.types import Plan
from tokenworks.platforms.choice import PlatformParts
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What the gateway shows its callers, and the key that proves it."""

    chain: str
    private_key: pulumi.Output[str]


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run of one program; each part of the platform is made for the program that needs it.

    ``chart`` returns where the archive of a chart lies.
    """

    workspace: Workspace
    plan: Plan
    parts: PlatformParts
    certificate: Callable[[], Certificate]
    chart: Callable[[ChartPlan], str]

    @cached_property
    def provider(self) -> pulumi.ProviderResource:
        """The provider of the cluster that exists."""
        return self.parts.provider()

    @property
    def load_balancer(self) -> LoadBalancer:
        """How the platform is asked for an internal load balancer."""
        return self.parts.load_balancer()

    def stack(self, program: str) -> pulumi.StackReference:
        """What another program of the environment exported."""
        return self.parts.stacks.of(program)

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """Options of every component at the top of a program."""
        return pulumi.ResourceOptions(providers=[self.provider])

    def labels(self, name: str, role: str, model: str | None = None) -> Mapping[str, str]:
        """Labels of objects that belong to one part of this environment."""
        return labels(self.plan.environment, name=name, role=role, model=model)
