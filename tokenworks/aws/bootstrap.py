"""What must exist before the first stack: a bucket for Pulumi's state, and a key for its secrets.

Both belong to no stack, so that no stack's end takes the state of all with it. One that exists is
taken only where its tags say that it was made for this environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tokenworks.aws.target import Target
from tokenworks.errors import OperationError

OLD_VERSIONS_DAYS: Final = 90
"""How long an overwritten state can still be had back."""

Setting = Literal[
    "tags", "ownership", "public access block", "encryption", "versioning", "policy", "lifecycle"
]
SETTINGS: Final[tuple[Setting, ...]] = (
    "tags",
    "ownership",
    "public access block",
    "encryption",
    "versioning",
    "policy",
    "lifecycle",
)
"""Settings of the bucket in the order in which they are made; tags first, so that a bucket whose
making was cut off is known as ours."""

_BECAUSE: Final[Mapping[Setting, str]] = {
    "tags": "they prove whose it is",
    "ownership": "access lists of single objects are off",
    "public access block": "no policy can ever make it public",
    "encryption": "objects are encrypted by the key",
    "versioning": "a lost or broken state can be had back",
    "policy": "only TLS is answered",
    "lifecycle": f"overwritten states are kept for {OLD_VERSIONS_DAYS} days",
}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What is there: the key behind the alias, or one with our tags and no alias yet.

    ``key`` is an ARN; ``key_state`` is KMS's word for it; ``settings`` of the bucket are in the
    shape of ``wanted``.
    """

    key: str | None = None
    key_tags: Mapping[str, str] = field(default_factory=dict)
    key_state: str = "Enabled"
    key_rotates: bool = False
    has_alias: bool = False
    bucket: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do; ``setting`` where it is one of the bucket's."""

    name: Literal["key", "rotation", "alias", "bucket", "setting"]
    what: str
    because: str
    setting: Setting | None = None


def plan_bootstrap(observed: Observed, target: Target) -> tuple[Action, ...]:
    """What is missing, in order; nothing where everything is as wanted.

    Raises:
        OperationError: something of that name is there and not ours.
    """
    _refuse_strangers(observed, target)
    return (*_key_actions(observed, target), *_bucket_actions(observed, target))


def _refuse_strangers(observed: Observed, target: Target) -> None:
    if observed.key is not None and not _is_ours(observed.key_tags, target):
        raise _stranger(f"key {target.key_alias}", observed.key_tags, target, "aws.state.key_alias")
    if observed.key is not None and observed.key_state != "Enabled":
        raise OperationError(
            f"key {target.key_alias}",
            reason=f"its state is {observed.key_state}, so nothing in the state can be read",
            remedy="if that was a mistake, `aws kms cancel-key-deletion` and `aws kms enable-key`",
        )
    tags = observed.settings.get("tags") or {}
    if observed.bucket and not _is_ours(tags, target):
        raise _stranger(f"bucket {target.state_bucket}", tags, target, "aws.state.bucket")


def _is_ours(tags: Mapping[str, str], target: Target) -> bool:
    return target.state_tags.items() <= tags.items()


def _stranger(what: str, tags: Mapping[str, str], target: Target, key: str) -> OperationError:
    wanted = " and ".join(f"{name}={value}" for name, value in target.state_tags.items())
    given = ", ".join(f"{name}={value}" for name, value in sorted(tags.items())) or "no tag"
    return OperationError(
        what,
        reason=f"exists and is not this environment's: it carries {given}, not {wanted}",
        remedy=f"choose another {key}, or, if it is {target.environment}'s, give it these tags",
    )


def _key_actions(observed: Observed, target: Target) -> list[Action]:
    actions = []
    if observed.key is None:
        because = "encrypts the state and the secrets in it"
        actions.append(Action(name="key", what="create a KMS key", because=because))
    if not observed.key_rotates:
        because = "its material changes every year, and old data stays readable"
        actions.append(Action(name="rotation", what="turn on the key's rotation", because=because))
    if not observed.has_alias:
        because = "the secrets provider finds the key by it"
        actions.append(Action(name="alias", what=f"name it {target.key_alias}", because=because))
    return actions


def _bucket_actions(observed: Observed, target: Target) -> list[Action]:
    actions = []
    if not observed.bucket:
        what = f"create the bucket {target.state_bucket} in {target.region}"
        actions.append(Action(name="bucket", what=what, because="holds the state of every stack"))
    needed = wanted(target, observed.key or "")
    for setting in SETTINGS:
        if setting == "tags" and observed.bucket:
            continue  # it has ours, or it was refused; it may have others besides
        if observed.key is None or observed.settings.get(setting) != needed[setting]:
            what = f"set the bucket's {setting}"
            because = _BECAUSE[setting]
            actions.append(Action(name="setting", what=what, because=because, setting=setting))
    return actions


def wanted(target: Target, key: str) -> dict[Setting, Any]:
    """Every setting of the bucket, as S3's API takes it; ``key`` is the key's ARN."""
    return {
        "tags": target.state_tags,
        "ownership": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "public access block": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
        "encryption": {
            "Rules": [
                {
                    "ApplyServerSideEncryptionByDefault": {
                        "SSEAlgorithm": "aws:kms",
                        "KMSMasterKeyID": key,
                    },
                    "BucketKeyEnabled": True,
                }
            ]
        },
        "versioning": "Enabled",
        "policy": tls_only(target),
        "lifecycle": [_lifecycle()],
    }


def tls_only(target: Target) -> dict[str, Any]:
    """A bucket policy that refuses whatever does not come over TLS."""
    arn = f"arn:aws:s3:::{target.state_bucket}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "OnlyTls",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [arn, f"{arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }


def _lifecycle() -> dict[str, Any]:
    """Overwritten objects end after a while; locks leave delete markers, which end as well."""
    return {
        "ID": "old-versions",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": OLD_VERSIONS_DAYS},
        "Expiration": {"ExpiredObjectDeleteMarker": True},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    }


def canonical(document: Mapping[str, Any]) -> str:
    """A document as one line that is the same every time."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
