"""Which zones a pool's nodes are in, and how many in each."""

from __future__ import annotations

from collections.abc import Iterator

from tokenworks.environment.sections import NodePool
from tokenworks.facts.aws_zones import offerings
from tokenworks.plan.aws.case import AwsCase


def spread(nodes: int, zones: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Nodes of each zone: as even as can be, the first zones one more; none without a node."""
    each, more = divmod(nodes, len(zones))
    for index, zone in enumerate(zones):
        count = each + (1 if index < more else 0)
        if count:
            yield zone, count


def zones_of(case: AwsCase, pool: NodePool) -> tuple[str, ...]:
    """The zone that a pool names, else every zone of the network that offers its instance type."""
    zone = zone_of(pool)
    if zone is not None:
        return (zone,)
    return offered(case.section.network.zones, pool.kind)


def zone_of(pool: NodePool) -> str | None:
    """The one zone of a pool: that of its reserved capacity, or the one that it names."""
    return pool.capacity.zone if pool.capacity is not None else pool.zone


def offered(zones: tuple[str, ...], instance: str) -> tuple[str, ...]:
    """The zones that offer an instance type; all of them where nothing is known of it."""
    known = offerings().get(instance)
    found = tuple(zone for zone in zones if zone in known) if known else zones
    return found or zones
