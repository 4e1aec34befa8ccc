"""Node groups: one instance type in one zone each, so that one without capacity stops no other.

EKS fails a whole group when one of its zones has nothing to give (containers-roadmap#2204).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenworks.environment.sections import NodePool
from tokenworks.facts.aws_instances import AwsInstance, aws_instances
from tokenworks.naming import ENVIRONMENT_LABEL, GPU_RESOURCE, GPU_TAINT_VALUE, POOL_LABEL
from tokenworks.plan.aws import user_data
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.images import image_name
from tokenworks.plan.aws.subnets import MOST_PODS, pods_of
from tokenworks.plan.aws.types import CapacityPlanned, InterfacePlan, NodeGroupPlan
from tokenworks.plan.aws.zones import offered, spread, zones_of
from tokenworks.plan.nodes import SYSTEM_POOL, gpu_labels
from tokenworks.plan.types import Decided, PoolPlan

GPU_IMAGE, PLAIN_IMAGE = "AL2023_x86_64_NVIDIA", "AL2023_x86_64_STANDARD"
ON_DISKS_GIB, ON_ROOT_GIB, PLAIN_ROOT_GIB = 100, 500, 100
"""Root volumes: with containers on local disks only the system is on it; without, the engine's
image of some 30 GiB, its caches and scratch are too."""
DEVICE_PLUGIN_LABEL = "nvidia.com/gpu.present"
"""Label by which NVIDIA's device plugin finds its nodes; feature discovery would set it."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What the groups of one pool have in common."""

    pool: str
    shape: AwsInstance
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    capacity: CapacityPlanned
    image: str | None
    release: str | None
    gpus: bool
    efa: bool


def node_groups(case: AwsCase) -> tuple[NodeGroupPlan, ...]:
    """The groups of every GPU pool and of the system pool."""
    return tuple(
        _group(case, kind, zone, nodes)
        for kind, zones, count in _kinds(case)
        for zone, nodes in spread(count, zones)
    )


def _kinds(case: AwsCase) -> Iterator[tuple[_Kind, tuple[str, ...], int]]:
    for pool, plan in zip(case.loaded.environment.node_pools, case.pools, strict=True):
        yield _gpu_kind(case, pool, plan), zones_of(case, pool), plan.nodes
    instance = case.section.system_nodes.instance
    kind = _Kind(
        pool=SYSTEM_POOL,
        shape=aws_instances()[instance],
        labels=_own_labels(case, SYSTEM_POOL),
        taints=(),
        capacity=CapacityPlanned(kind="ON_DEMAND", reservation=None),
        image=None,
        release=system_release(case),
        gpus=False,
        efa=False,
    )
    yield kind, offered(case.section.network.zones, instance), case.system_nodes


def _gpu_kind(case: AwsCase, pool: NodePool, plan: PoolPlan) -> _Kind:
    return _Kind(
        pool=pool.name,
        shape=aws_instances()[pool.kind],
        labels={
            **_own_labels(case, pool.name),
            **gpu_labels(plan),
            DEVICE_PLUGIN_LABEL: "true",
        },
        taints=((GPU_RESOURCE, GPU_TAINT_VALUE, "NoSchedule"),),
        capacity=capacity(pool),
        image=image_name(case, plan) if pool.host_lock is not None else None,
        release=pool.release_version,
        gpus=True,
        efa=pool.efa,
    )


def system_release(case: AwsCase) -> str:
    """The newest known release of AWS's images for this Kubernetes version, by its day."""
    return max(case.support.releases, key=lambda release: release.rpartition("-")[2])


def capacity(pool: NodePool) -> CapacityPlanned:
    """How a pool's instances are had."""
    reserved = pool.capacity
    if reserved is not None and reserved.block is not None:
        return CapacityPlanned(kind="CAPACITY_BLOCK", reservation=reserved.block)
    if reserved is not None and reserved.reservation is not None:
        return CapacityPlanned(kind="RESERVATION", reservation=reserved.reservation)
    return CapacityPlanned(kind="ON_DEMAND", reservation=None)


