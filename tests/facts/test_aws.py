"""What is known of AWS: whole, and in step with what else is known."""

from __future__ import annotations

from tokenworks.facts import aws_prices, aws_quotas
from tokenworks.facts.aws_instances import aws_instances
from tokenworks.facts.aws_zones import NO_CONTROL_PLANE, offerings, zones
from tokenworks.facts.instances import instances
from tokenworks.facts.prices import list_prices


def test_every_gpu_instance_is_known_with_its_network() -> None:
    for name, shape in instances().items():
        found = aws_instances()[name]
        assert (found.vcpus, found.memory_mib) == (shape.vcpus, shape.host_memory_gib * 1024)


def test_prices_are_the_same_in_both_tables() -> None:
    for name, price in list_prices().items():
        assert aws_instances()[name].usd_per_hour == price.per_hour


def test_zones_are_named_after_their_region_and_offer_only_there() -> None:
    known = {zone for found in zones().values() for zone in found}
    assert len(known) == sum(len(found) for found in zones().values())
    unknown = {zone for found in offerings().values() for zone in found} - known
    # moto's list of offerings has one zone of London that its list of zones has not.
    assert unknown <= {"euw2-az4"}


def test_other_partitions_are_left_out() -> None:
    assert not [region for region in zones() if region.startswith(("cn-", "us-gov-"))]


def test_zones_that_eks_refuses_are_the_three_that_it_names() -> None:
    assert {"use1-az3", "usw1-az2", "cac1-az3"} == NO_CONTROL_PLANE


def test_every_price_has_a_source() -> None:
    for price in aws_prices.PRICES.values():
        assert price.usd_per_hour > 0
        assert price.source


def test_no_two_quotas_have_one_code() -> None:
    found = [one for one in vars(aws_quotas).values() if isinstance(one, aws_quotas.Quota)]
    assert len({one.code for one in found}) == len(found) > 5
