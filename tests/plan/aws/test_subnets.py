"""Subnet arithmetic: who gets which addresses, and whether they are enough."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.facts.aws_instances import AwsInstance, aws_instances
from tokenworks.plan.aws import subnets
from tokenworks.plan.aws.types import AwsPlan

ZONES = [f"use1-az{number}" for number in range(1, 7)]
prefixes = st.integers(subnets.LARGEST_PREFIX, subnets.SMALLEST_PREFIX)
vpcs = st.builds(
    lambda prefix, number: str(IPv4Network((number << (32 - prefix), prefix))),
    prefixes,
    st.integers(0, 2**16 - 1),
)
instances = st.sampled_from(list(aws_instances().values()))


def planned(cidr: str, zones: int, *, with_public: bool = True) -> list[IPv4Network]:
    found = subnets.subnets("p", "c", cidr, ZONES[:zones], with_public=with_public)
    return [IPv4Network(one.cidr) for one in found]


@given(vpcs, st.integers(2, subnets.MOST_ZONES))
def test_subnets_lie_in_their_network_and_never_overlap(cidr: str, zones: int) -> None:
    found = planned(cidr, zones)
    assert len(found) == 3 * zones
    assert all(one.subnet_of(IPv4Network(cidr)) for one in found)
    assert not [pair for pair in combinations(found, 2) if pair[0].overlaps(pair[1])]


@given(vpcs, st.integers(2, subnets.MOST_ZONES - 1))
def test_a_zone_added_at_the_end_moves_no_other_subnet(cidr: str, zones: int) -> None:
    before = subnets.subnets("p", "c", cidr, ZONES[:zones], with_public=True)
    after = subnets.subnets("p", "c", cidr, ZONES[: zones + 1], with_public=True)
    assert {one.name for one in before} < {one.name for one in after}
    where = {one.name: one.cidr for one in after}
    assert all(where[one.name] == one.cidr for one in before)


@given(vpcs)
def test_even_the_smallest_access_subnet_holds_everything_that_is_put_there(cidr: str) -> None:
    access = subnets.subnets("p", "c", cidr, ZONES, with_public=False)[6:]
    needed = (
        subnets.CONTROL_PLANE_ADDRESSES
        + subnets.BALANCER_ADDRESSES
        + 13  # endpoints, of which test_network counts every one
        + 8  # servers of the file system
    )
    assert all(one.role == "access" and subnets.usable(one.cidr) >= needed for one in access)


@given(st.integers(1, 9000))
def test_the_smallest_network_that_is_named_is_enough_and_the_next_one_is_not(needed: int) -> None:
    prefix = subnets.smallest_vpc(needed)
    held = {p: subnets.usable(planned(f"10.0.0.0/{p}", 2)[0].compressed) for p in range(16, 21)}
    if prefix is None:
        assert held[subnets.LARGEST_PREFIX] < needed
    else:
        assert held[prefix] >= needed
        assert prefix == subnets.SMALLEST_PREFIX or held[prefix + 1] < needed


@given(instances, st.booleans())
def test_no_node_takes_more_addresses_than_its_interfaces_can_have(
    shape: AwsInstance, with_efa: bool
) -> None:
    pods = subnets.pods_of(shape, with_efa=with_efa)
    assert 0 < pods <= min(subnets.MOST_PODS, shape.max_pods)
    taken = subnets.addresses_of(shape, pods)
    assert taken <= shape.card0_interfaces * shape.addresses_per_interface


@pytest.mark.parametrize(
    ("instance", "with_efa", "pods"),
    [
        ("p5.48xlarge", False, 100),  # amazon-eks-ami#1392
        ("p5.48xlarge", True, 51),
        ("p5en.48xlarge", False, 110),
        ("p6-b300.48xlarge", True, 110),  # its first card has no adapter
        ("m7i.2xlarge", False, 58),
        ("g4dn.xlarge", False, 29),
    ],
)
def test_pods_follow_from_the_interfaces_of_the_first_card(
    instance: str, with_efa: bool, pods: int
) -> None:
    assert subnets.pods_of(aws_instances()[instance], with_efa=with_efa) == pods


def test_every_maximum_of_pods_that_the_table_has_follows_from_its_interfaces() -> None:
    for shape in aws_instances().values():
        own = shape.card0_interfaces * (shape.addresses_per_interface - 1) + 2
        assert shape.max_pods == own, shape.name


def test_only_access_subnets_are_offered_to_load_balancers(example: AwsPlan) -> None:
    for one in example.network.subnets:
        assert ("kubernetes.io/role/internal-elb" in one.tags) == (one.role == "access")
        assert "kubernetes.io/role/elb" not in one.tags


def test_nothing_is_public_unless_nat_is_asked_for(example: AwsPlan, other: AwsPlan) -> None:
    assert not [one for one in example.network.subnets if one.role == "public"]
    public = [one for one in other.network.subnets if one.role == "public"]
    assert len(public) == len(other.zones)
