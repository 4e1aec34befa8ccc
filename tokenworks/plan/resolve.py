"""Environment, facts and lock → plan, or every reason why there can be none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.environment.sections import NodePool, StartUp
from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.gpus import GPUS
from tokenworks.facts.instances import instances
from tokenworks.hosts.beside import NO_HOSTS, HostFiles
from tokenworks.plan.advice import advices
from tokenworks.plan.aws.plan import UNKNOWN_DRIVER, aws_plan, driver_of_release
from tokenworks.plan.aws.problems import aws_problems
from tokenworks.plan.candidate import Candidate, candidate, notes
from tokenworks.plan.capacity import capacity_problems, sized
from tokenworks.plan.cost import cost_plan, cost_problems
from tokenworks.plan.gateway import gateway_plan
from tokenworks.plan.gateway_pods import gateway_pods
from tokenworks.plan.gateway_problems import crowded, gateway_problems
from tokenworks.plan.hosts import (
    access_plan,
    cluster_plan,
    driver_version,
    host_notes,
    host_pool_plan,
    host_problems,
)
from tokenworks.plan.model import model_plan
from tokenworks.plan.placement import Demand, Room, unplaceable
from tokenworks.plan.types import Decided, Plan, PoolPlan
from tokenworks.sizing.cold_start import cold_start

FRACTIONAL_FAMILIES = ("g6f.", "gr6f.")
"""Families whose GPUs are shared by machines: awslabs/amazon-eks-ami, nvidia-kmod-load.sh."""


def resolve(
    loaded: LoadedEnvironment,
    lock: Lock,
    files: HostFiles = NO_HOSTS,
    roles_digest: str = "",
) -> Plan:
    """Decide everything about an environment; pure, so two runs give the same plan.

    ``files`` are the host locks that its node pools name; ``roles_digest`` is over the roles that
    make machine images.

    Raises:
        ConfigError: with every problem, each at its key path and line.
    """
    lock = lock.mirrored(loaded.environment.image_registry)
    ready = _fitting(loaded, lock, files)
    rate = loaded.environment.weights_storage.read_mib_per_second
    measured = (loaded.environment.start_up or StartUp()).model_dump()
    times = [cold_start(one.case.manifest.total_bytes, rate, **measured) for one in ready]
    fleet = [sized(loaded, one, start) for one, start in zip(ready, times, strict=True)]
    ready = [one.candidate for one in fleet]
    admitted = {one.candidate.model.name: one.admitted for one in fleet}
    _refuse([*_placement_problems(loaded, ready), *crowded(loaded, admitted)])
    cost = cost_plan(loaded, fleet, times)
    gateway = gateway_plan(loaded, lock, admitted)
    pools = tuple(_pool_plan(loaded, pool, ready, files) for pool in loaded.environment.node_pools)
    system_nodes = _system_nodes(loaded)
    models = tuple(
        model_plan(loaded, one, _demands(ready, one.candidate.pool.name), start)
        for one, start in zip(fleet, times, strict=True)
    )
    aws = aws_plan(loaded, lock, pools, models, system_nodes.value, roles_digest)
    return Plan(
        environment=loaded.name,
        platform=loaded.environment.platform,
        weights_read_mib_per_second=rate,
        pools=pools,
        models=models,
        gateway=gateway,
        gateway_pods=gateway_pods(gateway),
        system_nodes=system_nodes,
        cost=cost,
        notes=(
            *(note for one in ready for note in notes(one)),
            *host_notes(loaded, files),
            *(aws.notes if aws else ()),
        ),
        advice=advices(loaded, fleet, times, cost, gateway),
        access=access_plan(loaded),
        cluster=cluster_plan(loaded),
        aws=aws,
    )


def _system_nodes(loaded: LoadedEnvironment) -> Decided[int]:
    if any(pool.real for pool in loaded.environment.node_pools):
        return Decided(0, "the real node is the only one on which a gateway can answer")
    return Decided(
        max(2, loaded.environment.gateway.replicas),
        "one for each gateway pod and at least two, so that losing a node leaves a gateway",
    )


def _fitting(loaded: LoadedEnvironment, lock: Lock, files: HostFiles) -> list[Candidate]:
    """Every model, ready to be sized; or every reason why one of them cannot be."""
    pools = _known_pools(loaded, files)
    judged = [candidate(loaded, i, pools, lock) for i in range(len(loaded.environment.models))]
    ready = [one for one in judged if isinstance(one, Candidate)]
    _refuse(
        [
            *_pool_problems(loaded),
            *host_problems(loaded, files),
            *aws_problems(loaded, lock, files),
            *(problem for one in judged if not isinstance(one, Candidate) for problem in one),
            *capacity_problems(loaded, ready),
            *gateway_problems(loaded, lock),
            *cost_problems(loaded),
        ]
    )
    return ready


def _driver(loaded: LoadedEnvironment, pool: NodePool, files: HostFiles) -> str:
    """The driver of a pool: on AWS that of the image it starts, unless that is made by a lock."""
    if loaded.environment.platform == "aws" and pool.host_lock is None:
        return driver_of_release(pool.release_version)
    return driver_version(pool, files)


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0))


def _known_pools(loaded: LoadedEnvironment, files: HostFiles) -> dict[str, NodePool]:
    return {
        pool.name: pool.model_copy(update={"driver_version": _driver(loaded, pool, files)})
        for pool in loaded.environment.node_pools
        if pool.shape is not None
        and pool.shape.gpu in GPUS
        # A release that is unknown is refused by itself, and models are not judged by it.
        and _driver(loaded, pool, files) != UNKNOWN_DRIVER
    }


def _pool_problems(loaded: LoadedEnvironment) -> Iterable[Problem]:
    for index, pool in enumerate(loaded.environment.node_pools):
        if pool.shape is not None and pool.shape.gpu in GPUS:
            continue
        if pool.kind.startswith(FRACTIONAL_FAMILIES):
            yield loaded.source.problem(
                ("node_pools", index, "instance"),
                given=pool.instance,
                reason="has a part of a GPU, which only NVIDIA's GRID driver divides",
                remedy="use a size of g6 or gr6, whose GPUs are whole",
            )
            continue
        key = "instance" if pool.gpu is None else "gpu"
        reason, remedy = _unknown_instance(pool.kind) if key == "instance" else _unknown_gpu()
        yield loaded.source.problem(
            ("node_pools", index, key),
            given=pool.instance if key == "instance" else pool.gpu,
            reason=reason,
            remedy=remedy,
        )


def _unknown_instance(name: str) -> tuple[str, str]:
    usable = [name for name, shape in instances().items() if shape.gpu in GPUS]
    known = instances().get(name)
    nearest = difflib.get_close_matches(name, usable, n=3, cutoff=0)
    reason = "is not a known GPU instance type"
    if known is not None:
        reason = f"has {known.gpu} GPUs, whose usable memory is unknown"
    return reason, (
        f"use one such as {', '.join(nearest)}; known are those in "
        "tokenworks/facts/gpu_instances.csv with a GPU in tokenworks/facts/gpus.py"
    )


def _unknown_gpu() -> tuple[str, str]:
    known = ", ".join(gpu.sold_as for gpu in GPUS.values())
    return "is not a GPU whose usable memory is known", (
        f"use one of {known}; add others to tokenworks/facts/gpus.py with what engines' logs report"
    )


def _demands(candidates: Iterable[Candidate], pool: str) -> list[Demand]:
    return [c.demand for c in candidates if c.pool.name == pool]


def _placement_problems(
    loaded: LoadedEnvironment, candidates: list[Candidate]
) -> Iterable[Problem]:
    for pool in loaded.environment.node_pools:
        shape = pool.known_shape
        room = Room(nodes=pool.size, gpus_per_node=shape.gpu_count)
        demands = _demands(candidates, pool.name)
        stuck = unplaceable(room, demands)
        if stuck is None:
            continue
        index = next(c.index for c in candidates if c.model.name == stuck.model)
        asked = sum(demand.gpus for demand in demands)
        if asked > room.gpus:
            reason = f"is short of GPUs: {asked} are asked of {pool.size} x {room.gpus_per_node}"
        else:
            reason = (
                f"may leave {stuck.model} without {stuck.gpus_per_replica} free GPUs on any one "
                f"node, once smaller replicas are spread over all {pool.size}"
            )
        yield loaded.source.problem(
            ("models", index, "node_pool"),
            given=pool.name,
            reason=reason,
            remedy=f"use at least {_enough_nodes(room, demands)} nodes, fewer replicas, or a pool "
            "for each size of replica",
        )


def _enough_nodes(room: Room, demands: list[Demand]) -> int:
    """The smallest number of nodes on which every replica is sure to run."""
    nodes = room.nodes
    while unplaceable(Room(nodes=nodes, gpus_per_node=room.gpus_per_node), demands) is not None:
        nodes += 1
    return nodes


def _pool_plan(
    loaded: LoadedEnvironment, pool: NodePool, candidates: list[Candidate], files: HostFiles
) -> PoolPlan:
    shape, ssh = pool.known_shape, loaded.environment.ssh
    return PoolPlan(
        name=pool.name,
        instance=shape,
        gpu=GPUS[shape.gpu],
        driver_version=_driver(loaded, pool, files),
        nodes=pool.size,
        gpus_used=sum(demand.gpus for demand in _demands(candidates, pool.name)),
        hosts=host_pool_plan(pool, ssh.jump_host if ssh else None, files),
        real=pool.real,
    )
