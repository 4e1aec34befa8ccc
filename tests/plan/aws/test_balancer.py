"""The internal load balancer: who may call, and what the gateway's pods see of it."""

from __future__ import annotations

from tests.plan.aws.conftest import Changed
from tokenworks.plan.aws.balancer import PREFIX
from tokenworks.plan.aws.types import AwsPlan


def said(plan: AwsPlan) -> dict[str, str]:
    return {key.removeprefix(PREFIX): text for key, text in plan.balancer.annotations.items()}


def access_of(plan: AwsPlan) -> set[str]:
    return {one.cidr for one in plan.network.subnets if one.role == "access"}


def test_it_is_internal_and_of_the_controller_that_obeys_its_annotations(example: AwsPlan) -> None:
    assert example.balancer.class_name == "service.k8s.aws/nlb"
    assert said(example)["scheme"] == "internal"
    # The older annotation would win or lose by the order in which both are changed (LBC#1964).
    assert not {"type", "internal"} & set(said(example))


def test_callers_addresses_and_ranges_are_one_decision(example: AwsPlan, other: AwsPlan) -> None:
    assert said(example)["target-group-attributes"] == "preserve_client_ip.enabled=true"
    assert example.balancer.source_ranges == ("10.0.0.0/10",)
    assert set(example.balancer.seen_ranges) == {"10.0.0.0/10", *access_of(example)}
    assert "proxy-protocol" not in said(example)
    assert said(other)["target-group-attributes"] == "preserve_client_ip.enabled=false"
    assert said(other)["proxy-protocol"] == "*"
    assert set(other.balancer.seen_ranges) == access_of(other)
    assert other.balancer.source_ranges == ("10.1.0.0/16", "10.64.0.0/18")


def test_without_the_proxy_protocol_pods_must_see_who_calls(changed: Changed) -> None:
    plan = changed(("proxy_protocol: true", "proxy_protocol: false"))
    assert plan.balancer.preserves_client_address.value
    assert set(plan.balancer.seen_ranges) == {*plan.balancer.source_ranges, *access_of(plan)}


def test_health_checks_come_from_the_load_balancers_own_subnets_whoever_may_call(
    example: AwsPlan, other: AwsPlan
) -> None:
    """A pod that they cannot reach gets no callers, and the controller knows no NetworkPolicies."""
    for plan in (example, other):
        assert access_of(plan)
        assert access_of(plan) <= set(plan.balancer.seen_ranges)


def test_silent_streams_outlive_the_default_of_350_seconds(example: AwsPlan) -> None:
    assert said(example)["listener-attributes.TCP-443"] == "tcp.idle_timeout.seconds=3600"


def test_what_it_makes_proves_whose_it_is(example: AwsPlan) -> None:
    assert said(example)["additional-resource-tags"] == "tokenworks:environment=example-aws"
