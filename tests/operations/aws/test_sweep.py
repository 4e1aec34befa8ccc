"""Sweeping a real (moto) account: ours goes, and everything of others beside it survives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.aws_fixtures import client
from tests.operations.aws.shop import Shop
from tests.operations.aws.world import SWEPT, Leftovers, leave_behind
from tokenworks.operations.aws_state import cloud_and_backend
from tokenworks.operations.aws_sweep import sweep_until_clean

OURS = {
    "elbv2.k8s.aws/cluster": "tokenworks-shop",
    "kubernetes.io/cluster/tokenworks-shop": "owned",
}
THEIRS = {
    "elbv2.k8s.aws/cluster": "tokenworks-bank",
    "kubernetes.io/cluster/tokenworks-bank": "owned",
}
NETWORK = {"tokenworks:environment": "shop", "tokenworks:program": "network"}


@pytest.fixture
def ours(shop_with_state: Shop) -> Leftovers:
    return leave_behind("10.64.0.0/16", "k8s-gateway", NETWORK, OURS)


@pytest.fixture
def untagged(shop_with_state: Shop) -> Leftovers:
    """What a cleanup by names would take: its names are ours, and its group is `efs-sg`'s kin."""
    return leave_behind("10.65.0.0/16", "tokenworks-shop-efs-sg", {}, {})


@pytest.fixture
def another(shop_with_state: Shop) -> Leftovers:
    bank = {"tokenworks:environment": "bank"}
    return leave_behind("10.66.0.0/16", "k8s-bank", bank, THEIRS | bank)


def test_ours_goes_and_everything_beside_it_survives(
    shop_with_state: Shop, ours: Leftovers, untagged: Leftovers, another: Leftovers
) -> None:
    done = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 0, done.output
    assert ours.missing() == SWEPT
    assert untagged.missing() == set()
    assert another.missing() == set()


def test_addresses_are_never_released(shop_with_state: Shop, ours: Leftovers) -> None:
    shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert "address" not in ours.missing()


def test_a_second_sweep_finds_nothing(shop_with_state: Shop, ours: Leftovers) -> None:
    shop_with_state.run("aws", "sweep", "shop", "--yes")
    again = shop_with_state.run("aws", "sweep", "shop")
    assert again.exit_code == 0
    assert "nothing to delete" in again.stdout


def make_cluster(network: Leftovers) -> None:
    (subnet,) = client("ec2").describe_subnets(
        Filters=[{"Name": "vpc-id", "Values": [network.vpc]}]
    )["Subnets"]
    client("eks").create_cluster(
        name="tokenworks-shop",
        roleArn="arn:aws:iam::123456789012:role/x",
        resourcesVpcConfig={"subnetIds": [subnet["SubnetId"]]},
    )


def sweep_as_down_does(shop: Shop, *, with_data: bool) -> list[str]:
    """Volumes that are kept for their data; any wait would be an error."""
    cloud, backend = cloud_and_backend(shop.workspace, "shop")
    kept = sweep_until_clean(
        cloud, backend, lambda _: None, with_data=with_data, patience_seconds=0
    )
    return [one.id for one in kept]


@pytest.mark.parametrize("with_data", [False, True])
def test_volumes_stay_while_the_cluster_exists_and_nobody_waits_for_them(
    shop_with_state: Shop, ours: Leftovers, with_data: bool
) -> None:
    make_cluster(ours)
    assert sweep_as_down_does(shop_with_state, with_data=with_data) == []
    shown = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert shown.exit_code == 0, shown.output
    assert ours.volume in shown.stdout
    assert "stays while the cluster exists" in shown.stdout
    assert "volume" not in ours.missing()


def test_volumes_of_claims_go_with_data_alone(shop_with_state: Shop, ours: Leftovers) -> None:
    assert sweep_as_down_does(shop_with_state, with_data=False) == [ours.volume]
    assert ours.missing() == SWEPT - {"volume"}
    assert sweep_as_down_does(shop_with_state, with_data=True) == []
    assert ours.missing() == SWEPT


def test_a_sweep_that_asks_says_which_volumes_may_hold_data(
    shop_with_state: Shop, ours: Leftovers
) -> None:
    done = shop_with_state.run("aws", "sweep", "shop", typed="n\n")
    assert f"may hold data of claims: {ours.volume}" in done.stdout


