"""A KMS key under an alias, with the policy that was decided for it."""

from __future__ import annotations

import pulumi
from pulumi_aws import kms

from tokenworks.components.aws.documents import document
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import KeyPlan

DELETION_WINDOW_DAYS = 30
"""The longest there is: what the key encrypted is lost with it."""


class Key(Owned):
    """A key that is rotated every year and found by its alias."""

    arn: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        plan: KeyPlan,
        tags: Tags,
        *,
        protect: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Key", name, tags, opts)
        key = kms.Key(
            f"{name}-key",
            description=plan.description,
            policy=document(plan.policy),
            enable_key_rotation=True,
            deletion_window_in_days=DELETION_WINDOW_DAYS,
            tags=self.named(plan.name),
            opts=self.child(protect=protect),
        )
        kms.Alias(
            f"{name}-alias",
            name=plan.alias,
            target_key_id=key.key_id,
            opts=self.child(protect=protect),
        )
        self.arn = key.arn
        self.register_outputs({"arn": self.arn})
