"""Nodes, storage, priorities and namespaces: what serving stands on."""

from __future__ import annotations

import pulumi
from pulumi_kubernetes.node.v1 import RuntimeClass
from pulumi_kubernetes.scheduling.v1 import PriorityClass
from pulumi_kubernetes.storage.v1 import StorageClass

from tokenworks import naming
from tokenworks.components.gpu_nodes import SimulatedNodes, SimulatedNodesArgs
from tokenworks.components.host_pool import HostPool, HostPoolArgs
from tokenworks.components.namespace import GuardedNamespace, GuardedNamespaceArgs
from tokenworks.plan.nodes import SYSTEM_POOL, gpu_nodes, machine_labels, system_nodes
from tokenworks.plan.priorities import ENGINE_PRIORITY, GATEWAY_PRIORITY, PriorityPlan
from tokenworks.platforms import hosts, simulated
from tokenworks.programs.context import Context

STATIC_VOLUMES = "kubernetes.io/no-provisioner"
"""Storage whose volumes are made with their claims, by the serving program."""


def program(context: Context) -> None:
    """Create the cluster's parts and export the names that the serving program needs."""
    opts, weights_storage = _platform(context)
    for name in sorted({one.runtime_class.value or "" for one in context.plan.models} - {""}):
        _runtime(context, name, opts)
    engines = _namespace(context, naming.ENGINES_NAMESPACE, naming.ENGINE_ROLE, opts)
    gateway = _namespace(context, naming.GATEWAY_NAMESPACE, naming.GATEWAY_ROLE, opts)
    pulumi.export("engines_namespace", engines.namespace)
    pulumi.export("gateway_namespace", gateway.namespace)
    pulumi.export("weights_storage_class", weights_storage)
    for priority in (ENGINE_PRIORITY, GATEWAY_PRIORITY):
        created = _priority(context, priority, opts)
        pulumi.export(f"{priority.role}_priority_class", created.metadata.name)


def _platform(context: Context) -> tuple[pulumi.ResourceOptions, pulumi.Output[str]]:
    """What the platform brings: the way into the cluster, and the storage class of weights."""
    if context.plan.aws is not None:
        from tokenworks.programs.aws_cluster import aws_cluster  # its SDK is for this platform only

        opts = aws_cluster(context)
        return opts, _weights_storage(context, STATIC_VOLUMES, "Retain", opts)
    opts = context.opts
    if context.plan.cluster is not None:
        _machines(context, opts)
        return opts, pulumi.Output.from_input(context.plan.cluster.weights_storage_class)
    _simulated_nodes(context, opts)
    # Whoever owns the claim owns the volume: a retained one would never bind again.
    return opts, _weights_storage(context, simulated.STORAGE_PROVISIONER, "Delete", opts)


def _simulated_nodes(context: Context, opts: pulumi.ResourceOptions) -> None:
    plan = context.plan
    for pool in plan.pools:
        if not pool.real:  # its kubelet has joined the cluster already
            SimulatedNodes(pool.name, SimulatedNodesArgs(nodes=gpu_nodes(plan, pool)), opts)
    SimulatedNodes(SYSTEM_POOL, SimulatedNodesArgs(nodes=system_nodes(plan)), opts)


def _machines(context: Context, opts: pulumi.ResourceOptions) -> None:
    """Machines that exist."""
    plan = context.plan
    for pool in plan.pools:
        machines = hosts.host_pool(context.workspace, plan, pool)
        args = HostPoolArgs(pool=machines, labels=machine_labels(plan, pool))
        pulumi.export(f"hosts_{pool.name}", HostPool(pool.name, args, opts).hosts)


def _runtime(context: Context, name: str, opts: pulumi.ResourceOptions) -> RuntimeClass:
    """The runtime of the nodes that pods name; containerd knows it by the same name."""
    return RuntimeClass(
        name,
        metadata={"name": name, "labels": context.labels(name, naming.ENGINE_ROLE)},
        handler=name,
        opts=opts,
    )


def _namespace(
    context: Context, name: str, role: str, opts: pulumi.ResourceOptions
) -> GuardedNamespace:
    args = GuardedNamespaceArgs(namespace=name, labels=context.labels(name, role))
    return GuardedNamespace(name, args, opts)


def _weights_storage(
    context: Context, provisioner: str, reclaim_policy: str, opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    created = StorageClass(
        naming.WEIGHTS_STORAGE_CLASS,
        metadata={
            "name": naming.WEIGHTS_STORAGE_CLASS,
            "labels": context.labels("weights", naming.WEIGHTS_ROLE),
        },
        provisioner=provisioner,
        reclaim_policy=reclaim_policy,
        volume_binding_mode="Immediate",
        opts=opts,
    )
    return created.metadata.name


def _priority(
    context: Context, priority: PriorityPlan, opts: pulumi.ResourceOptions
) -> PriorityClass:
    return PriorityClass(
        priority.name,
        metadata={"name": priority.name, "labels": context.labels(priority.name, priority.role)},
        value=priority.value,
        global_default=False,
        description=priority.because,
        opts=opts,
    )
