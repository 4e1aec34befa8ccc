"""Roles: who takes each, and the least that it must be able to do.

``AmazonEKS...`` policies of AWS are taken where EKS itself checks for them, for the cluster and its
nodes. What pods and builders may do is written here, and narrowed to this environment.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokenworks.plan.aws.balancer_rights import balancer_policy
from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.documents import Document, allow, document, lists, trust
from tokenworks.plan.aws.network_rights import network_policy
from tokenworks.plan.aws.types import PodRolePlan, RolePlan

KUBE_SYSTEM = "kube-system"
NETWORK_ACCOUNT = "aws-node"
BALANCER_ACCOUNT = "aws-load-balancer-controller"
CSI_ACCOUNTS = {"fsx-lustre": "fsx-csi-controller-sa", "efs": "efs-csi-controller-sa"}
"""Service accounts of the add-ons: docs.aws.amazon.com/eks, workloads-add-ons-available-eks."""


def managed(*names: str) -> tuple[str, ...]:
    """ARNs of policies that AWS keeps."""
    return tuple(f"arn:aws:iam::aws:policy/{name}" for name in names)


def cluster_role(case: AwsCase) -> RolePlan:
    """What EKS itself may do in the account."""
    return RolePlan(
        name=f"{case.prefix}-cluster",
        trust=trust("eks.amazonaws.com"),
        managed_policies=managed("AmazonEKSClusterPolicy"),
        policies={},
        because="EKS manages interfaces and security groups of the control plane",
    )


def node_role(case: AwsCase) -> RolePlan:
    """What a node may do: join, pull images of add-ons, be reached by Session Manager."""
    return RolePlan(
        name=f"{case.prefix}-node",
        trust=trust("ec2.amazonaws.com"),
        managed_policies=managed(
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonSSMManagedInstanceCore",
        ),
        policies={},
        because="nodes join the cluster; network and storage have roles of their own",
    )


def flow_log_role(case: AwsCase) -> RolePlan:
    """What writes the network's flow logs."""
    source = {
        "StringEquals": {"aws:SourceAccount": case.section.account},
        "ArnLike": {"aws:SourceArn": case.arn("ec2", "vpc-flow-log/*")},
    }
    writes = allow(
        "WriteFlowLogs",
        ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        ["${flow_log_group_arn}", "${flow_log_group_arn}:*"],
    )
    look = lists("FindGroup", ["logs:DescribeLogGroups"])
    return RolePlan(
        name=f"{case.prefix}-flow-logs",
        trust=trust("vpc-flow-logs.amazonaws.com", conditions=source),
        managed_policies=(),
        policies={"write": document([look, writes])},
        because="the network's flow logs are written into one log group",
    )


def builder_role(case: AwsCase) -> RolePlan:
    """What a machine may do on which an image is made: be reached, and fetch what Ansible sends."""
    bucket = f"arn:aws:s3:::{case.bucket('transfer')}"
    fetch = [
        allow("ListTransfers", ["s3:ListBucket"], [bucket]),
        allow("Transfer", ["s3:GetObject", "s3:PutObject"], [f"{bucket}/*"]),
        allow(
            "ReadTransferred",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            [case.arn("kms", "key/*")],
            _through(case, "s3"),
        ),
    ]
    return RolePlan(
        name=f"{case.prefix}-builder",
        trust=trust("ec2.amazonaws.com"),
        managed_policies=managed("AmazonSSMManagedInstanceCore"),
        policies={"transfer": document(fetch)},
        because="Ansible reaches builders by Session Manager, and sends its modules by a bucket",
    )


def pod_roles(case: AwsCase) -> tuple[PodRolePlan, ...]:
    """A role for each service account that calls AWS; no other pod has any right there."""
    kind = case.section.weights.file_system
    return (
        _pod_role(
            case,
            "vpc-cni",
            (KUBE_SYSTEM, NETWORK_ACCOUNT),
            network_policy(case),
            "the network plugin attaches interfaces to this cluster's nodes",
        ),
        _pod_role(
            case,
            "weights-csi",
            (KUBE_SYSTEM, CSI_ACCOUNTS[kind]),
            _csi_policy(case),
            "the storage driver looks up the file system; volumes are made by nobody",
        ),
        _pod_role(
            case,
            "balancer",
            (KUBE_SYSTEM, BALANCER_ACCOUNT),
            balancer_policy(case),
            "the controller makes the gateway's internal load balancer",
        ),
    )


def _pod_role(
    case: AwsCase, what: str, account: tuple[str, str], policy: Document, because: str
) -> PodRolePlan:
    namespace, service_account = account
    role = RolePlan(
        name=f"{case.prefix}-{what}",
        trust=pod_trust(case, namespace, service_account),
        managed_policies=(),
        policies={"own": policy},
        because=because,
    )
    return PodRolePlan(role=role, namespace=namespace, service_account=service_account)


def pod_trust(case: AwsCase, namespace: str, service_account: str) -> Document:
    """Only pods of one service account of this cluster: docs.aws.amazon.com/eks, pod-id-role."""
    tags = {
        "aws:SourceAccount": case.section.account,
        "aws:RequestTag/eks-cluster-name": case.prefix,
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    return trust("pods.eks.amazonaws.com", tags_session=True, conditions={"StringEquals": tags})


def _csi_policy(case: AwsCase) -> Document:
    if case.section.weights.file_system == "fsx-lustre":
        return document([lists("LookUp", ["fsx:DescribeFileSystems"])])
    look = allow(
        "LookUp",
        [
            "elasticfilesystem:DescribeAccessPoints",
            "elasticfilesystem:DescribeFileSystems",
            "elasticfilesystem:DescribeMountTargets",
        ],
        [case.arn("elasticfilesystem", "file-system/*")],
        _ours(case),
    )
    return document([look, lists("Zones", ["ec2:DescribeAvailabilityZones"])])


def _ours(case: AwsCase) -> Mapping[str, Mapping[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": case.environment}}


def _through(case: AwsCase, service: str) -> Mapping[str, Mapping[str, object]]:
    """A key may be used for one service only, and only keys of this environment's aliases."""
    return {
        "StringEquals": {"kms:ViaService": f"{service}.{case.section.region}.amazonaws.com"},
        "ForAnyValue:StringLike": {"kms:ResourceAliases": f"alias/{case.prefix}-*"},
    }
