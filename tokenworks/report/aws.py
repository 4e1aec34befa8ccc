"""The AWS side of a plan as tables: network, firewall, nodes, versions, cost by part, quotas."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from tokenworks.plan.aws.costs import known_per_hour
from tokenworks.plan.aws.support import support_warnings
from tokenworks.plan.aws.types import AwsPlan, FirewallRule, NodeGroupPlan
from tokenworks.report.tables import filled


def aws_tables(plan: AwsPlan, today: datetime.date) -> Iterator[RenderableType]:
    """Every table; ``today`` decides whether the end of a version's support is near."""
    yield _subnets(plan)
    yield _decisions(plan)
    yield _firewall(plan)
    yield _nodes(plan)
    yield _versions(plan, today)
    yield _costs(plan)
    yield _quotas(plan)
    yield from (f"warning: {warning}" for warning in support_warnings(plan, today))


def _subnets(plan: AwsPlan) -> Table:
    network = plan.network
    rows = [
        (one.role, one.zone_id, one.cidr, _PURPOSES[one.role])
        for one in sorted(network.subnets, key=lambda one: (one.zone_id, one.role))
    ]
    title = f"aws: account {plan.account}, {plan.region}, network {network.cidr}"
    return filled(title, ("subnet", "zone", "addresses", "for"), rows)


_PURPOSES = {
    "nodes": "nodes and pods",
    "access": "control plane, endpoints, file system, load balancer",
    "public": "NAT gateways, nothing else",
}


def _decisions(plan: AwsPlan) -> Table:
    network, files, balancer = plan.network, plan.storage.file_system, plan.balancer
    services = ", ".join(one.service for one in network.endpoints)
    rows = [
        ("egress", network.egress.value, network.egress.because),
        ("endpoints", services, "AWS is reached inside the network"),
        (files.kind, f"{files.capacity_gib.value} GiB", files.capacity_gib.because),
    ]
    rate = files.throughput_mb_per_second_per_tib
    if rate is not None:
        rows.append(("its throughput", f"{rate.value} MB/s/TiB", rate.because))
    keeps = balancer.preserves_client_address
    rows.append(("callers' addresses", "kept" if keeps.value else "replaced", keeps.because))
    rows.append(("may call", ", ".join(balancer.source_ranges), "aws.network.callers"))
    return filled("aws: decisions", ("decision", "value", "because"), rows)


def _firewall(plan: AwsPlan) -> Table:
    rows = [
        (rule.peer, rule.group, _ports(rule), rule.because)
        if rule.direction == "ingress"
        else (rule.group, rule.peer, _ports(rule), rule.because)
        for rule in plan.network.rules
        if rule.direction == "ingress" or "/" in rule.peer
    ]
    return filled("aws: who may reach whom", ("from", "to", "ports", "because"), rows)


def _ports(rule: FirewallRule) -> str:
    if rule.ports is None:
        return "all"
    first, last = rule.ports
    return f"{rule.protocol} {first}" if first == last else f"{rule.protocol} {first}-{last}"


def _nodes(plan: AwsPlan) -> Table:
    rows = [
        (
            group.pool,
            group.zone_id,
            str(group.nodes),
            group.instance,
            _had(group),
            group.image or group.release_version or "",
            str(group.max_pods.value),
            str(sum(1 for one in group.interfaces if one.kind != "interface") or "none"),
        )
        for group in plan.node_groups
    ]
    headings = ("pool", "zone", "nodes", "instance", "capacity", "image", "pods", "adapters")
    return filled("aws: node groups", headings, rows)


def _had(group: NodeGroupPlan) -> str:
    words = {"ON_DEMAND": "on demand", "RESERVATION": "reserved", "CAPACITY_BLOCK": "block"}
    reserved = group.capacity.reservation
    return words[group.capacity.kind] + (f" {reserved}" if reserved else "")


def _versions(plan: AwsPlan, today: datetime.date) -> Table:
    cluster = plan.cluster
    left = (cluster.support_ends - today).days
    rows = [("Kubernetes", cluster.version, f"supported until {cluster.support_ends}, {left} days")]
    for add_on in cluster.add_ons:
        when = "before the nodes" if add_on.before_nodes else "after the nodes"
        rows.append((add_on.name, add_on.version, f"add-on, {when}"))
    rows += [(chart.name, chart.version, f"chart, {chart.digest[:19]}…") for chart in plan.charts]
    return filled("aws: versions", ("what", "version", ""), rows)


def _costs(plan: AwsPlan) -> Table:
    rows = [
        (
            part.part,
            str(part.count),
            "unknown" if part.usd_per_hour is None else f"{part.usd_per_hour:,.4f}",
            part.source,
        )
        for part in plan.costs
    ]
    unknown = sum(1 for part in plan.costs if part.usd_per_hour is None)
    total = f"{known_per_hour(plan.costs):,.4f}"
    rows.append(("known together", "", total, f"{unknown} parts without a price come on top"))
    return filled("aws: cost by the hour", ("part", "count", "USD an hour", "price from"), rows)


def _quotas(plan: AwsPlan) -> Table:
    rows = [
        (one.name, f"{one.service} {one.code}", f"{one.needed} {one.unit}", one.because)
        for one in plan.quotas
    ]
    return filled("aws: service quotas that are taken", ("quota", "code", "needed", "for"), rows)
