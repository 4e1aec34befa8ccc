"""An EKS add-on at one exact version."""

from __future__ import annotations

import pulumi
from pulumi_aws import eks

from tokenworks.components.aws.owned import Tags
from tokenworks.plan.aws.types import AddOnPlan

PATIENCE = pulumi.CustomTimeouts(create="30m", update="30m", delete="20m")
"""Longer than the provider's own 20 minutes, which a first node may take alone."""


def add_on(
    plan: AddOnPlan,
    cluster: pulumi.Input[str],
    tags: Tags,
    opts: pulumi.ResourceOptions,
) -> eks.Addon:
    """The add-on, made after what it needs and gone before it.

    Settings are one text for one meaning, since EKS compares texts (terraform-aws-eks#3380).
    """
    return eks.Addon(
        f"add-on-{plan.name}",
        cluster_name=cluster,
        addon_name=plan.name,
        addon_version=plan.version,
        configuration_values=plan.configuration or None,
        # Whatever is there under its names is not ours; a change by hand is undone.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        preserve=False,
        tags={**tags, "Name": plan.name},
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(custom_timeouts=PATIENCE)),
    )