def _own_labels(case: AwsCase, pool: str) -> dict[str, str]:
    """Labels outside of kubernetes.io, where the kubelet may set none of its own choice."""
    return {ENVIRONMENT_LABEL: case.environment, POOL_LABEL: pool}


def _group(case: AwsCase, kind: _Kind, zone: str, nodes: int) -> NodeGroupPlan:
    name = f"{case.prefix}-{kind.pool}-{zone}"
    pods = pods_of(kind.shape, with_efa=kind.efa)
    block = kind.capacity.kind == "CAPACITY_BLOCK"
    return NodeGroupPlan(
        name=name,
        pool=kind.pool,
        instance=kind.shape.name,
        zone_id=zone,
        nodes=nodes,
        # A block ends by itself, and then no node can be had.
        minimum=0 if block else nodes,
        maximum=nodes,
        capacity=kind.capacity,
        image=kind.image,
        ami_type=_ami_type(kind),
        release_version=None if kind.image else kind.release,
        user_data=_user_data(case, kind, pods),
        interfaces=interfaces(kind.shape) if kind.efa else (),
        placement_group=name if kind.efa and kind.capacity.reservation is None else None,
        root_volume_gib=_root_gib(kind),
        max_pods=Decided(pods, _pods_because(kind, pods)),
        labels=kind.labels,
        taints=kind.taints,
        repair=True,
        max_unavailable=1,
        update_strategy="MINIMAL" if kind.gpus else "DEFAULT",
    )


def _ami_type(kind: _Kind) -> str | None:
    if kind.image is not None:
        return None
    return GPU_IMAGE if kind.gpus else PLAIN_IMAGE


def _root_gib(kind: _Kind) -> int:
    if not kind.gpus:
        return PLAIN_ROOT_GIB
    return ON_DISKS_GIB if _on_disks(kind) else ON_ROOT_GIB


def _on_disks(kind: _Kind) -> bool:
    """Only AWS's image makes local disks into one array by itself."""
    return kind.image is None and kind.shape.nvme_gb > 0


def _pods_because(kind: _Kind, pods: int) -> str:
    shape = kind.shape
    held = (
        f"network card 0 of {shape.name} has {shape.card0_interfaces} interfaces of "
        f"{shape.addresses_per_interface} addresses"
    )
    if kind.efa and pods < pods_of(shape, with_efa=False):
        return f"{held}, and one of them is a fabric adapter's"
    return (
        f"{held}; Kubernetes is tested with {MOST_PODS} pods on a node"
        if pods == MOST_PODS
        else held
    )


def _user_data(case: AwsCase, kind: _Kind, pods: int) -> str:
    if kind.image is not None:
        return user_data.ubuntu(
            cluster=case.prefix,
            service_cidr=case.section.network.service_cidr,
            max_pods=pods,
            taints=kind.taints,
        )
    return user_data.amazon_linux(
        max_pods=pods,
        taints=kind.taints,
        local_disks=_on_disks(kind),
        lustre=kind.gpus and case.section.weights.file_system == "fsx-lustre",
    )


def interfaces(shape: AwsInstance) -> tuple[InterfacePlan, ...]:
    """Every fabric adapter of an instance type, after the one interface that has an address.

    docs.aws.amazon.com/AWSEC2, efa-acc-inst-types: network card 0 has an ordinary interface first,
    and an EFA-only one beside it where the card has an adapter; each other card has an EFA-only
    one.
    """
    on_card_0 = shape.efa >= shape.network_cards
    first = [InterfacePlan(card=0, device=0, kind="interface")]
    beside = [InterfacePlan(card=0, device=1, kind="efa-only")] if on_card_0 else []
    others = shape.efa - len(beside)
    return (
        *first,
        *beside,
        *(InterfacePlan(card=card, device=0, kind="efa-only") for card in range(1, others + 1)),
    )
