"""The order of making, and so of unmaking, that each public report of a broken one asks for.

Pulumi deletes in the reverse order, so an edge holds both ways: what waits for another is made
after it and is gone before it. Without one, a run that happened to work says nothing of the next.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.components.aws.seen import Seen, example, with_aws
from tokenworks.plan.aws.types import PodRolePlan

NODES = ("h100-use1-az6-nodes", "l4-use1-az6-nodes", "system-use1-az1-nodes")
CNI, PROXY, AGENT = "add-on-vpc-cni", "add-on-kube-proxy", "add-on-eks-pod-identity-agent"
CONTROLLER = "aws-load-balancer-controller-release"
ADMIN = "control-plane-tokenworks-deployer-AmazonEKSClusterAdminPolicy"

REPORTS = [
    # (report, program, what waits, for what)
    ("pulumi-eks#194: interfaces outlive their plugin", "cluster", NODES, (CNI,)),
    ("amazon-vpc-cni-k8s#608: interfaces leak", "cluster", NODES, (CNI, PROXY)),
    (
        "aws-load-balancer-controller#4773: balancers outlive their controller",
        "cluster",
        (CONTROLLER,),
        (*NODES, CNI, "add-on-coredns", "kube-system-aws-load-balancer-controller-association"),
    ),
    (
        "terraform-provider-aws#30640: the cluster's group is left",
        "cluster",
        ("control-plane-cluster",),
        ("control-plane-AmazonEKSClusterPolicy", "control-plane-logs"),
    ),
    (
        "terraform-aws-eks#699: the deployer may not talk to its own cluster",
        "cluster",
        ("cluster",),
        (ADMIN,),
    ),
    (
        "pulumi-eks#1819: add-ons that need nodes wait 20 minutes for them",
        "cluster",
        ("add-on-coredns", "add-on-aws-fsx-csi-driver", "add-on-eks-node-monitoring-agent"),
        NODES,
    ),
    (
        "eks-pod-identity-agent#52: pods start without credentials (network)",
        "cluster",
        (CNI,),
        ("kube-system-aws-node-association", "kube-system-aws-node-own"),
    ),
    (
        "eks-pod-identity-agent#52: pods start without credentials (storage)",
        "cluster",
        ("add-on-aws-fsx-csi-driver",),
        ("kube-system-fsx-csi-controller-sa-association", AGENT),
    ),
    (
        "containers-roadmap#2507: a role without its rights",
        "cluster",
        ("kube-system-aws-load-balancer-controller-association",),
        ("kube-system-aws-load-balancer-controller-own",),
    ),
    (
        "pulumi-eks#1226: nodes outlive their role's rights",
        "cluster",
        NODES,
        ("nodes-AmazonEKSWorkerNodePolicy", "nodes-AmazonEC2ContainerRegistryPullOnly"),
    ),
    (
        "routes lead nowhere before there is an attachment",
        "network",
        ("tokenworks-example-aws-nodes-use1-az1-to-10.0.0.0_10",),
        ("transit-gateway-attachment",),
    ),
    (
        "a policy of a bucket is refused while it might be public",
        "storage",
        ("weights-policy",),
        ("weights-public-access",),
    ),
    (
        "versions are needed before their end can be told",
        "storage",
        ("weights-lifecycle",),
        ("weights-versions",),
    ),
    (
        "flow logs are written by a role that may",
        "network",
        ("network-flow-log",),
        ("network-flow-logs-write", "network-flow-log-group"),
    ),
    (
        "data-on-eks#685: the balancer goes while its controller lives",
        "serving",
        ("gateway-service", "gateway-deployment"),
        ("organization/tokenworks/example-aws-cluster",),
    ),
    (
        "pulumi-kubernetes#895: a claim waits for a volume that comes after it",
        "serving",
        ("llama-3-1-8b-instruct-weights-claim",),
        ("llama-3-1-8b-instruct-weights-volume-volume",),
    ),
]


@pytest.mark.parametrize(("report", "program", "waiting", "needed"), REPORTS)
def test_what_a_report_found_too_early_or_left_behind_has_its_place(
    seen: Seen, report: str, program: str, waiting: tuple[str, ...], needed: tuple[str, ...]
) -> None:
    for one in waiting:
        missing = set(needed) - seen.waits_for(program, one)
        assert not missing, f"{report}: {one} does not wait for {missing}"


def test_nothing_is_said_to_go_with_the_cluster(seen: Seen) -> None:
    """What is deleted with another is not deleted at all, and a balancer would stay for ever."""
    assert not [one.name for one in seen.all() if one.options.deleted_with]


def test_the_class_of_balancers_is_known_once_their_controller_runs(seen: Seen) -> None:
    assert seen.recordings["cluster"].outputs["load_balancer_class"] == "service.k8s.aws/nlb"
    service = seen.named("gateway-service")
    assert service.inputs["spec"]["loadBalancerClass"] == "service.k8s.aws/nlb"  # type: ignore[index,call-overload]


def test_every_role_of_pods_waits_to_be_whole_before_anybody_takes_it() -> None:
    """Not only the roles that the reports name: a new one needs its own edge."""
    plan = example()
    assert plan.aws is not None
    first = plan.aws.cluster.pod_roles[0]
    another = PodRolePlan(
        role=replace(first.role, name="another"), namespace="kube-system", service_account="other"
    )
    cluster = replace(plan.aws.cluster, pod_roles=(*plan.aws.cluster.pod_roles, another))
    seen = Seen.of(with_aws(plan, cluster=cluster))
    association = seen.waits_for("cluster", "kube-system-other-association")
    assert "kube-system-other-own" in association
    assert "kube-system-other-association" in seen.waits_for("cluster", CONTROLLER)
