"""The control plane: version, rights, logs."""

from __future__ import annotations

from tokenworks.plan.aws import iam
from tokenworks.plan.aws.add_ons import add_ons
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.types import AccessPlan, EksPlan

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
LOG_DAYS = 365
"""A year: audit logs are asked for long after what they tell of."""
POLICIES = "arn:aws:eks::aws:cluster-access-policy/"
ADMINISTRATOR, READER = "AmazonEKSClusterAdminPolicy", "AmazonEKSViewPolicy"
"""docs.aws.amazon.com/eks, access-policy-permissions; the view policy leaves Secrets out."""


def eks_plan(case: AwsCase) -> EksPlan:
    """Everything about the control plane; nodes get their entry from EKS itself.

    An entry of ours for the node role would stand in its way (terraform-aws-eks#2968).
    """
    access = case.section.access
    return EksPlan(
        name=case.prefix,
        version=case.section.kubernetes_version,
        support_ends=case.support.support_ends,
        service_cidr=case.section.network.service_cidr,
        log_types=LOG_TYPES,
        log_retention_days=LOG_DAYS,
        role=iam.cluster_role(case),
        node_role=iam.node_role(case),
        add_ons=add_ons(case),
        pod_roles=iam.pod_roles(case),
        access=(
            _access(access.deployer, ADMINISTRATOR),
            *(_access(reader, READER) for reader in access.readers),
        ),
        deployer_role=access.deployer,
        protected=case.section.protected,
    )


def _access(principal: str, policy: str) -> AccessPlan:
    return AccessPlan(principal=principal, policy=f"{POLICIES}{policy}", namespaces=())
