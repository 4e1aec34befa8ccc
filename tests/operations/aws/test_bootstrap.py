"""The state's bucket and key: made once, outside of every stack, and never anybody else's."""

from __future__ import annotations

import json

from tests.aws_fixtures import client
from tests.operations.aws.shop import Shop
from tokenworks.aws.bootstrap import plan_bootstrap
from tokenworks.aws.bootstrap_steps import observe
from tokenworks.aws.client import Cloud

BUCKET, ALIAS = "shop-state", "alias/shop-state"
STATE_TAGS = {"tokenworks:environment": "shop", "tokenworks:program": "state"}


def bucket_exists() -> bool:
    return BUCKET in [each["Name"] for each in client("s3").list_buckets()["Buckets"]]


def test_what_is_missing_is_shown_and_nothing_happens_without_a_yes(shop: Shop) -> None:
    done = shop.run("aws", "bootstrap", "shop", typed="n\n")
    assert done.exit_code == 1
    assert "create a KMS key" in done.stdout
    assert "create the bucket shop-state in us-east-1" in done.stdout
    assert "account 123456789012, us-east-1" in done.output
    assert not bucket_exists()
    assert not client("kms").list_keys()["Keys"]


def test_json_alone_only_tells(shop: Shop) -> None:
    done = shop.run("aws", "bootstrap", "shop", "--json")
    assert done.exit_code == 0
    assert {each["name"] for each in json.loads(done.stdout)} >= {"key", "alias", "bucket"}
    assert not bucket_exists()


def test_bucket_and_key_are_closed_versioned_encrypted_and_tagged(shop: Shop) -> None:
    assert shop.run("aws", "bootstrap", "shop", "--yes").exit_code == 0
    s3, kms = client("s3"), client("kms")
    key = kms.describe_key(KeyId=ALIAS)["KeyMetadata"]
    assert kms.get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"]
    tags = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
    assert {tag["TagKey"]: tag["TagValue"] for tag in tags} == STATE_TAGS
    assert s3.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
    closed = s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"]
    assert set(closed.values()) == {True}
    encryption = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]
    rule = encryption["Rules"][0]["ApplyServerSideEncryptionByDefault"]
    assert rule == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key["Arn"]}
    (statement,) = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    (lifecycle,) = s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert lifecycle["NoncurrentVersionExpiration"] == {"NoncurrentDays": 90}
    tags = s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == STATE_TAGS


def test_a_second_run_finds_nothing_to_do(shop: Shop) -> None:
    shop.run("aws", "bootstrap", "shop", "--yes")
    again = shop.run("aws", "bootstrap", "shop", "--yes")
    assert again.exit_code == 0
    assert "is as it should be" in again.stdout
    assert len(client("kms").list_keys()["Keys"]) == 1


def test_what_somebody_turned_off_is_turned_on_again_and_nothing_else_is_done(shop: Shop) -> None:
    shop.run("aws", "bootstrap", "shop", "--yes")
    client("s3").delete_public_access_block(Bucket=BUCKET)
    done = shop.run("aws", "bootstrap", "shop", "--json", "--yes")
    actions = json.loads(done.stdout)
    assert [each["setting"] for each in actions] == ["public access block"]
    assert client("s3").get_public_access_block(Bucket=BUCKET)


def test_tags_that_others_added_stay(shop: Shop) -> None:
    shop.run("aws", "bootstrap", "shop", "--yes")
    more = [{"Key": key, "Value": value} for key, value in {**STATE_TAGS, "cost": "7"}.items()]
    client("s3").put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": more})
    again = shop.run("aws", "bootstrap", "shop", "--yes")
    assert "is as it should be" in again.stdout


def test_a_run_that_was_cut_off_is_gone_on_with(shop: Shop, cloud: Cloud) -> None:
    tags = [{"TagKey": key, "TagValue": value} for key, value in STATE_TAGS.items()]
    made = client("kms").create_key(Tags=tags)["KeyMetadata"]["Arn"]
    assert shop.run("aws", "bootstrap", "shop", "--yes").exit_code == 0
    assert client("kms").describe_key(KeyId=ALIAS)["KeyMetadata"]["Arn"] == made
    assert plan_bootstrap(observe(cloud), cloud.target) == ()


def test_a_bucket_without_our_tags_is_never_adopted(shop: Shop) -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    done = shop.run("aws", "bootstrap", "shop", "--yes")
    assert done.exit_code == 1
    assert "is not this environment's: it carries no tag" in done.stderr
    assert "choose another aws.state.bucket" in done.stderr
    assert not client("kms").list_keys()["Keys"]
    assert "Status" not in client("s3").get_bucket_versioning(Bucket=BUCKET)


def test_the_state_of_another_environment_is_never_shared(shop: Shop) -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    theirs = [{"Key": "tokenworks:environment", "Value": "bank"}]
    client("s3").put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": theirs})
    done = shop.run("aws", "bootstrap", "shop", "--yes")
    assert done.exit_code == 1
    assert "it carries tokenworks:environment=bank" in done.stderr


def test_a_key_of_others_behind_the_alias_is_refused(shop: Shop) -> None:
    key = client("kms").create_key()["KeyMetadata"]["KeyId"]
    client("kms").create_alias(AliasName=ALIAS, TargetKeyId=key)
    done = shop.run("aws", "bootstrap", "shop", "--yes")
    assert done.exit_code == 1
    assert "aws.state.key_alias" in done.stderr
    assert not bucket_exists()


def test_a_key_that_is_about_to_be_deleted_is_refused_with_the_way_back(shop: Shop) -> None:
    shop.run("aws", "bootstrap", "shop", "--yes")
    key = client("kms").describe_key(KeyId=ALIAS)["KeyMetadata"]["KeyId"]
    client("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    done = shop.run("aws", "bootstrap", "shop", "--yes")
    assert done.exit_code == 1
    assert "PendingDeletion" in done.stderr
    assert "cancel-key-deletion" in done.stderr
