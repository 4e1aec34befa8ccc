"""Adopting after a lost state: everything that was made is found again, and nothing of others.

Moto has no add-ons, access entries and Pod Identity, so no cluster exists here; how these are
matched is tested on plain data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.aws_fixtures import client, tagged
from tests.operations.aws.rebuilt import Made, rebuild
from tests.operations.aws.shop import Shop
from tokenworks.aws.import_keys import KNOWN_TYPES
from tokenworks.check.recording import RecordedResource, Recording
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment


@pytest.fixture
def recordings(shop: Shop) -> dict[str, Recording]:
    return record_environment(shop.workspace, plan_environment(shop.workspace, "shop"))


@pytest.fixture
def made(recordings: dict[str, Recording], refused: set[str]) -> list[RecordedResource]:
    """Network and storage of `shop` as the provider would have left them."""
    ids: Made = {}
    return [one for program in ("network", "storage") for one in rebuild(recordings[program], ids)]


def told(shop: Shop, *options: str) -> dict[str, Any]:
    done = shop.run("aws", "import-plan", "shop", "--json", *options)
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_every_type_that_the_programs_register_is_known(recordings: dict[str, Recording]) -> None:
    registered = {
        one.type
        for recording in recordings.values()
        for one in recording.resources
        if one.custom and one.type.startswith("aws:")
    }
    assert registered <= KNOWN_TYPES


def test_all_that_was_made_is_found_again_and_nothing_of_others_is(
    shop: Shop, made: list[RecordedResource], tmp_path: Path
) -> None:
    vpc = next(one for one in made if one.type == "aws:ec2/vpc:Vpc")
    tags = vpc.inputs["tags"]
    assert isinstance(tags, Mapping)
    theirs = {**{key: str(value) for key, value in tags.items()}, "tokenworks:environment": "bank"}
    foreign = client("ec2").create_vpc(
        CidrBlock="10.99.0.0/16", TagSpecifications=tagged("vpc", theirs)
    )["Vpc"]["VpcId"]
    client("logs").create_log_group(logGroupName="/aws/eks/tokenworks-shop/cluster")
    assert shop.run("aws", "bootstrap", "shop", "--yes").exit_code == 0
    before = client("ec2").describe_vpcs()["Vpcs"]

    answer = told(shop, "--write", str(tmp_path / "imports"))

    adopted = {
        (one["type"], one["logicalName"])
        for file in answer["files"].values()
        for one in file["resources"]
        if "id" in one
    }
    assert {(one.type, one.name) for one in made} <= adopted
    extra = adopted - {(one.type, one.name) for one in made}
    default = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    assert {type_ for type_, _ in extra} <= {default}, "a network brings its own default group"
    assert answer["strangers"] == []
    assert foreign not in json.dumps(answer)
    assert "shop-state" not in json.dumps(answer["files"]), "the state belongs to no stack"
    (logs,) = [
        one
        for one in answer["unclear"]["shop-cluster"]
        if one["type"] == "aws:cloudwatch/logGroup:LogGroup"
    ]
    assert "carries no tag of this environment" in logs["because"]
    missing = {one["type"] for one in answer["missing"]["shop-network"]}
    assert "aws:ec2/vpcEndpoint:VpcEndpoint" in missing
    assert "aws:ec2/vpc:Vpc" not in missing
    files = sorted(file.name for file in (tmp_path / "imports").iterdir())
    assert files == ["shop-network.import.json", "shop-storage.import.json"]
    assert client("ec2").describe_vpcs()["Vpcs"] == before


def test_half_a_look_is_none(shop: Shop, refused: set[str]) -> None:
    refused.add("DescribeSubnets")
    done = shop.run("aws", "import-plan", "shop")
    assert done.exit_code == 1
    assert "describe-subnets" in done.stderr
