"""An IAM role with nothing inline: every policy is a resource that others can wait for."""

from __future__ import annotations

import pulumi
from pulumi_aws import iam

from tokenworks.components.aws.documents import Late, document
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import RolePlan


class Role(Owned):
    """A role with its policies; whoever waits for it waits for all of them.

    The services that use a role clean up behind themselves with it, so it must outlive them with
    every right (terraform-provider-aws#30640).
    """

    arn: pulumi.Output[str]
    role_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        plan: RolePlan,
        tags: Tags,
        late: Late | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Role", name, tags, opts)
        role = iam.Role(
            f"{name}-role",
            name=plan.name,
            description=plan.because,
            assume_role_policy=document(plan.trust, late),
            tags=self.named(plan.name),
            opts=self.child(),
        )
        for arn in plan.managed_policies:
            iam.RolePolicyAttachment(
                f"{name}-{arn.rpartition('/')[2]}",
                role=role.name,
                policy_arn=arn,
                opts=self.child(),
            )
        for policy, body in plan.policies.items():
            iam.RolePolicy(
                f"{name}-{policy}",
                name=policy,
                role=role.name,
                policy=document(body, late),
                opts=self.child(),
            )
        self.arn, self.role_name = role.arn, role.name
        self.register_outputs({"arn": self.arn})
