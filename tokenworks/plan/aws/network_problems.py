"""Why a network cannot be made as it is asked for: regions, zones, addresses, ways in and out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from ipaddress import IPv4Network

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import Problem
from tokenworks.facts.aws_zones import NO_CONTROL_PLANE, zones
from tokenworks.plan.aws.subnets import LARGEST_PREFIX, MOST_ZONES, SMALLEST_PREFIX

FEWEST_ZONES = 2
"""docs.aws.amazon.com/eks, network-reqs."""
PRIVATE = tuple(
    IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
"""Addresses that are routed nowhere in public: RFC 1918, and RFC 6598 for a provider's own."""
SERVICE_PREFIXES = range(12, 25)
"""Sizes of the services' network: EKS API, KubernetesNetworkConfigRequest."""


def network_problems(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """Everything about region, zones and addresses that needs no node pool to be judged."""
    yield from _zones(loaded, section)
    yield from _sizes(loaded, section)
    yield from _overlaps(loaded, section)
    yield from _ways(loaded, section)


def _zones(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    known = zones().get(section.region)
    if known is None:
        near = difflib.get_close_matches(section.region, zones(), n=3, cutoff=0)
        yield loaded.source.problem(
            ("aws", "region"),
            given=section.region,
            reason="is no region that tokenworks knows",
            remedy=f"use one such as {', '.join(near)}; known are those in facts/aws_zones.csv",
        )
        return
    asked = section.network.zones
    if not FEWEST_ZONES <= len(asked) <= MOST_ZONES:
        yield loaded.source.problem(
            ("aws", "network", "zones"),
            given=f"{len(asked)} of them",
            reason="cannot carry a cluster",
            remedy=f"name {FEWEST_ZONES} to {MOST_ZONES}: EKS wants its control plane in two",
        )
    for index, zone in enumerate(asked):
        path: KeyPath = ("aws", "network", "zones", index)
        usable = [one for one in known if one not in NO_CONTROL_PLANE]
        use = f"use one of: {', '.join(usable)}"
        if zone in NO_CONTROL_PLANE:
            reason = "is refused by EKS for its control plane"
            yield loaded.source.problem(path, given=zone, reason=reason, remedy=use)
        elif zone not in known:
            reason = f"is no zone of {section.region}"
            yield loaded.source.problem(path, given=zone, reason=reason, remedy=use)
        elif asked.index(zone) != index:
            yield loaded.source.problem(
                path,
                given=zone,
                reason=f"is already aws.network.zones[{asked.index(zone)}]",
                remedy="name each zone once",
            )


def _sizes(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    network = section.network
    whole, services = IPv4Network(network.cidr), IPv4Network(network.service_cidr)
    if not LARGEST_PREFIX <= whole.prefixlen <= SMALLEST_PREFIX:
        yield loaded.source.problem(
            ("aws", "network", "cidr"),
            given=network.cidr,
            reason="cannot be cut into subnets"
            if whole.prefixlen > SMALLEST_PREFIX
            else "is larger than a VPC may be",
            remedy=f"use a network from /{LARGEST_PREFIX} to /{SMALLEST_PREFIX}",
        )
    if services.prefixlen not in SERVICE_PREFIXES:
        yield loaded.source.problem(
            ("aws", "network", "service_cidr"),
            given=network.service_cidr,
            reason="is no size that EKS takes",
            remedy=f"use a network from /{SERVICE_PREFIXES[0]} to /{SERVICE_PREFIXES[-1]}",
        )
    for path, cidr in _named(section):
        if not _private(cidr):
            yield loaded.source.problem(
                path,
                given=cidr,
                reason="is not private, and nothing here is reached from the internet",
                remedy="use networks within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or "
                "100.64.0.0/10",
            )


def _private(cidr: str) -> bool:
    return any(IPv4Network(cidr).subnet_of(private) for private in PRIVATE)


def _named(section: Aws) -> Iterator[tuple[KeyPath, str]]:
    """Every network that must be private, with its key."""
    network = section.network
    yield ("aws", "network", "cidr"), network.cidr
    yield ("aws", "network", "service_cidr"), network.service_cidr
    yield from _listed("callers", network.callers)
    yield from _listed("operators", network.operators)


def _listed(key: str, cidrs: tuple[str, ...]) -> Iterator[tuple[KeyPath, str]]:
    for index, cidr in enumerate(cidrs):
        yield ("aws", "network", key, index), cidr


def _overlaps(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """Addresses that would mean two things."""
    network = section.network
    services = IPv4Network(network.service_cidr)
    others = sorted({network.cidr, *network.callers, *network.operators})
    meant = [one for one in others if _private(one) and services.overlaps(IPv4Network(one))]
    if meant:
        yield loaded.source.problem(
            ("aws", "network", "service_cidr"),
            given=network.service_cidr,
            reason=f"overlaps with {', '.join(meant)}, so that answers would never leave the "
            "cluster",
            remedy="choose a network that is used nowhere else",
        )
    for key, cidrs in (("callers", network.callers), ("operators", network.operators)):
        for index, cidr in enumerate(cidrs):
            for earlier in cidrs[:index]:
                if IPv4Network(cidr).overlaps(IPv4Network(earlier)):
                    yield loaded.source.problem(
                        ("aws", "network", key, index),
                        given=cidr,
                        reason=f"overlaps with {earlier}",
                        remedy="keep the larger of them",
                    )


def _ways(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """A transit gateway that is asked for, and networks that no route leads back to."""
    network = section.network
    whole = IPv4Network(network.cidr)
    gateway = network.transit_gateway
    if network.egress == "transit-gateway" and gateway is None:
        yield loaded.source.problem(
            ("aws", "network", "egress"),
            given="transit-gateway",
            reason="names a gateway that is not given",
            remedy="add aws.network.transit_gateway with its id",
        )
    routes = gateway.routes if gateway else ()
    for index, route in enumerate(routes):
        if IPv4Network(route).subnet_of(whole):
            yield loaded.source.problem(
                ("aws", "network", "transit_gateway", "routes", index),
                given=route,
                reason=f"lies within {network.cidr}, which is never routed elsewhere",
                remedy="remove it, or choose another aws.network.cidr",
            )
    if network.egress == "transit-gateway":
        return
    for path, cidr in (
        *_listed("callers", network.callers),
        *_listed("operators", network.operators),
    ):
        led = [whole, *(IPv4Network(route) for route in routes)]
        if _private(cidr) and not any(IPv4Network(cidr).subnet_of(one) for one in led):
            yield loaded.source.problem(
                path,
                given=cidr,
                reason="is reached by no route, so that answers would not come back",
                remedy="add it to aws.network.transit_gateway.routes, or narrow it",
            )
