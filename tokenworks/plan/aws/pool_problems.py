"""Why nodes cannot be had as they are asked for: zones, capacity, images, adapters, addresses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.sections import NodePool
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import Problem
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.facts.aws_versions import kubernetes_versions, releases
from tokenworks.facts.aws_zones import offerings, zones
from tokenworks.facts.instances import instances
from tokenworks.hosts.beside import HostFiles
from tokenworks.plan.aws.subnets import (
    LARGEST_PREFIX,
    SMALLEST_PREFIX,
    addresses_of,
    pods_of,
    slices,
    smallest_vpc,
    usable,
)
from tokenworks.plan.aws.zones import spread
from tokenworks.plan.nodes import SYSTEM_POOL

BLOCK_FAMILIES: Final = ("p4", "p5", "p6")
"""GPU families that capacity blocks are sold of: docs.aws.amazon.com/ec2, capacity blocks."""
LUSTRE_PACKAGE = "lustre-client"


def pool_problems(loaded: LoadedEnvironment, section: Aws, files: HostFiles) -> Iterator[Problem]:
    """Everything about node pools and system nodes."""
    for index, pool in enumerate(loaded.environment.node_pools):
        path: KeyPath = ("node_pools", index)
        yield from _zone(loaded, section, pool, path)
        yield from _capacity(loaded, pool, path)
        yield from _image(loaded, section, pool, path, files)
        if pool.name == SYSTEM_POOL:
            yield loaded.source.problem(
                (*path, "name"),
                given=pool.name,
                reason="is the name of the nodes without GPUs",
                remedy="give the pool another name",
            )
        shape = aws_instances().get(pool.kind)
        if pool.efa and shape is not None and shape.efa == 0:
            yield loaded.source.problem(
                (*path, "efa"),
                given="true",
                reason=f"is asked of {pool.instance}, which has no fabric adapter",
                remedy="remove it, or use a larger size of the family",
            )
    yield from _weights(loaded, section)
    yield from _system(loaded, section)
    yield from _addresses(loaded, section)


def _zone(
    loaded: LoadedEnvironment, section: Aws, pool: NodePool, path: KeyPath
) -> Iterator[Problem]:
    reserved = pool.capacity
    zone = reserved.zone if reserved else pool.zone
    key: KeyPath = (*path, "capacity", "zone") if reserved else (*path, "zone")
    if reserved is not None and pool.zone not in (None, reserved.zone):
        yield loaded.source.problem(
            (*path, "zone"),
            given=str(pool.zone),
            reason=f"is not {reserved.zone}, where the capacity was reserved",
            remedy=f"use {reserved.zone}, or leave it out",
        )
    known = offerings().get(pool.kind, ())
    here = [one for one in section.network.zones if one in known]
    near = [one for one in zones().get(section.region, ()) if one in known]
    if zone is not None and zone not in section.network.zones:
        yield loaded.source.problem(
            key,
            given=zone,
            reason="is none of the network's zones",
            remedy=f"use one of: {', '.join(section.network.zones)}; or add it to "
            "aws.network.zones, at the end",
        )
    elif known and (zone not in known if zone is not None else not here):
        yield loaded.source.problem(
            key if zone is not None else (*path, "instance"),
            given=zone or pool.instance,
            reason=f"does not offer {pool.instance}" if zone else "is offered in none of the zones",
            remedy=f"use one of: {', '.join(here or near) or 'another region'}; `aws ec2 "
            "describe-instance-type-offerings --location-type availability-zone-id` lists them",
        )


def _capacity(loaded: LoadedEnvironment, pool: NodePool, path: KeyPath) -> Iterator[Problem]:
    reserved = pool.capacity
    if reserved is None:
        return
    key: KeyPath = (*path, "capacity")
    if (reserved.block is None) == (reserved.reservation is None):
        yield loaded.source.problem(
            key,
            given=None,
            reason="is neither one reservation nor one block",
            remedy="give exactly one of reservation and block",
        )
    elif reserved.block is not None and not pool.kind.startswith(BLOCK_FAMILIES):
        yield loaded.source.problem(
            (*key, "block"),
            given=reserved.block,
            reason=f"cannot be of {pool.instance}: blocks are sold of families "
            f"{', '.join(BLOCK_FAMILIES)}",
            remedy="use a reservation, or leave capacity out",
        )


def _image(
    loaded: LoadedEnvironment, section: Aws, pool: NodePool, path: KeyPath, files: HostFiles
) -> Iterator[Problem]:
    if (pool.release_version is None) == (pool.host_lock is None):
        yield loaded.source.problem(
            path,
            given=pool.name,
            reason="has no image, or two",
            remedy="give release_version for AWS's own image, or host_lock to build one",
        )
    elif pool.release_version is not None:
        yield from _release(loaded, section, pool.release_version, (*path, "release_version"))
    else:
        yield from _own_image(loaded, section, pool, path, files)


def _release(
    loaded: LoadedEnvironment, section: Aws, release: str, path: KeyPath
) -> Iterator[Problem]:
    version = section.kubernetes_version
    support = kubernetes_versions().get(version)
    known = sorted(support.releases) if support else []
    use = f"use one of: {', '.join(known[-3:])}" if known else "use another Kubernetes version"
    if not release.startswith(f"{version}."):
        yield loaded.source.problem(
            path, given=release, reason=f"is not of Kubernetes {version}", remedy=use
        )
    elif release not in releases():
        yield loaded.source.problem(
            path,
            given=release,
            reason="is a release whose driver is unknown here",
            remedy=f"{use}; or enter it into facts/aws_versions.json with the driver that the "
            "change log of awslabs/amazon-eks-ami names",
        )


def _own_image(
    loaded: LoadedEnvironment, section: Aws, pool: NodePool, path: KeyPath, files: HostFiles
) -> Iterator[Problem]:
    key: KeyPath = (*path, "host_lock")
    if section.builder_base_image is None:
        yield loaded.source.problem(
            key,
            given=pool.host_lock,
            reason="asks for an image that is built from nothing",
            remedy="name Ubuntu's EKS image of the region as aws.builder_base_image",
        )
    lock = files.locks.get(pool.name)
    if lock is None:
        return
    if not lock.os.startswith("ubuntu"):
        yield loaded.source.problem(
            key,
            given=f"{pool.host_lock}: {lock.os}",
            reason="has no EKS image of its publisher to build on",
            remedy="use a lock of Ubuntu",
        )
    lustre = any(package.name.startswith(LUSTRE_PACKAGE) for package in lock.packages)
    if section.weights.file_system == "fsx-lustre" and not lustre:
        yield loaded.source.problem(
            key,
            given=pool.host_lock,
            reason="holds no client of Lustre, so that no node could read weights",
            remedy=f"add {LUSTRE_PACKAGE} packages for its kernel to the lock, or use "
            "aws.weights.file_system efs",
        )


def _weights(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    weights, path = section.weights, ("aws", "weights", "zone")
    if weights.zone is None:
        return
    if weights.file_system == "efs":
        yield loaded.source.problem(
            path, given=weights.zone, reason="is no key of efs, which lies in every zone",
            remedy="remove it",
        )  # fmt: skip
    elif weights.zone not in section.network.zones:
        yield loaded.source.problem(
            path,
            given=weights.zone,
            reason="is none of the network's zones",
            remedy=f"use one of: {', '.join(section.network.zones)}",
        )


def _system(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    name = section.system_nodes.instance
    plain = [one for one in aws_instances() if one not in instances() and not one.startswith("g")]
    if name not in plain:
        yield loaded.source.problem(
            ("aws", "system_nodes", "instance"),
            given=name,
            reason="is no known instance type without GPUs",
            remedy=f"use one of: {', '.join(plain)}",
        )
        return
    asked = set(section.network.zones)
    here = [one for one in plain if asked & set(offerings().get(one, asked))]
    if name not in here and asked & set(zones().get(section.region, ())):
        yield loaded.source.problem(
            ("aws", "system_nodes", "instance"),
            given=name,
            reason="is offered in none of the zones",
            remedy=f"use one of: {', '.join(here)}",
        )


def _addresses(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """Whether the slice of each zone holds the nodes and pods that may be there."""
    needs: dict[str, list[tuple[str, int]]] = defaultdict(list)
    asked = section.network.zones
    for pool in loaded.environment.node_pools:
        shape = aws_instances().get(pool.kind)
        if shape is None:
            continue
        zone = pool.capacity.zone if pool.capacity else pool.zone
        each = addresses_of(shape, pods_of(shape, with_efa=pool.efa))
        for one, nodes in spread(pool.size, (zone,) if zone else asked):
            needs[one].append((f"{nodes} x {each} of {pool.name}", nodes * each))
    system = aws_instances().get(section.system_nodes.instance)
    if system is not None:
        nodes = math.ceil(max(2, loaded.environment.gateway.replicas) / len(asked))
        each = addresses_of(system, pods_of(system, with_efa=False))
        for zone in asked:
            needs[zone].append((f"{nodes} x {each} of system nodes", nodes * each))
    yield from _too_small(loaded, section, needs)


def _too_small(
    loaded: LoadedEnvironment, section: Aws, needs: dict[str, list[tuple[str, int]]]
) -> Iterator[Problem]:
    cidr = section.network.cidr
    if not LARGEST_PREFIX <= int(cidr.rpartition("/")[2]) <= SMALLEST_PREFIX:
        return
    held = usable(str(slices(cidr)[0]))
    zone = max(needs, key=lambda one: sum(count for _, count in needs[one]), default=None)
    needed = sum(count for _, count in needs[zone]) if zone else 0
    if needed <= held:
        return
    parts = "; ".join(what for what, _ in needs[str(zone)])
    prefix = smallest_vpc(needed)
    remedy = f"use a /{prefix}" if prefix else f"a /{LARGEST_PREFIX} is too small: use fewer nodes"
    yield loaded.source.problem(
        ("aws", "network", "cidr"),
        given=cidr,
        reason=f"is too small: {needed} addresses are needed in {zone} ({parts}), where {held} are",
        remedy=remedy,
    )
