"""An EKS cluster from nothing, in the order in which its parts need each other.

Destroying is the same order backwards, so every edge here is one that something needs in either
direction: what nodes leave behind must be gone before the network plugin that made it, and what a
controller made before the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_aws import eks

from tokenworks.components.aws.add_on import add_on
from tokenworks.components.aws.chart import Chart
from tokenworks.components.aws.control_plane import (
    CONTROL_PLANE_GROUP,
    ControlPlane,
    ControlPlaneArgs,
)
from tokenworks.components.aws.network import subnet_names
from tokenworks.components.aws.node_group import NodeGroup, NodeGroupArgs
from tokenworks.components.aws.pod_roles import PodRole
from tokenworks.components.aws.role import Role
from tokenworks.plan.aws import keys
from tokenworks.plan.aws.types import NodeGroupPlan
from tokenworks.platforms import aws
from tokenworks.programs.aws_account import Account, account
from tokenworks.programs.context import Context

NODES_GROUP = "nodes"
LOAD_BALANCER_CONTROLLER = "aws-load-balancer-controller"


@dataclass(frozen=True, kw_only=True)
class _Others:
    """What other programs made."""

    subnet_ids: pulumi.Output[Mapping[str, str]]
    group_ids: pulumi.Output[Mapping[str, str]]
    key_arns: pulumi.Output[Mapping[str, str]]
    image_ids: pulumi.Output[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """What every node group stands on."""

    plane: ControlPlane
    role: Role
    after: tuple[pulumi.Resource, ...]


def aws_cluster(context: Context) -> pulumi.ResourceOptions:
    """Create the cluster with everything in AWS that it needs, and return the way into it."""
    owner = account(context, "cluster")
    others = _others(context)
    plane = _control_plane(owner, others)
    cluster = plane.cluster
    roles = _pod_roles(owner, cluster)
    early = _add_ons(owner, cluster, roles, [], before_nodes=True)
    groups = _node_groups(owner, others, plane, [plane, *early])
    later = _add_ons(owner, cluster, roles, [*early, *groups], before_nodes=False)
    identifier = pulumi.Output.format("{0} of {1}", cluster.arn, cluster.created_at)
    way = {
        "endpoint": cluster.endpoint,
        "certificate_authority": plane.certificate_authority,
        "identifier": identifier,
    }
    for name, value in way.items():
        pulumi.export(f"cluster_{name}", value)
    kubernetes = aws.kubernetes(owner.plan, way, pulumi.ResourceOptions(depends_on=[plane]))
    opts = pulumi.ResourceOptions(providers=[kubernetes])
    charts = _charts(context, owner, opts, roles, [*early, *groups, *later])
    _export_balancers(owner, charts)
    return opts


def _others(context: Context) -> _Others:
    network = context.stack("network")
    storage = context.stack("storage")
    image = context.stack("image")
    return _Others(
        subnet_ids=network.require_output("subnet_ids"),
        group_ids=network.require_output("group_ids"),
        key_arns=storage.require_output("key_arns"),
        image_ids=image.require_output("image_ids"),
    )


def _control_plane(owner: Account, others: _Others) -> ControlPlane:
    access = subnet_names(owner.plan.network, "access").values()
    return ControlPlane(
        "control-plane",
        ControlPlaneArgs(
            plan=owner.plan.cluster,
            subnet_ids=[others.subnet_ids[name] for name in access],
            group_id=others.group_ids[CONTROL_PLANE_GROUP],
            secrets_key_arn=others.key_arns[keys.SECRETS],
            logs_key_arn=others.key_arns[keys.LOGS],
            tags=owner.tags,
        ),
        owner.opts,
    )


def _pod_roles(owner: Account, cluster: eks.Cluster) -> dict[str, PodRole]:
    """Roles of pods by their names; each is there before the pods that take it."""
    return {
        pod.role.name: PodRole(
            f"{pod.namespace}-{pod.service_account}",
            pod,
            cluster.name,
            owner.tags,
            owner.opts,
        )
        for pod in owner.plan.cluster.pod_roles
    }


def _add_ons(
    owner: Account,
    cluster: eks.Cluster,
    roles: Mapping[str, PodRole],
    after: list[pulumi.Resource],
    *,
    before_nodes: bool,
) -> list[eks.Addon]:
    """Add-ons that nodes need to become ready, or those that need ready nodes themselves."""
    made = []
    for plan in owner.plan.cluster.add_ons:
        if plan.before_nodes != before_nodes:
            continue
        role = [roles[plan.role]] if plan.role is not None else []
        made.append(
            add_on(plan, cluster.name, owner.tags, opts=_after(owner.opts, [*after, *role]))
        )
    return made


def _node_groups(
    owner: Account, others: _Others, plane: ControlPlane, after: list[pulumi.Resource]
) -> list[NodeGroup]:
    role = Role("nodes", owner.plan.cluster.node_role, owner.tags, opts=owner.opts)
    stands_on = _Nodes(plane=plane, role=role, after=(*after, role))
    return [
        NodeGroup(
            f"{group.pool}-{group.zone_id}",
            _node_group(owner, others, stands_on, group),
            owner.opts,
        )
        for group in owner.plan.node_groups
    ]


def _node_group(
    owner: Account, others: _Others, nodes: _Nodes, group: NodeGroupPlan
) -> NodeGroupArgs:
    subnet = subnet_names(owner.plan.network, "nodes")[group.zone_id]
    cluster = nodes.plane.cluster
    return NodeGroupArgs(
        plan=group,
        cluster=cluster.name,
        kubernetes_version=owner.plan.cluster.version,
        role_arn=nodes.role.arn,
        subnet_id=others.subnet_ids[subnet],
        groups=[nodes.plane.group_id, others.group_ids[NODES_GROUP]],
        key_arn=others.key_arns[keys.NODES],
        image_id=others.image_ids[group.image] if group.image is not None else None,
        late={
            "cluster_endpoint": cluster.endpoint,
            "cluster_certificate_authority": nodes.plane.certificate_authority,
        },
        after=nodes.after,
        tags=owner.tags,
    )


def _charts(
    context: Context,
    owner: Account,
    opts: pulumi.ResourceOptions,
    roles: Mapping[str, PodRole],
    after: list[pulumi.Resource],
) -> dict[str, Chart]:
    """Charts, each after the roles of its pods, on nodes where services have names."""
    charts = {}
    for plan in owner.plan.charts:
        own = [role for role in roles.values() if role.namespace == plan.namespace]
        charts[plan.name] = Chart(
            plan.name, plan, archive=context.chart(plan), after=[*after, *own], opts=opts
        )
    return charts


def _export_balancers(owner: Account, charts: Mapping[str, Chart]) -> None:
    """The class of load balancers, which nobody knows before its controller runs."""
    controller = charts[LOAD_BALANCER_CONTROLLER].release
    class_name = owner.plan.balancer.class_name
    pulumi.export("load_balancer_class", controller.status.apply(lambda _: class_name))


def _after(opts: pulumi.ResourceOptions, needed: list[pulumi.Resource]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))
