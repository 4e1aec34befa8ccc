"""The network: endpoints, ways out, and a firewall that follows from declared dependencies."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.plan.aws.conftest import Changed
from tokenworks.plan.aws.firewall import reaches
from tokenworks.plan.aws.types import AwsPlan


def services(plan: AwsPlan) -> set[str]:
    return {one.service for one in plan.network.endpoints}


def test_a_network_without_internet_reaches_every_service_that_it_uses(example: AwsPlan) -> None:
    # docs.aws.amazon.com/eks, private-clusters; then what this platform uses besides.
    asked = {"ec2", "ecr.api", "ecr.dkr", "s3", "elasticloadbalancing", "logs", "sts", "eks-auth"}
    assert asked | {"eks", "kms", "ssm", "ssmmessages", "fsx", "autoscaling"} == services(example)


def test_the_file_system_decides_whose_endpoint_there_is(other: AwsPlan) -> None:
    assert "elasticfilesystem" in services(other)
    assert "fsx" not in services(other)


def test_an_access_subnet_has_room_for_every_endpoint(example: AwsPlan) -> None:
    assert sum(1 for one in example.network.endpoints if one.kind == "Interface") == 13


def test_only_s3_is_reached_by_a_gateway_and_only_its_buckets(example: AwsPlan) -> None:
    gateways = [one for one in example.network.endpoints if one.kind == "Gateway"]
    assert [one.service for one in gateways] == ["s3"]
    policy = cast("dict[str, Any]", gateways[0].policy)
    own, theirs = policy["Statement"]
    assert example.storage.bucket in "".join(own["Resource"])
    assert own["Condition"] == {"StringEquals": {"aws:PrincipalAccount": example.account}}
    assert theirs["Action"] == "s3:GetObject"
    assert not [arn for arn in own["Resource"] + theirs["Resource"] if arn.endswith(":::*")]


def test_with_a_way_to_the_internet_layers_in_any_bucket_can_be_read_but_not_written(
    other: AwsPlan,
) -> None:
    (gateway,) = [one for one in other.network.endpoints if one.kind == "Gateway"]
    own, theirs = cast("dict[str, Any]", gateway.policy)["Statement"]
    assert theirs["Resource"] == "arn:aws:s3:::*/*"
    assert theirs["Action"] == "s3:GetObject"
    assert not [arn for arn in own["Resource"] if "*/*" in arn]


def test_endpoints_serve_this_account_alone(example: AwsPlan) -> None:
    for one in example.network.endpoints:
        if one.kind == "Interface":
            statement = cast("Any", one.policy)["Statement"][0]
            assert statement["Condition"]["StringEquals"] == {
                "aws:PrincipalAccount": example.account
            }


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("10.128.0.0/16", "control-plane", 443),
        ("10.64.0.0/16", "endpoints", 443),
        ("nodes", "weights", 988),
        ("nodes", "weights", 1020),
        ("weights", "nodes", 988),
        ("weights", "weights", 1018),
    ],
)
def test_everything_that_is_declared_is_reached(
    example: AwsPlan, source: str, target: str, port: int
) -> None:
    assert reaches(example.network.rules, source, target, port)


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("10.0.0.0/10", "control-plane", 443),
        ("10.0.0.0/10", "nodes", 443),
        ("10.0.0.0/10", "nodes", 8000),
        ("nodes", "weights", 22),
        ("nodes", "weights", 2049),
        ("nodes", "nodes", 22),
        ("weights", "endpoints", 443),
        ("0.0.0.0/0", "nodes", 443),
    ],
)
def test_nothing_else_is_reached(example: AwsPlan, source: str, target: str, port: int) -> None:
    assert not reaches(example.network.rules, source, target, port)


def test_nobody_comes_in_from_anywhere(example: AwsPlan, other: AwsPlan) -> None:
    for plan in (example, other):
        inbound = [one for one in plan.network.rules if one.direction == "ingress"]
        assert not [one for one in inbound if one.peer in ("0.0.0.0/0", "::/0")]


def test_both_ends_of_a_connection_between_groups_let_it_pass(
    example: AwsPlan, other: AwsPlan
) -> None:
    for plan in (example, other):
        groups = set(plan.network.security_groups)
        for rule in plan.network.rules:
            if rule.peer in groups:
                ends = {(rule.group, rule.peer), (rule.peer, rule.group)}
                twin = "ingress" if rule.direction == "egress" else "egress"
                assert [
                    one
                    for one in plan.network.rules
                    if one.direction == twin
                    and (one.group, one.peer) in ends
                    and (one.ports, one.protocol) == (rule.ports, rule.protocol)
                ], rule


def test_every_rule_is_of_a_group_that_there_is(example: AwsPlan, other: AwsPlan) -> None:
    for plan in (example, other):
        groups = set(plan.network.security_groups)
        for rule in plan.network.rules:
            assert rule.group in groups
            assert rule.peer in groups or "/" in rule.peer
            assert rule.because


def test_adapters_talk_to_each_other_past_ip_and_only_where_there_are_some(
    example: AwsPlan, other: AwsPlan
) -> None:
    def to_itself(plan: AwsPlan) -> set[str]:
        return {
            one.direction
            for one in plan.network.rules
            if (one.group, one.peer, one.protocol) == ("nodes", "nodes", "-1")
        }

    assert to_itself(other) == {"ingress", "egress"}
    assert to_itself(example) == set()


def test_builders_have_a_group_only_where_images_are_built(
    example: AwsPlan, other: AwsPlan
) -> None:
    assert "builder" not in example.network.security_groups
    assert reaches(other.network.rules, "builder", "endpoints", 443)
    assert not [r for r in other.network.rules if r.group == "builder" and r.direction == "ingress"]


def test_ways_out_are_on_the_ports_that_registries_and_repositories_have(
    example: AwsPlan, other: AwsPlan, changed: Changed
) -> None:
    def out(plan: AwsPlan, group: str) -> set[int]:
        rules = [one for one in plan.network.rules if one.peer == "0.0.0.0/0"]
        return {one.ports[0] for one in rules if one.group == group and one.ports is not None}

    assert out(example, "nodes") == out(other, "nodes") == {443}
    assert out(other, "builder") == {443}
    plan = changed(("platform: aws\n", "platform: aws\nimage_registry: registry.local:5000/m\n"))
    assert out(plan, "nodes") == {443, 5000}


def test_a_transit_gateway_can_lead_to_callers_without_leading_to_the_internet(
    example: AwsPlan, other: AwsPlan
) -> None:
    assert example.network.egress.value == "none"
    assert example.network.transit_gateway == "tgw-0123456789abcdef0"
    assert "0.0.0.0/0" not in example.network.routed_cidrs
    assert other.network.egress.value == "nat"
    assert other.network.routed_cidrs == ("10.0.0.0/12",)


def test_everything_can_go_to_the_transit_gateway(changed: Changed) -> None:
    plan = changed(("egress: nat", "egress: transit-gateway"))
    assert plan.network.egress.value == plan.network.transit_gateway
    assert plan.network.routed_cidrs == ("0.0.0.0/0",)
