"""What pods may do in AWS: a role for one service account, taken by Pod Identity."""

from __future__ import annotations

import pulumi
from pulumi_aws import eks

from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.components.aws.role import Role
from tokenworks.plan.aws.types import PodRolePlan


class PodRole(Owned):
    """A role and its association; pods that start before it have no credentials.

    Whoever runs such pods waits for this (eks-pod-identity-agent#52).
    """

    namespace: str

    def __init__(
        self,
        name: str,
        plan: PodRolePlan,
        cluster: pulumi.Input[str],
        tags: Tags,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("PodRole", name, tags, opts)
        role = Role(name, plan.role, tags, opts=self.child())
        eks.PodIdentityAssociation(
            f"{name}-association",
            cluster_name=cluster,
            namespace=plan.namespace,
            service_account=plan.service_account,
            role_arn=role.arn,
            # Policies are bound to the cluster by session tags (AmazonEBSCSIDriverEKS...Policy).
            disable_session_tags=False,
            tags=self.named(f"{plan.namespace}-{plan.service_account}"),
            opts=self.child([role]),
        )
        self.namespace = plan.namespace
        self.register_outputs({})
