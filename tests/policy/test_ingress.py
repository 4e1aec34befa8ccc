"""Rules of security groups and network ACLs, searched for spellings that let the world in."""

from __future__ import annotations

import ipaddress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from policy import engines
from policy.networks import PRIVATE_RANGES, is_private
from policy.resources import UNKNOWN, Resource
from policy.rule import Verdict
from policy.rules.engine_ports_admit_only_private_sources import RULE

V4_ADDRESSES = st.integers(0, 2**32 - 1)
PORTS = st.integers(0, 65535)
TCP = st.sampled_from(["tcp", "TCP", "6", 6, 6.0, " tcp "])
EVERY_PROTOCOL = st.sampled_from(["-1", -1, -1.0, "all", "All", None])
OTHER_PROTOCOLS = st.sampled_from(["udp", "17", 17, "icmp", "1", "icmpv6", "58", "47", 47, "gre"])
# Each way of AWS's to write one rule: token, where the rule stands, and the name of its range.
FORMS = st.sampled_from(
    [
        ("aws:ec2/securityGroup:SecurityGroup", "ingress", "cidrBlocks", "protocol"),
        ("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "ingress", "cidrBlocks", "protocol"),
        ("aws:ec2/securityGroupRule:SecurityGroupRule", "", "cidrBlocks", "protocol"),
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "", "cidrIpv4", "ipProtocol"),
        ("aws-native:ec2:SecurityGroup", "securityGroupIngress", "cidrIp", "ipProtocol"),
        ("aws-native:ec2:SecurityGroupIngress", "", "cidrIp", "ipProtocol"),
    ]
)


def networks(prefixes: st.SearchStrategy[int]) -> st.SearchStrategy[ipaddress.IPv4Network]:
    return st.builds(
        lambda address, prefix: ipaddress.IPv4Network((address, prefix), strict=False),
        V4_ADDRESSES,
        prefixes,
    )


def verdicts(form: tuple[str, str, str, str], rule: dict[str, Any], *cidrs: object) -> list[str]:
    """Return what the rule finds in a group that admits the ranges by one form of AWS's."""
    type_, place, name, protocol = form
    body = {**rule, name: list(cidrs) if name == "cidrBlocks" else cidrs[0]}
    body[protocol] = body.pop("protocol")
    properties = {place: [body]} if place else body
    found = RULE.judge(Resource.of(type_, "group", properties))
    return [finding.verdict.value for finding in found]


def tcp(first: object, last: object) -> dict[str, Any]:
    return {"protocol": "tcp", "fromPort": first, "toPort": last}


@given(
    FORMS, TCP, st.sampled_from(sorted(engines.PORTS)), PORTS, PORTS, networks(st.integers(0, 7))
)
def test_a_range_of_ports_around_an_engines_is_open_however_it_is_written(
    form: tuple[str, str, str, str],
    protocol: object,
    port: int,
    below: int,
    above: int,
    network: ipaddress.IPv4Network,
) -> None:
    ends = {"fromPort": max(0, port - below), "toPort": float(min(65535, port + above))}
    assert verdicts(form, {"protocol": protocol, **ends}, str(network)) == ["fail"]
    words = {key: str(int(end)) for key, end in ends.items()}
    assert verdicts(form, {"protocol": protocol, **words}, str(network)) == ["fail"]


@given(FORMS, EVERY_PROTOCOL, PORTS, PORTS)
def test_all_protocols_are_open_whatever_ports_stand_beside_them(
    form: tuple[str, str, str, str], protocol: object, first: int, last: int
) -> None:
    rule = {"protocol": protocol, "fromPort": first, "toPort": last}
    assert verdicts(form, rule, "0.0.0.0/0") == ["fail"]
    assert verdicts(form, {"protocol": protocol}, "0.0.0.0/0") == ["fail"]


