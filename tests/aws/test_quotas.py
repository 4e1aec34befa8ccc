"""Needs against quotas, and that nothing unknown counts as enough."""

from __future__ import annotations

import pytest

from tests.aws_fixtures import TARGET, base_image, client
from tokenworks.aws.client import Cloud, connect
from tokenworks.aws.quota_use import COUNTERS, family
from tokenworks.aws.quotas import Quota, judge_quota, read_quotas
from tokenworks.facts import aws_quotas
from tokenworks.plan.aws.types import QuotaNeed

VPCS = QuotaNeed(
    service="vpc", code="L-F678F1CE", name="VPCs per Region", needed=1, unit="VPCs", because="one"
)
CLUSTERS = QuotaNeed(
    service="eks", code="L-1194D53C", name="Clusters", needed=1, unit="clusters", because="one"
)


@pytest.mark.parametrize(
    ("limit", "used", "already_up", "enough"),
    [
        (5, 4, False, True),
        (5, 5, False, False),
        (0, 0, False, False),
        (0, None, False, False),
        (5, None, False, None),
        (None, None, False, None),
        # What is used counts the environment itself, so that it cannot be told.
        (5, 5, True, None),
        (5, 4, True, True),
        (0, 5, True, False),
    ],
)
def test_a_need_is_enough_only_where_that_is_known(
    limit: float | None, used: float | None, already_up: bool, enough: bool | None
) -> None:
    quota = Quota(limit=limit, used=used, reason="why not")
    verdict = judge_quota(VPCS, quota, already_up=already_up)
    assert verdict.enough is enough
    assert verdict.because


@pytest.mark.parametrize(
    ("instance", "code"),
    [
        ("p5.48xlarge", "L-417A185B"),
        ("p6-b200.48xlarge", "L-417A185B"),
        ("g6e.12xlarge", "L-DB2E81BA"),
        ("gr6.4xlarge", "L-DB2E81BA"),
        ("m7i.2xlarge", "L-1216C47A"),
        ("trn2.48xlarge", None),
        ("inf2.xlarge", None),
    ],
)
def test_an_instance_counts_towards_the_quota_of_its_family(
    instance: str, code: str | None
) -> None:
    assert family(instance) == code


def test_networks_are_counted_and_compared_with_the_accounts_quota(cloud: Cloud) -> None:
    ((_, quota),) = read_quotas(cloud, [VPCS])
    assert quota == Quota(limit=5.0, used=1.0), "moto's account has a default network"
    for number in range(4):
        client("ec2").create_vpc(CidrBlock=f"10.{number}.0.0/16")
    ((_, quota),) = read_quotas(cloud, [VPCS])
    assert not judge_quota(VPCS, quota, already_up=False).enough


def test_the_use_of_every_quota_that_a_plan_can_need_is_counted(cloud: Cloud) -> None:
    known = {each.code for each in vars(aws_quotas).values() if isinstance(each, aws_quotas.Quota)}
    assert known == set(COUNTERS)
    assert all(count(cloud) >= 0 for count in COUNTERS.values())


def test_gateways_count_in_the_zone_that_has_the_most(cloud: Cloud) -> None:
    ec2 = client("ec2")
    subnets = {each["AvailabilityZone"]: each for each in ec2.describe_subnets()["Subnets"]}
    for zone, number in (("us-east-1a", 2), ("us-east-1b", 1)):
        for _ in range(number):
            address = ec2.allocate_address(Domain="vpc")["AllocationId"]
            ec2.create_nat_gateway(SubnetId=subnets[zone]["SubnetId"], AllocationId=address)
    assert COUNTERS[aws_quotas.NAT_GATEWAYS.code](cloud) == 2
    assert COUNTERS[aws_quotas.ADDRESSES.code](cloud) == 3


def test_processors_of_running_instances_are_counted_by_family(cloud: Cloud) -> None:
    ec2 = client("ec2")
    image = base_image()
    run = {"ImageId": image, "MinCount": 1, "MaxCount": 1}
    ec2.run_instances(InstanceType="g6.4xlarge", **run)
    stopped = ec2.run_instances(InstanceType="g6.4xlarge", **run)["Instances"][0]["InstanceId"]
    ec2.stop_instances(InstanceIds=[stopped])
    ec2.run_instances(InstanceType="p5.48xlarge", **run)
    assert COUNTERS["L-DB2E81BA"](cloud) == 16
    assert COUNTERS["L-417A185B"](cloud) == 192
    assert COUNTERS["L-1216C47A"](cloud) == 0


def test_a_quota_that_aws_does_not_tell_is_unknown_with_the_reason(
    refused: set[str], account: str
) -> None:
    """Moto knows the quotas of VPC alone; the proxy before it knows no other either."""
    cloud = connect(TARGET)
    ((_, quota),) = read_quotas(cloud, [CLUSTERS])
    assert quota.limit is None
    assert judge_quota(CLUSTERS, quota, already_up=False).enough is None
    assert "NoSuchResourceException" in quota.reason
