"""What is left of an environment in the end, and what stays on purpose."""

from __future__ import annotations

import pytest

from tests.aws_fixtures import TARGET, as_list, base_image, client, tagged
from tokenworks.aws.buckets import empty_bucket
from tokenworks.aws.client import Cloud
from tokenworks.aws.leftovers import Tagged, read_tagged, sort_out
from tokenworks.errors import OperationError

ARN = "arn:aws:ec2:us-east-1:123456789012"


def found(arn: str, program: str, environment: str = "shop") -> Tagged:
    tags = {"tokenworks:environment": environment, "tokenworks:program": program}
    return Tagged(arn=arn, tags=tags)


def test_the_state_and_images_stay_and_all_else_is_left_over() -> None:
    state = found("arn:aws:s3:::shop-state", "state")
    image = found(f"{ARN}:image/ami-1", "image")
    snapshot = found(f"{ARN}:snapshot/snap-1", "image")
    builder = found(f"{ARN}:instance/i-1", "image")
    network = found(f"{ARN}:vpc/vpc-1", "network")
    told = sort_out([state, image, snapshot, builder, network], TARGET, ())
    assert [one.arn for one in told.kept] == [image.arn, snapshot.arn, state.arn]
    assert [one.arn for one in told.left] == [builder.arn, network.arn]


def test_data_that_was_not_to_go_is_kept() -> None:
    network, cluster = found(f"{ARN}:vpc/vpc-1", "network"), found(f"{ARN}:volume/v", "cluster")
    told = sort_out([network, cluster], TARGET, ("network", "storage"))
    assert told.kept == (network,)
    assert told.left == (cluster,)


def test_what_carries_another_environments_tag_is_neither() -> None:
    told = sort_out([found(f"{ARN}:vpc/vpc-1", "network", "bank")], TARGET, ())
    assert told.kept == told.left == ()


def test_everything_with_the_tag_is_found_and_what_is_deleted_is_not(cloud: Cloud) -> None:
    ec2, tags = client("ec2"), {"tokenworks:environment": "shop", "tokenworks:program": "network"}
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", tags))["Vpc"]
    image = base_image()
    ended = ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=tagged("instance", tags)
    )["Instances"][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[ended])
    key = client("kms").create_key(Tags=[{"TagKey": k, "TagValue": v} for k, v in tags.items()])
    client("kms").schedule_key_deletion(KeyId=key["KeyMetadata"]["KeyId"])
    for name, owner in (("tokenworks-shop-nodes", tags), ("tokenworks-shop-other", {})):
        client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}", Tags=as_list(owner))
    arns = [one.arn for one in read_tagged(cloud)]
    assert [arn for arn in arns if vpc["VpcId"] in arn]
    assert [arn for arn in arns if "tokenworks-shop-nodes" in arn]
    assert not [arn for arn in arns if "tokenworks-shop-other" in arn], "a name proves nothing"
    assert not [arn for arn in arns if ended in arn], "an instance that ended"
    assert not [arn for arn in arns if ":key/" in arn], "a key that awaits its end"


def bucket(name: str, tags: dict[str, str]) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    if tags:
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": as_list(tags)})
    for content in (b"one", b"two"):
        s3.put_object(Bucket=name, Key="weights", Body=content)
    s3.delete_object(Bucket=name, Key="weights")


def test_a_bucket_of_ours_is_emptied_of_every_version(cloud: Cloud) -> None:
    bucket("shop-weights", {"tokenworks:environment": "shop"})
    assert empty_bucket(cloud, "shop-weights") == 3
    client("s3").delete_bucket(Bucket="shop-weights")


def test_a_bucket_of_others_is_never_emptied(cloud: Cloud) -> None:
    bucket("bank-weights", {"tokenworks:environment": "bank"})
    with pytest.raises(OperationError, match="somebody else's"):
        empty_bucket(cloud, "bank-weights")
    assert len(client("s3").list_object_versions(Bucket="bank-weights")["Versions"]) == 2
