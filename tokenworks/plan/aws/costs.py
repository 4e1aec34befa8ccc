"""What the environment costs by the hour, part by part, where prices with a source are known."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tokenworks.environment.cost import Cost
from tokenworks.facts import aws_prices
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.facts.aws_prices import PRICES
from tokenworks.facts.prices import CURRENCY, READ_ON, SOURCE
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.types import (
    CostPart,
    FileSystemPlan,
    NetworkPlan,
    NodeGroupPlan,
    StoragePlan,
)

BLOCK = "paid ahead when the block was bought, at the price of its offer"
NO_PRICE = "no public price was found; ask the AWS pricing calculator"


def cost_parts(
    case: AwsCase, network: NetworkPlan, groups: tuple[NodeGroupPlan, ...], storage: StoragePlan
) -> tuple[CostPart, ...]:
    """Every part that runs all the time; traffic, logs and requests come on top."""
    return (
        *_groups(case, groups),
        _part(case, "EKS control plane", aws_prices.CONTROL_PLANE, 1),
        *_network(case, network),
        _part(case, "network load balancer", aws_prices.BALANCER, 1),
        _files(case, storage.file_system),
        _part(case, "KMS keys", aws_prices.KEY, len(storage.keys)),
    )


def _files(case: AwsCase, files: FileSystemPlan) -> CostPart:
    part, rate = f"{files.kind}, {files.capacity_gib.value} GiB", None
    if files.throughput_mb_per_second_per_tib is not None:
        rate = aws_prices.LUSTRE_GB_MONTH.get(files.throughput_mb_per_second_per_tib.value)
    if rate is None:
        return CostPart(part=part, count=1, usd_per_hour=None, source=NO_PRICE)
    return CostPart(
        part=part,
        count=1,
        usd_per_hour=rate.usd_per_hour * files.capacity_gib.value,
        source=f"{rate.source}{_elsewhere(case)}",
    )


def _groups(case: AwsCase, groups: tuple[NodeGroupPlan, ...]) -> Iterator[CostPart]:
    section = case.loaded.environment.cost or Cost()
    given = {price.instance: price for price in section.node_prices}
    for group in groups:
        name = f"{group.pool} in {group.zone_id}: {group.instance}"
        listed = aws_instances()[group.instance].usd_per_hour
        if group.capacity.kind == "CAPACITY_BLOCK":
            yield CostPart(part=name, count=group.nodes, usd_per_hour=None, source=BLOCK)
        elif group.instance in given and section.currency == CURRENCY:
            price = given[group.instance]
            yield CostPart(
                part=name,
                count=group.nodes,
                usd_per_hour=price.per_hour * group.nodes,
                source=f"{price.source}, {price.date}",
            )
        else:
            yield CostPart(
                part=name,
                count=group.nodes,
                usd_per_hour=listed * group.nodes if listed is not None else None,
                source=f"{SOURCE}, {READ_ON}{_elsewhere(case)}" if listed else NO_PRICE,
            )


def _network(case: AwsCase, network: NetworkPlan) -> Iterator[CostPart]:
    zones = len(case.section.network.zones)
    interfaces = sum(1 for endpoint in network.endpoints if endpoint.kind == "Interface")
    yield _part(case, "interface endpoints in every zone", aws_prices.ENDPOINT, interfaces * zones)
    if network.egress.value == "nat":
        yield _part(case, "NAT gateways", aws_prices.NAT_GATEWAY, zones)
    if network.transit_gateway is not None:
        yield _part(case, "transit gateway attachment", aws_prices.TRANSIT, 1)


def _part(case: AwsCase, part: str, price: str, count: int) -> CostPart:
    known = PRICES[price]
    return CostPart(
        part=part,
        count=count,
        usd_per_hour=known.usd_per_hour * count,
        source=f"{known.source}{_elsewhere(case)}",
    )


def _elsewhere(case: AwsCase) -> str:
    """Prices are those of one region, and others are some tenths dearer."""
    if case.section.region == aws_prices.REGION:
        return ""
    return f" (price of {aws_prices.REGION})"


def known_per_hour(parts: tuple[CostPart, ...]) -> Decimal:
    """What the parts with a price cost together."""
    return sum((part.usd_per_hour for part in parts if part.usd_per_hour is not None), Decimal(0))
