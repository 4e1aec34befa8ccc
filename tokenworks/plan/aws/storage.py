"""Where weights lie: the bucket that has them all, and the file system that engines read."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Final

from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.keys import keys, weights_bucket_policy
from tokenworks.plan.aws.types import FileSystemPlan, StoragePlan
from tokenworks.plan.aws.zones import spread, zones_of
from tokenworks.plan.types import Decided

MIB, MEGABYTE, GIB_PER_TIB = 2**20, 10**6, 1024

SMALLEST_GIB, STEP_GIB = 1200, 2400
"""Capacities of an SSD file system: 1.2 TiB, 2.4 TiB, and multiples of 2.4 TiB; FSx for Lustre user
guide, managing-storage-capacity."""
THROUGHPUTS: Final = (125, 250, 500, 1000)
"""MB/s for each TiB that PERSISTENT_2 can be had with: FSx API, CreateFileSystemLustreConfig."""
FULL_PERCENT = 80
"""Lustre slows down when its disks are almost full, so a fifth stays free."""
LUSTRE_VERSION = "2.15"


def storage_plan(case: AwsCase) -> StoragePlan:
    """Keys, the bucket and the file system."""
    return StoragePlan(
        keys=keys(case),
        bucket=case.bucket("weights"),
        bucket_policy=weights_bucket_policy(case),
        file_system=file_system(case),
        protected=case.section.protected,
    )


def file_system(case: AwsCase) -> FileSystemPlan:
    """FSx for Lustre of the smallest size that holds and delivers, or EFS, which just grows."""
    held, because = _held_gib(case)
    if case.section.weights.file_system == "efs":
        return FileSystemPlan(
            kind="efs",
            zone_id=None,
            deployment_type=None,
            lustre_version=None,
            capacity_gib=Decided(held, f"{because}; EFS grows by itself, this is what to expect"),
            throughput_mb_per_second_per_tib=None,
            mount_options=("tls",),
        )
    readers = sum(pool.nodes for pool in case.pools)
    needed = Fraction(readers * case.weights_read_mib_per_second * MIB, MEGABYTE)
    capacity, throughput = size(math.ceil(held * 100 / FULL_PERCENT), needed)
    total = throughput * Fraction(capacity, GIB_PER_TIB)
    asked = (
        f"{readers} nodes that start at once, each reading "
        f"{case.weights_read_mib_per_second} MiB/s, ask for {float(needed):,.0f} MB/s"
    )
    return FileSystemPlan(
        kind="fsx-lustre",
        zone_id=lustre_zone(case),
        deployment_type="PERSISTENT_2",
        lustre_version=LUSTRE_VERSION,
        capacity_gib=Decided(
            capacity,
            f"{because}, at most {FULL_PERCENT} % full, and {asked}; sizes are {SMALLEST_GIB}, "
            f"{STEP_GIB} and multiples of that",
        ),
        throughput_mb_per_second_per_tib=Decided(
            throughput,
            f"{asked}; {throughput} MB/s for each TiB of {capacity} GiB are {float(total):,.0f}",
            rests_on=("storage.file_system.capacity_gib",),
        ),
        mount_options=("flock", "noatime"),
    )


def _held_gib(case: AwsCase) -> tuple[int, str]:
    sizes = [weights.volume_gib.value for weights in case.weights.values()]
    held = sum(sizes)
    return held, f"{len(sizes)} volumes of models, {held:,} GiB together"


def size(needed_gib: int, needed_mb_per_second: Fraction) -> tuple[int, int]:
    """Capacity in GiB and MB/s for each TiB: the smallest capacity, and with it the least rate.

    Where even the highest rate is too little, capacity grows until it is enough.
    """
    capacity = _at_least(needed_gib)
    while THROUGHPUTS[-1] * Fraction(capacity, GIB_PER_TIB) < needed_mb_per_second:
        capacity = _at_least(capacity + 1)
    rates = (
        rate
        for rate in THROUGHPUTS
        if rate * Fraction(capacity, GIB_PER_TIB) >= needed_mb_per_second
    )
    return capacity, next(rates)


def _at_least(gib: int) -> int:
    return SMALLEST_GIB if gib <= SMALLEST_GIB else math.ceil(gib / STEP_GIB) * STEP_GIB


def lustre_zone(case: AwsCase) -> str:
    """The zone that is asked for, else that of most GPU nodes, the first of them if even."""
    if case.section.weights.zone is not None:
        return case.section.weights.zone
    zones = case.section.network.zones
    counts: Counter[str] = Counter()
    for asked, pool in zip(case.loaded.environment.node_pools, case.pools, strict=True):
        for one, nodes in spread(pool.nodes, zones_of(case, asked)):
            counts[one] += nodes
    return max(zones, key=lambda zone: (counts[zone], -zones.index(zone)))
