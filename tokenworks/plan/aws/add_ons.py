"""EKS add-ons: which, at what versions, with which settings, and before or after the nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from tokenworks.plan.aws import iam
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.subnets import WARM_ADDRESSES
from tokenworks.plan.aws.types import AddOnPlan, PodRolePlan

CSI: Final = {"fsx-lustre": "aws-fsx-csi-driver", "efs": "aws-efs-csi-driver"}
BEFORE_NODES: Final = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""Without network, services and credentials no node becomes ready; as daemons they need none."""
AFTER_NODES: Final = ("coredns", "eks-node-monitoring-agent")
"""With replicas or with nothing to look at before: EKS waits 20 minutes for what cannot start
(pulumi-eks#1819)."""


def add_on_names(file_system: str) -> tuple[str, ...]:
    """Every add-on of an environment, in the order in which they are made."""
    return (*BEFORE_NODES, *AFTER_NODES, CSI[file_system])


def add_on_version(case: AwsCase, name: str) -> str:
    """The version that the environment gives, else the known one."""
    given = case.section.add_on_versions.get(name)
    return given or case.support.add_ons[name].version


def add_ons(case: AwsCase) -> tuple[AddOnPlan, ...]:
    """Every add-on; a role is only there for those that call AWS."""
    driver = CSI[case.section.weights.file_system]
    accounts = {
        "vpc-cni": iam.NETWORK_ACCOUNT,
        driver: iam.CSI_ACCOUNTS[case.section.weights.file_system],
    }
    roles = {role.service_account: role for role in iam.pod_roles(case)}
    return tuple(
        AddOnPlan(
            name=name,
            version=add_on_version(case, name),
            configuration=canonical(_settings(case, name)),
            before_nodes=name in BEFORE_NODES,
            role=_role(roles, accounts.get(name)),
            service_account=accounts.get(name),
        )
        for name in add_on_names(case.section.weights.file_system)
    )


def _role(roles: Mapping[str, PodRolePlan], account: str | None) -> str | None:
    return roles[account].role.name if account is not None else None


def canonical(settings: Mapping[str, object]) -> str:
    """One text for one meaning, since EKS compares texts (terraform-aws-eks#3380)."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":")) if settings else ""


def _settings(case: AwsCase, name: str) -> Mapping[str, object]:
    """Of the network plugin only: all others tolerate every taint, or stay off tainted nodes."""
    if name != "vpc-cni":
        return {}
    return {
        # Without it NetworkPolicies are taken and obeyed by nobody.
        "enableNetworkPolicy": "true",
        "env": {
            # The policy of its role asks for interfaces tagged with this name.
            "CLUSTER_NAME": case.prefix,
            # A whole interface held ready would be up to 63 addresses on each node.
            "WARM_IP_TARGET": str(WARM_ADDRESSES),
        },
    }
