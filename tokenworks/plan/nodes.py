"""What the nodes of a pool look like to the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.facts.node_reserve import allocatable_cpu_millicores, allocatable_memory_mib
from tokenworks.naming import (
    ENVIRONMENT_LABEL,
    GPU_RESOURCE,
    GPU_TAINT_VALUE,
    POOL_LABEL,
    node_name,
)
from tokenworks.plan.types import Plan, PoolPlan

SYSTEM_POOL = "system"
SYSTEM_VCPUS = 8
SYSTEM_MEMORY_GIB = 32
SYSTEM_MAX_PODS = 110


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A mark that keeps pods away which do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    """One node: name, labels, taints, and what it has and gives."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    capacity: dict[str, str]
    allocatable: dict[str, str]


def gpu_nodes(plan: Plan, pool: PoolPlan) -> tuple[NodePlan, ...]:
    """The GPU nodes of a pool, labelled as GPU Feature Discovery labels real ones."""
    shape = pool.instance
    return tuple(
        NodePlan(
            name=node_name(pool.name, index),
            labels=_common_labels(plan, pool.name, node_name(pool.name, index))
            | {"node.kubernetes.io/instance-type": shape.name}
            | gpu_labels(pool),
            taints=(Taint(key=GPU_RESOURCE, value=GPU_TAINT_VALUE, effect="NoSchedule"),),
            capacity=_resources(shape.vcpus * 1000, shape.host_memory_gib * 1024, shape.max_pods)
            | {GPU_RESOURCE: str(shape.gpu_count)},
            allocatable=_resources(
                allocatable_cpu_millicores(shape.vcpus),
                allocatable_memory_mib(shape.host_memory_gib, shape.max_pods),
                shape.max_pods,
            )
            | {GPU_RESOURCE: str(shape.gpu_count)},
        )
        for index in range(pool.nodes)
    )


def machine_labels(plan: Plan, pool: PoolPlan) -> dict[str, dict[str, str]]:
    """Labels of each machine's node, by its name; all others are the kubelet's and NVIDIA's."""
    labels = {ENVIRONMENT_LABEL: plan.environment, POOL_LABEL: pool.name}
    machines = pool.hosts.machines if pool.hosts else ()
    return {machine.name: dict(labels) for machine in machines}


def system_nodes(plan: Plan) -> tuple[NodePlan, ...]:
    """Nodes without GPUs, for the gateway and whatever else needs none."""
    return tuple(
        NodePlan(
            name=node_name(SYSTEM_POOL, index),
            labels=_common_labels(plan, SYSTEM_POOL, node_name(SYSTEM_POOL, index)),
            taints=(),
            capacity=_resources(SYSTEM_VCPUS * 1000, SYSTEM_MEMORY_GIB * 1024, SYSTEM_MAX_PODS),
            allocatable=_resources(
                allocatable_cpu_millicores(SYSTEM_VCPUS),
                allocatable_memory_mib(SYSTEM_MEMORY_GIB, SYSTEM_MAX_PODS),
                SYSTEM_MAX_PODS,
            ),
        )
        for index in range(plan.system_nodes.value)
    )


def _common_labels(plan: Plan, pool: str, name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/part-of": "tokenworks",
        "app.kubernetes.io/managed-by": "pulumi",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        ENVIRONMENT_LABEL: plan.environment,
        POOL_LABEL: pool,
    }


def gpu_labels(pool: PoolPlan) -> dict[str, str]:
    """Labels of NVIDIA's GPU Feature Discovery, by the names that it uses."""
    compute_major, compute_minor = pool.instance.compute_capability.split(".")
    driver = (*pool.driver_version.split("."), "", "")
    return {
        "nvidia.com/cuda.driver-version.full": pool.driver_version,
        "nvidia.com/cuda.driver-version.major": driver[0],
        "nvidia.com/cuda.driver-version.minor": driver[1],
        "nvidia.com/cuda.driver-version.revision": driver[2],
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor,
        "nvidia.com/gpu.count": str(pool.instance.gpu_count),
        "nvidia.com/gpu.family": pool.gpu.family,
        "nvidia.com/gpu.memory": str(pool.instance.gpu_memory_mib),
        "nvidia.com/gpu.product": pool.gpu.product,
    }


def _resources(cpu_millicores: int, memory_mib: int, pods: int) -> dict[str, str]:
    return {
        "cpu": f"{cpu_millicores}m",
        "memory": f"{memory_mib}Mi",
        "ephemeral-storage": "500Gi",
        "pods": str(pods),
    }