@given(FORMS, OTHER_PROTOCOLS, PORTS, PORTS)
def test_other_protocols_reach_no_engine(
    form: tuple[str, str, str, str], protocol: object, first: int, last: int
) -> None:
    rule = {"protocol": protocol, "fromPort": first, "toPort": last}
    assert verdicts(form, rule, "0.0.0.0/0") == []


@given(FORMS, PORTS, PORTS)
def test_ports_are_open_exactly_if_one_of_them_is_an_engines(
    form: tuple[str, str, str, str], one: int, other: int
) -> None:
    first, last = min(one, other), max(one, other)
    covers = any(first <= port <= last for port in engines.PORTS)
    assert verdicts(form, tcp(first, last), "0.0.0.0/0") == ["fail"] * covers


@given(st.integers(1, 8))
def test_the_internet_in_pieces_is_the_internet(depth: int) -> None:
    whole = ipaddress.ip_network("0.0.0.0/0")
    pieces = [piece for piece in whole.subnets(new_prefix=depth) if not is_private(str(piece))]
    group = ("aws:ec2/securityGroup:SecurityGroup", "ingress", "cidrBlocks", "protocol")
    assert verdicts(group, tcp(8000, 8000), *map(str, pieces)) == ["fail"] * len(pieces)


@given(networks(st.integers(0, 32)))
def test_a_range_is_private_exactly_if_all_its_addresses_are(
    network: ipaddress.IPv4Network,
) -> None:
    private = [one for one in PRIVATE_RANGES if isinstance(one, ipaddress.IPv4Network)]
    ends = (network.network_address, network.broadcast_address)
    assert is_private(str(network)) is any(all(end in one for end in ends) for one in private)
    if is_private(str(network)) and network.prefixlen < 32:
        assert all(is_private(str(half)) for half in network.subnets())


@given(V4_ADDRESSES, st.integers(0, 32))
def test_bits_beside_the_prefix_change_nothing(address: int, prefix: int) -> None:
    loose = f"{ipaddress.ip_address(address)}/{prefix}"
    strict = str(ipaddress.ip_network(loose, strict=False))
    assert is_private(loose) is is_private(strict)


@given(V4_ADDRESSES, st.integers(0, 32))
def test_an_ipv4_range_inside_ipv6_is_never_taken_for_a_private_one(
    address: int, prefix: int
) -> None:
    mapped = f"::ffff:{ipaddress.ip_address(address)}/{96 + prefix}"
    assert not is_private(mapped)
    assert not is_private(f"64:ff9b::{ipaddress.ip_address(address)}/{96 + prefix}")


@given(st.text(max_size=20))
def test_what_is_no_range_is_public(text: str) -> None:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        assert not is_private(text)


@given(
    st.lists(
        st.sampled_from(["10.0.0.0/8", "0.0.0.0/0", "198.51.100.0/24", "fd00::/8", UNKNOWN]),
        min_size=1,
        max_size=5,
    )
)
def test_no_source_hides_another(sources: list[object]) -> None:
    group = ("aws:ec2/securityGroup:SecurityGroup", "ingress", "cidrBlocks", "protocol")
    expected = {
        "10.0.0.0/8": [],
        "fd00::/8": [],
        UNKNOWN: [Verdict.UNDETERMINABLE],
    }
    assert verdicts(group, tcp(8000, 8000), *sources) == [
        verdict for source in sources for verdict in expected.get(source, [Verdict.FAIL])
    ]


@given(st.sampled_from(["protocol", "fromPort", "toPort"]), st.sampled_from(sorted(engines.PORTS)))
def test_a_part_that_is_not_known_lets_no_public_source_pass(part: str, port: int) -> None:
    group = ("aws:ec2/securityGroupRule:SecurityGroupRule", "", "cidrBlocks", "protocol")
    rule = {**tcp(port, port), part: UNKNOWN}
    assert verdicts(group, rule, "0.0.0.0/0", "10.0.0.0/8") == ["undeterminable"]
