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


def program(context: Context) -> None:
    """Create the cluster's parts and export the names that the serving program needs."""
    if context.plan.cluster is None:
        _simulated_nodes(context)
        weights_storage: pulumi.Input[str] = _weights_storage(context).metadata.name
    else:
        _machines(context)
        weights_storage = context.plan.cluster.weights_storage_class
    for name in sorted({one.runtime_class.value or "" for one in context.plan.models} - {""}):
        _runtime(context, name)
    engines = _namespace(context, naming.ENGINES_NAMESPACE, naming.ENGINE_ROLE)
    gateway = _namespace(context, naming.GATEWAY_NAMESPACE, naming.GATEWAY_ROLE)
    pulumi.export("engines_namespace", engines.namespace)
    pulumi.export("gateway_namespace", gateway.namespace)
    pulumi.export("weights_storage_class", weights_storage)
    pulumi.export("engine_priority_class", _priority(context, ENGINE_PRIORITY).metadata.name)
    pulumi.export("gateway_priority_class", _priority(context, GATEWAY_PRIORITY).metadata.name)


def _simulated_nodes(context: Context) -> None:
    plan, opts = context.plan, context.opts
    for pool in plan.pools:
        if not pool.real:  # its kubelet has joined the cluster already
            SimulatedNodes(pool.name, SimulatedNodesArgs(nodes=gpu_nodes(plan, pool)), opts)
    SimulatedNodes(SYSTEM_POOL, SimulatedNodesArgs(nodes=system_nodes(plan)), opts)


def _machines(context: Context) -> None:
    """Machines that exist."""
    plan = context.plan
    for pool in plan.pools:
        machines = hosts.host_pool(context.workspace, plan, pool)
        args = HostPoolArgs(pool=machines, labels=machine_labels(plan, pool))
        pulumi.export(f"hosts_{pool.name}", HostPool(pool.name, args, context.opts).hosts)


def _runtime(context: Context, name: str) -> RuntimeClass:
    """The runtime of the nodes that pods name; containerd knows it by the same name."""
    return RuntimeClass(
        name,
        metadata={"name": name, "labels": context.labels(name, naming.ENGINE_ROLE)},
        handler=name,
        opts=context.opts,
    )


def _namespace(context: Context, name: str, role: str) -> GuardedNamespace:
    args = GuardedNamespaceArgs(namespace=name, labels=context.labels(name, role))
    return GuardedNamespace(name, args, context.opts)


def _weights_storage(context: Context) -> StorageClass:
    return StorageClass(
        naming.WEIGHTS_STORAGE_CLASS,
        metadata={
            "name": naming.WEIGHTS_STORAGE_CLASS,
            "labels": context.labels("weights", naming.WEIGHTS_ROLE),
        },
        provisioner=simulated.STORAGE_PROVISIONER,
        # Whoever owns the claim owns the volume: a retained one would never bind again.
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        opts=context.opts,
    )


def _priority(context: Context, priority: PriorityPlan) -> PriorityClass:
    return PriorityClass(
        priority.name,
        metadata={"name": priority.name, "labels": context.labels(priority.name, priority.role)},
        value=priority.value,
        global_default=False,
        description=priority.because,
        opts=context.opts,
    )
