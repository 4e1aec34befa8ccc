"""Collecting images of a (moto) account: unused ones of ours go, with their snapshots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.aws_fixtures import as_list, base_image, client
from tests.operations.aws.shop import Shop

OURS = {"tokenworks:environment": "shop", "tokenworks:program": "image"}


def make(base: str, name: str, tags: dict[str, str]) -> str:
    """An image of a builder that is gone."""
    ec2 = client("ec2")
    builder = ec2.run_instances(ImageId=base, MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    image: str = ec2.create_image(InstanceId=builder, Name=name)["ImageId"]
    if tags:
        ec2.create_tags(Resources=[image], Tags=as_list(tags))
    ec2.terminate_instances(InstanceIds=[builder])
    return image


def images() -> dict[str, Any]:
    found = client("ec2").describe_images(Owners=["self"])["Images"]
    return {each["ImageId"]: each for each in found}


@pytest.fixture
def made(shop: Shop) -> dict[str, str]:
    names = {"unused": OURS, "in-template": OURS, "running": OURS, "foreign": {}, "bank": {}}
    base = base_image()
    found = {name: make(base, name, tags) for name, tags in names.items()}
    client("ec2").create_tags(
        Resources=[found["bank"]], Tags=as_list({"tokenworks:environment": "bank"})
    )
    ec2 = client("ec2")
    ec2.create_launch_template(
        LaunchTemplateName="gpu", LaunchTemplateData={"ImageId": found["in-template"]}
    )
    # A newer version is the default one; a group may be set back to the older one.
    ec2.create_launch_template_version(
        LaunchTemplateName="gpu", LaunchTemplateData={"ImageId": found["running"]}
    )
    ec2.run_instances(ImageId=found["running"], MinCount=1, MaxCount=1)
    return found


def test_only_what_is_ours_and_unused_goes(shop: Shop, made: dict[str, str]) -> None:
    before = images()
    snapshots = [
        mapping["Ebs"]["SnapshotId"] for mapping in before[made["unused"]]["BlockDeviceMappings"]
    ]
    done = shop.run("aws", "images", "collect", "shop", "--keep", "0", "--yes")
    assert done.exit_code == 0, done.output
    assert set(before) - set(images()) == {made["unused"]}
    left = [each["SnapshotId"] for each in client("ec2").describe_snapshots()["Snapshots"]]
    assert snapshots
    assert not set(snapshots) & set(left)


def test_the_newest_unused_ones_are_kept_by_default(shop: Shop, made: dict[str, str]) -> None:
    done = shop.run("aws", "images", "collect", "shop", "--yes")
    assert done.exit_code == 0
    assert set(made.values()) <= set(images())


def test_each_verdict_has_its_reason(shop: Shop, made: dict[str, str]) -> None:
    done = shop.run("aws", "images", "collect", "shop", "--keep", "0", "--json")
    because = {each["image"]["name"]: each["because"] for each in json.loads(done.stdout)}
    assert because == {
        "unused": "nothing uses it",
        "in-template": "used by launch template gpu version 1",
        "running": because["running"],
    }
    assert because["running"].startswith(("used by instance", "used by launch template"))
    assert set(made.values()) <= set(images()), "JSON alone only tells"


def test_a_refused_call_ends_with_1_and_names_the_image(
    shop: Shop, made: dict[str, str], refused: set[str]
) -> None:
    refused.add("DeregisterImage")
    done = shop.run("aws", "images", "collect", "shop", "--keep", "0", "--yes")
    assert done.exit_code == 1
    assert made["unused"] in done.stderr
    assert "UnauthorizedOperation" in done.stderr


def test_without_every_use_nothing_is_collected(
    shop: Shop, made: dict[str, str], refused: set[str]
) -> None:
    refused.add("DescribeLaunchTemplateVersions")
    done = shop.run("aws", "images", "collect", "shop", "--keep", "0", "--yes")
    assert done.exit_code == 1
    assert set(made.values()) <= set(images())
