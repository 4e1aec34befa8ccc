"""Instance types as EC2 sees them: network cards, addresses, fabric adapters, disks, list prices.

Source of ``aws_instances.csv``: aws/karpenter-provider-aws at 1d927085, generated there from EC2's
own answers: ``instancetype/zz_generated.vpclimits.go`` (interfaces of network card 0, addresses of
an interface, network cards), ``reference/instance-types.md`` (adapters, disks, processors, memory,
pods), ``pricing/zz_generated.pricing_aws.go`` (on-demand Linux in us-east-1, 2026-07-20). Memory is
in MiB, disks are in GB (10**9 bytes).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class AwsInstance:
    """One instance type. The VPC CNI gives pods addresses of network card 0 only.

    ``addresses_per_interface`` counts the interface's own; ``usd_per_hour`` is None where the list
    has no price.
    """

    name: str
    vcpus: int
    memory_mib: int
    card0_interfaces: int
    addresses_per_interface: int
    network_cards: int
    efa: int
    nvme_gb: int
    max_pods: int
    usd_per_hour: Decimal | None


@cache
def aws_instances() -> Mapping[str, AwsInstance]:
    """Every known instance type by its name, with and without GPUs."""
    text = resources.files(__package__).joinpath("aws_instances.csv").read_text("utf-8")
    return {row["instance"]: _instance(row) for row in csv.DictReader(text.splitlines())}


def _instance(row: dict[str, str]) -> AwsInstance:
    return AwsInstance(
        name=row["instance"],
        vcpus=int(row["vcpus"]),
        memory_mib=int(row["memory_mib"]),
        card0_interfaces=int(row["card0_interfaces"]),
        addresses_per_interface=int(row["addresses_per_interface"]),
        network_cards=int(row["network_cards"]),
        efa=int(row["efa"]),
        nvme_gb=int(row["nvme_gb"]),
        max_pods=int(row["max_pods"]),
        usd_per_hour=Decimal(row["usd_per_hour"]) if row["usd_per_hour"] else None,
    )
