"""What every program of platform aws is given besides: its account, its tags, other programs."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from tokenworks.errors import OperationError
from tokenworks.naming import cluster_name
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.platforms import aws
from tokenworks.programs.context import Context


@dataclass(frozen=True, kw_only=True)
class Account:
    """One account and region, proven to be the environment's, for one program."""

    plan: AwsPlan
    title: str
    tags: dict[str, str]
    provider: pulumi.ProviderResource

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """Options of every component at the top of a program."""
        return pulumi.ResourceOptions(providers=[self.provider])


def account(context: Context, program: str) -> Account:
    """The environment's account; nothing else may be registered before it.

    Raises:
        OperationError: the environment is of another platform, or the credentials of another
            account.
    """
    plan = context.plan.aws
    if plan is None:
        raise OperationError(
            f"program {program} of {context.plan.environment}",
            reason=f"platform {context.plan.platform} has no AWS account",
            remedy="run it for an environment of platform aws",
        )
    return Account(
        plan=plan,
        title=cluster_name(context.plan.environment),
        tags=aws.tags(plan, program),
        provider=aws.provider(plan),
    )
