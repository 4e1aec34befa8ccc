"""Looking at the state's bucket and key, and making what of them is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from tokenworks.aws.bootstrap import Action, Observed, Setting, canonical, wanted
from tokenworks.aws.client import AwsError, Cloud, tag_list, tags_of
from tokenworks.errors import OperationError

# S3's API reference: what it answers where a bucket, or a setting of one, is not there.
_ABSENT: Final = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "OwnershipControlsNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
    }
)
_ELSEWHERE: Final = frozenset({"301", "403", "AccessDenied", "Forbidden"})
_HOME_REGION: Final = "us-east-1"
"""The region that CreateBucket wants not to be named (S3's API reference)."""


def observe(cloud: Cloud) -> Observed:
    """What is there of an environment's state.

    Raises:
        OperationError: the bucket's name is taken by another account, or something cannot be read.
    """
    alias = _behind_alias(cloud)
    key = alias or _made_before(cloud)
    has_bucket = _has_bucket(cloud)
    described = cloud.call("kms", "describe_key", KeyId=key)["KeyMetadata"] if key else {}
    enabled = described.get("KeyState") == "Enabled"
    return Observed(
        key=described.get("Arn"),
        key_tags=_key_tags(cloud, key) if key else {},
        key_state=described.get("KeyState", "Enabled"),
        key_rotates=_rotates(cloud, key) if key and enabled else False,
        has_alias=alias is not None,
        bucket=has_bucket,
        settings=_settings(cloud) if has_bucket else {},
    )


def carry_out(
    cloud: Cloud, observed: Observed, actions: Iterable[Action], say: Callable[[str], None]
) -> None:
    """Do each in order; what fails ends it, and another run goes on from there."""
    key = observed.key
    for action in actions:
        if action.name == "key":
            key = _make_key(cloud)
        elif action.name == "bucket":
            _make_bucket(cloud)
        elif action.setting is not None:
            _set(cloud, action.setting, wanted(cloud.target, key or "")[action.setting])
        elif action.name == "rotation":
            cloud.call("kms", "enable_key_rotation", KeyId=key)
        else:
            alias = cloud.target.key_alias
            cloud.call("kms", "create_alias", AliasName=alias, TargetKeyId=key)
        say(f"done: {action.what}")


def _behind_alias(cloud: Cloud) -> str | None:
    try:
        found = cloud.call("kms", "describe_key", KeyId=cloud.target.key_alias)
    except AwsError as error:
        if error.code == "NotFoundException":
            return None
        raise
    return str(found["KeyMetadata"]["Arn"])


def _made_before(cloud: Cloud) -> str | None:
    """A key that an earlier run made before it could name it, found by its tags."""
    filters = [{"Key": key, "Values": [value]} for key, value in cloud.target.state_tags.items()]
    found = cloud.pages(
        "resourcegroupstaggingapi",
        "get_resources",
        "ResourceTagMappingList",
        TagFilters=filters,
        ResourceTypeFilters=["kms:key"],
    )
    arns = sorted(str(each["ResourceARN"]) for each in found)
    described = (cloud.call("kms", "describe_key", KeyId=arn)["KeyMetadata"] for arn in arns)
    return next((str(key["Arn"]) for key in described if key["KeyState"] == "Enabled"), None)


def _key_tags(cloud: Cloud, key: str) -> dict[str, str]:
    listed = cloud.call("kms", "list_resource_tags", KeyId=key)["Tags"]
    return {each["TagKey"]: each["TagValue"] for each in listed}


def _rotates(cloud: Cloud, key: str) -> bool:
    return bool(cloud.call("kms", "get_key_rotation_status", KeyId=key)["KeyRotationEnabled"])


def _make_key(cloud: Cloud) -> str:
    tags = [{"TagKey": k, "TagValue": v} for k, v in sorted(cloud.target.state_tags.items())]
    text = f"State of the environment {cloud.target.environment}, and secrets in it"
    return str(cloud.call("kms", "create_key", Description=text, Tags=tags)["KeyMetadata"]["Arn"])


def _has_bucket(cloud: Cloud) -> bool:
    try:
        cloud.call("s3", "head_bucket", Bucket=cloud.target.state_bucket)
    except AwsError as error:
        if error.code in _ABSENT:
            return False
        if error.code in _ELSEWHERE:
            raise OperationError(
                f"bucket {cloud.target.state_bucket}",
                reason="its name is taken by another account or region, or you may not see it",
                remedy="choose another aws.state.bucket, or credentials that may see it",
            ) from error
        raise
    return True


def _make_bucket(cloud: Cloud) -> None:
    place = {"LocationConstraint": cloud.target.region}
    elsewhere = cloud.target.region != _HOME_REGION
    more = {"CreateBucketConfiguration": place} if elsewhere else {}
    cloud.call("s3", "create_bucket", Bucket=cloud.target.state_bucket, **more)


def _settings(cloud: Cloud) -> dict[str, Any]:
    found = {name: _ask(cloud, operation) for name, operation in _READ.items()}
    return {
        "tags": tags_of(found["tags"].get("TagSet")),
        "ownership": found["ownership"].get("OwnershipControls"),
        "public access block": found["public access block"].get("PublicAccessBlockConfiguration"),
        "encryption": _without_extras(found["encryption"]),
        "versioning": found["versioning"].get("Status"),
        "policy": json.loads(found["policy"].get("Policy", "null")),
        "lifecycle": found["lifecycle"].get("Rules"),
    }


def _without_extras(answered: dict[str, Any]) -> dict[str, Any] | None:
    """The encryption's rules by the keys that we set; S3 adds others in newer answers."""
    rules = (answered.get("ServerSideEncryptionConfiguration") or {}).get("Rules")
    kept = ("ApplyServerSideEncryptionByDefault", "BucketKeyEnabled")
    return {"Rules": [{k: rule.get(k) for k in kept} for rule in rules]} if rules else None


def _ask(cloud: Cloud, operation: str) -> dict[str, Any]:
    try:
        return cloud.call("s3", operation, Bucket=cloud.target.state_bucket)
    except AwsError as error:
        if error.code in _ABSENT:
            return {}
        raise


def _set(cloud: Cloud, setting: Setting, value: Any) -> None:
    operation, argument = _WRITE[setting]
    given: dict[Setting, Any] = {
        "tags": {"TagSet": tag_list(value)} if setting == "tags" else None,
        "versioning": {"Status": value},
        "policy": canonical(value) if setting == "policy" else None,
        "lifecycle": {"Rules": value},
    }
    arguments = {argument: given.get(setting, value)}
    cloud.call("s3", operation, Bucket=cloud.target.state_bucket, **arguments)


_READ: Final[dict[Setting, str]] = {
    "tags": "get_bucket_tagging",
    "ownership": "get_bucket_ownership_controls",
    "public access block": "get_public_access_block",
    "encryption": "get_bucket_encryption",
    "versioning": "get_bucket_versioning",
    "policy": "get_bucket_policy",
    "lifecycle": "get_bucket_lifecycle_configuration",
}
_WRITE: Final[dict[Setting, tuple[str, str]]] = {
    "tags": ("put_bucket_tagging", "Tagging"),
    "ownership": ("put_bucket_ownership_controls", "OwnershipControls"),
    "public access block": ("put_public_access_block", "PublicAccessBlockConfiguration"),
    "encryption": ("put_bucket_encryption", "ServerSideEncryptionConfiguration"),
    "versioning": ("put_bucket_versioning", "VersioningConfiguration"),
    "policy": ("put_bucket_policy", "Policy"),
    "lifecycle": ("put_bucket_lifecycle_configuration", "LifecycleConfiguration"),
}
