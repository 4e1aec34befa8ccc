"""Regions, the ids of their zones, and which instance types each zone offers.

Sources. ``aws_zones.csv`` and ``aws_offerings.csv``: answers of DescribeAvailabilityZones and
DescribeInstanceTypeOfferings as getmoto/moto 5.2.5 keeps them (``moto/ec2/models`` and
``moto/ec2/resources/instance_type_offerings``), of the instance types in ``aws_instances.csv``;
read 2026-11-30. Regions of China and of the US government are other partitions, and are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

NO_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones whose subnets EKS refuses for its control plane: docs.aws.amazon.com/eks network-reqs."""


@cache
def zones() -> Mapping[str, tuple[str, ...]]:
    """Ids of the zones of each region, sorted."""
    return _lists("aws_zones.csv", "region")


@cache
def offerings() -> Mapping[str, tuple[str, ...]]:
    """Ids of the zones that offer an instance type; none where nothing is known."""
    return {name: found for name, found in _lists("aws_offerings.csv", "instance").items() if found}


def _lists(name: str, key: str) -> dict[str, tuple[str, ...]]:
    text = resources.files(__package__).joinpath(name).read_text("utf-8")
    return {row[key]: tuple(row["zones"].split()) for row in csv.DictReader(text.splitlines())}
