"""An EKS control plane that only the network's own addresses reach, and who may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import cloudwatch, eks, iam

from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.components.aws.role import Role
from tokenworks.plan.aws.types import AccessPlan, EksPlan

CONTROL_PLANE_GROUP = "control-plane"


@dataclass(frozen=True, kw_only=True)
class ControlPlaneArgs:
    """The cluster as planned, where its interfaces are, and the keys of Secrets and of logs."""

    plan: EksPlan
    subnet_ids: Sequence[pulumi.Input[str]]
    group_id: pulumi.Input[str]
    secrets_key_arn: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str]
    tags: Tags


class ControlPlane(Owned):
    """The cluster with its access entries; whoever waits for it waits for both."""

    cluster: eks.Cluster

    def __init__(
        self, name: str, args: ControlPlaneArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ControlPlane", name, args.tags, opts)
        self._name, self._args = name, args
        self.cluster = self._cluster(self._logs())
        for access in args.plan.access:
            self._access(access)
        self.register_outputs({"name": self.cluster.name, "endpoint": self.cluster.endpoint})

    @property
    def group_id(self) -> pulumi.Output[str]:
        """The security group that EKS makes for the control plane and all nodes."""
        return self.cluster.vpc_config.cluster_security_group_id

    @property
    def certificate_authority(self) -> pulumi.Output[str]:
        """The authority of the API server's certificate, in base64."""
        return self.cluster.certificate_authority.data

    def _logs(self) -> cloudwatch.LogGroup:
        """Made before EKS would make it itself, without end and without a key of ours."""
        name = f"/aws/eks/{self._args.plan.name}/cluster"
        return cloudwatch.LogGroup(
            f"{self._name}-logs",
            name=name,
            retention_in_days=self._args.plan.log_retention_days,
            kms_key_id=self._args.logs_key_arn,
            tags=self.named(name),
            opts=self.child(),
        )

    def _cluster(self, logs: cloudwatch.LogGroup) -> eks.Cluster:
        plan = self._args.plan
        role = Role(self._name, plan.role, self.tags, opts=self.child())
        return eks.Cluster(
            f"{self._name}-cluster",
            name=plan.name,
            version=plan.version,
            role_arn=role.arn,
            vpc_config={
                "subnet_ids": list(self._args.subnet_ids),
                "security_group_ids": [self._args.group_id],
                "endpoint_private_access": True,
                "endpoint_public_access": False,
            },
            access_config={
                "authentication_mode": "API",
                # Whoever made the cluster would have an entry that nobody planned
                # (terraform-aws-eks#2968).
                "bootstrap_cluster_creator_admin_permissions": False,
            },
            # Add-ons are resources of ours, at exact versions; a flip of either flag later would
            # replace the cluster (terraform-provider-aws#35824).
            bootstrap_self_managed_addons=False,
            encryption_config={
                "provider": {"key_arn": self._args.secrets_key_arn},
                "resources": ["secrets"],
            },
            enabled_cluster_log_types=sorted(plan.log_types),
            kubernetes_network_config={
                "ip_family": "ipv4",
                "service_ipv4_cidr": plan.service_cidr,
            },
            # The default is extended support, which is paid for by the hour.
            upgrade_policy={"support_type": "STANDARD"},
            zonal_shift_config={"enabled": True},
            deletion_protection=plan.protected,
            tags=self.named(plan.name),
            opts=self.child([role, logs], protect=plan.protected),
        )

    def _access(self, access: AccessPlan) -> None:
        """An entry, and what it allows; an entry of a role that was made anew is made anew."""
        short = access.principal.rpartition("/")[2]
        entry = eks.AccessEntry(
            f"{self._name}-{short}-entry",
            cluster_name=self.cluster.name,
            principal_arn=access.principal,
            type="STANDARD",
            tags=self.named(short),
            opts=self.child(replacement_trigger=self._identity(access.principal)),
        )
        policy = access.policy.rpartition("/")[2]
        eks.AccessPolicyAssociation(
            f"{self._name}-{short}-{policy}",
            cluster_name=self.cluster.name,
            principal_arn=entry.principal_arn,
            policy_arn=access.policy,
            access_scope=_scope(access),
            opts=self.child([entry], delete_before_replace=True),
        )

    def _identity(self, principal: str) -> pulumi.Output[str]:
        """What tells a role from one of the same name that was deleted (terraform-aws-eks#3329)."""
        if ":role/" not in principal:
            return pulumi.Output.from_input(principal)
        role = iam.get_role_output(
            name=principal.rpartition("/")[2], opts=pulumi.InvokeOutputOptions(parent=self)
        )
        return role.unique_id


def _scope(access: AccessPlan) -> eks.AccessPolicyAssociationAccessScopeArgs:
    if not access.namespaces:
        return eks.AccessPolicyAssociationAccessScopeArgs(type="cluster")
    return eks.AccessPolicyAssociationAccessScopeArgs(
        type="namespace", namespaces=sorted(access.namespaces)
    )
