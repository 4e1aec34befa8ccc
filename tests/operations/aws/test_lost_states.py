"""A stack whose state is lost is never brought up a second time beside itself."""

from __future__ import annotations

import json

import pytest

from tests.aws_fixtures import client, tagged
from tests.operations.aws.shop import Shop
from tokenworks.errors import OperationError
from tokenworks.operations.aws_state import cloud_and_backend
from tokenworks.operations.aws_up import refuse_lost_states

NETWORK = {"tokenworks:environment": "shop", "tokenworks:program": "network"}


def look(shop: Shop) -> None:
    refuse_lost_states(*cloud_and_backend(shop.workspace, "shop"))


def network(tags: dict[str, str]) -> str:
    made = client("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", tags))
    return str(made["Vpc"]["VpcId"])


def test_an_empty_account_with_its_state_bucket_may_be_brought_up(shop_with_state: Shop) -> None:
    look(shop_with_state)


def test_resources_without_their_state_stop_an_update_with_both_ways_on(
    shop_with_state: Shop,
) -> None:
    vpc = network(NETWORK)
    with pytest.raises(OperationError) as refused:
        look(shop_with_state)
    assert "update of shop-network: it has no state, but its resources exist: " in str(
        refused.value
    )
    assert vpc in str(refused.value)
    assert "tokenworks aws versions shop network" in str(refused.value)
    assert "tokenworks aws import-plan shop" in str(refused.value)


def test_resources_with_their_state_stop_nothing(shop_with_state: Shop) -> None:
    network(NETWORK)
    state = {"checkpoint": {"latest": {"resources": [{"urn": "urn:x", "type": "t"}]}}}
    client("s3").put_object(
        Bucket="shop-state",
        Key=".pulumi/stacks/tokenworks/shop-network.json",
        Body=json.dumps(state).encode(),
    )
    look(shop_with_state)


def test_resources_of_another_environment_stop_nothing(shop_with_state: Shop) -> None:
    network({**NETWORK, "tokenworks:environment": "bank"})
    look(shop_with_state)