def test_nothing_goes_without_a_yes_and_the_table_says_what_would(
    shop_with_state: Shop, ours: Leftovers
) -> None:
    done = shop_with_state.run("aws", "sweep", "shop", typed="n\n")
    assert done.exit_code == 1
    assert ours.volume in done.stdout
    assert "kubernetes.io/cluster/tokenworks-shop=owned" in done.stdout
    assert ours.missing() == set()


def test_json_alone_only_tells(shop_with_state: Shop, ours: Leftovers) -> None:
    done = shop_with_state.run("aws", "sweep", "shop", "--json")
    assert done.exit_code == 0
    kinds = [step["kind"] for step in json.loads(done.stdout)["steps"]]
    assert kinds == [
        "load balancer", "target group", "network interface", "security group", "volume"
    ]  # fmt: skip
    assert ours.missing() == set()


def test_a_call_that_fails_ends_with_1_and_names_what_is_left(
    shop_with_state: Shop, ours: Leftovers, refused: set[str]
) -> None:
    refused.add("DeleteNetworkInterface")
    done = shop_with_state.run("aws", "sweep", "shop", "--yes", "--json")
    assert done.exit_code == 1
    assert f"network interface {ours.interface}: UnauthorizedOperation" in done.stderr
    assert "tokenworks aws sweep shop` again" in done.stderr
    assert ours.missing() >= SWEPT - {"interface", "group"}, "one failure stops nothing else"
    assert "interface" not in ours.missing()
    failed = json.loads(done.stdout)["swept"]["failed"]
    assert ours.interface in [one["step"]["id"] for one in failed]


@pytest.mark.parametrize("listing", ["DescribeVolumes", "DescribeSecurityGroupRules"])
def test_half_an_inventory_is_none(
    shop_with_state: Shop, ours: Leftovers, refused: set[str], listing: str
) -> None:
    refused.add(listing)
    done = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert "give the role that you act as this permission" in done.stderr
    refused.clear()
    assert ours.missing() == set()


def test_a_load_balancer_that_serves_is_left_alone(shop_with_state: Shop, ours: Leftovers) -> None:
    client("elbv2").register_targets(
        TargetGroupArn=ours.targets, Targets=[{"Id": "10.64.0.10", "Port": 443}]
    )
    done = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert "healthy targets" in done.stderr
    assert not {"balancer", "targets"} & ours.missing()


def test_a_group_that_a_strangers_rule_refers_to_stays_and_so_does_the_rule(
    shop_with_state: Shop, ours: Leftovers
) -> None:
    ec2 = client("ec2")
    stranger = ec2.create_security_group(
        VpcId=ours.vpc, GroupName="efs-sg", Description="of others"
    )["GroupId"]
    admits = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049}
    pair = [{**admits, "UserIdGroupPairs": [{"GroupId": ours.group}]}]
    ec2.authorize_security_group_ingress(GroupId=stranger, IpPermissions=pair)
    done = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert f"of {stranger} refers to it" in done.stderr
    assert "group" not in ours.missing()
    (left,) = ec2.describe_security_groups(GroupIds=[stranger])["SecurityGroups"]
    assert left["IpPermissions"]
    assert "carries no tag of ours" in done.stdout


def test_nothing_is_swept_while_the_serving_stack_has_resources(
    shop_with_state: Shop, ours: Leftovers
) -> None:
    state = {"checkpoint": {"latest": {"resources": [{"urn": "urn:x", "type": "t"}]}}}
    client("s3").put_object(
        Bucket="shop-state",
        Key=".pulumi/stacks/tokenworks/shop-serving.json",
        Body=json.dumps(state).encode(),
    )
    done = shop_with_state.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert "shop-serving has 1 resources" in done.stderr
    assert ours.missing() == set()


def test_the_wrong_account_is_refused_before_anything_is_read(shop: Shop, tmp_path: Path) -> None:
    file = shop.workspace.stacks / "shop.yaml"
    text = file.read_text("utf-8")
    file.write_text(text.replace("123456789012", "210987654321"), "utf-8")
    done = shop.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert "its file says 210987654321" in done.stderr


def test_without_a_state_bucket_the_way_on_is_bootstrap(shop: Shop) -> None:
    done = shop.run("aws", "sweep", "shop", "--yes")
    assert done.exit_code == 1
    assert "tokenworks aws bootstrap shop" in done.stderr


def test_an_environment_elsewhere_has_nothing_to_sweep(shop: Shop) -> None:
    done = shop.run("aws", "sweep", "local")
    assert done.exit_code == 1
    assert "simulated has nothing in AWS" in done.stderr
