"""By which tags controllers of a cluster mark what they make, and so whose a resource is.

Names prove nothing: anybody may name a group ``efs-sg`` or put a cluster's name into that of a
load balancer, and a cleanup that goes by names deletes what is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from tokenworks.aws.target import ENVIRONMENT_TAG, PROGRAM_TAG, Target

Kind = Literal[
    "load balancer",
    "classic load balancer",
    "target group",
    "network interface",
    "firewall rule",
    "security group",
    "volume",
]

# kubernetes-sigs/aws-load-balancer-controller, pkg/deploy/tracking/provider.go: on load
# balancers, target groups and security groups alike.
_BALANCER_CONTROLLER: Final = ("elbv2.k8s.aws/cluster", "{cluster}")
# kubernetes/cloud-provider-aws and EKS itself; "shared" is said of what others own.
_CLUSTER_OWNS: Final = ("kubernetes.io/cluster/{cluster}", "owned")
# aws/amazon-vpc-cni-k8s, pkg/awsutils: on every interface that it makes.
_NETWORK_PLUGIN: Final = ("cluster.k8s.amazonaws.com/name", "{cluster}")
# kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md, and AmazonEBSCSIDriverEKSClusterScopedPolicy.
_VOLUME_DRIVER: Final = ("ebs.csi.aws.com/cluster-name", "{cluster}")

PROOFS: Final[Mapping[Kind, tuple[tuple[str, str], ...]]] = {
    "load balancer": (_BALANCER_CONTROLLER,),
    "classic load balancer": (_CLUSTER_OWNS,),
    "target group": (_BALANCER_CONTROLLER,),
    "network interface": (_NETWORK_PLUGIN, _CLUSTER_OWNS),
    "firewall rule": (),
    "security group": (_BALANCER_CONTROLLER, _CLUSTER_OWNS),
    "volume": (_VOLUME_DRIVER, _CLUSTER_OWNS),
}
"""Tag and value by which each kind is known as made by a cluster's controllers."""

MADE_FOR_NODES: Final[frozenset[Kind]] = frozenset({"network interface", "volume"})
"""Kinds that no program registers, and launch templates tag as their stack's."""

CONTROL_PLANE_TAG: Final = "aws:eks:cluster-name"
"""EKS puts it on the security group of a control plane, which it deletes with it, mostly."""


def proof(kind: Kind, tags: Mapping[str, str], target: Target) -> str | None:
    """The tag that proves a resource to be one of our controllers', or None.

    What carries another environment's tag is theirs whatever else it carries, and what a stack
    made is Pulumi's to delete. No stack makes interfaces or volumes, though: those with a stack's
    tags were made for its nodes by their launch template.
    """
    owner = tags.get(ENVIRONMENT_TAG)
    if owner not in (None, target.environment):
        return None
    if PROGRAM_TAG in tags:
        return f"{ENVIRONMENT_TAG}={owner}" if owner and kind in MADE_FOR_NODES else None
    for key, value in PROOFS[kind]:
        wanted = key.format(cluster=target.cluster), value.format(cluster=target.cluster)
        if tags.get(wanted[0]) == wanted[1]:
            return "=".join(wanted)
    return None


def may_hold_data(kind: Kind, tags: Mapping[str, str], target: Target) -> bool:
    """Whether one of ours is a volume that was made for a claim, and not a node's own disk.

    The driver's tag outweighs those of a stack: no launch template sets it, and a driver can be
    told to set theirs.
    """
    key, cluster = _VOLUME_DRIVER
    made_by_driver = tags.get(key) == cluster.format(cluster=target.cluster)
    return kind == "volume" and (made_by_driver or PROGRAM_TAG not in tags)


def is_stacks_own(tags: Mapping[str, str], target: Target) -> bool:
    """Whether a stack of this environment made it."""
    return tags.get(ENVIRONMENT_TAG) == target.environment and PROGRAM_TAG in tags
