"""What every program is given: the checkout, the plan, and the way to its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pulumi

from tokenworks.naming import labels
from tokenworks.plan.types import Plan
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What the gateway shows its callers, and the key that proves it."""

    chain: str
    private_key: pulumi.Output[str]


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run of one program; the certificate is read only by the program that needs it."""

    workspace: Workspace
    plan: Plan
    provider: pulumi.ProviderResource
    load_balancer: LoadBalancer
    certificate: Callable[[], Certificate]

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """Options of every component at the top of a program."""
        return pulumi.ResourceOptions(providers=[self.provider])

    def labels(self, name: str, role: str, model: str | None = None) -> Mapping[str, str]:
        """Labels of objects that belong to one part of this environment."""
        return labels(self.plan.environment, name=name, role=role, model=model)
