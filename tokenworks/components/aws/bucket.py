"""A private bucket: versioned, encrypted by a key of ours, for nobody without TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi_aws import s3

from tokenworks.components.aws.documents import document
from tokenworks.components.aws.owned import Owned, Tags

_ABORT: Final = s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
    days_after_initiation=1
)


@dataclass(frozen=True, kw_only=True)
class BucketArgs:
    """Name and policy of the bucket, and the key of everything in it.

    ``versions_days`` is how long what was replaced or deleted can be had back, None for not at
    all; ``expire_days`` deletes whatever is older.
    """

    bucket: str
    policy: Mapping[str, Any]
    key_arn: pulumi.Input[str]
    versions_days: int | None
    expire_days: int | None
    protect: bool
    tags: Tags


class Bucket(Owned):
    """A bucket that nobody can make public, and every setting that keeps it so."""

    bucket: pulumi.Output[str]
    arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: BucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Bucket", name, args.tags, opts)
        self._name, self._args = name, args
        created = s3.Bucket(
            f"{name}-bucket",
            bucket=args.bucket,
            force_destroy=False,
            tags=self.named(args.bucket),
            opts=self.child(protect=args.protect),
        )
        self.bucket, self.arn = created.bucket, created.arn
        closed = self._closed()
        self._kept()
        s3.BucketPolicy(
            f"{name}-policy",
            bucket=created.bucket,
            policy=document(args.policy),
            opts=self.child([closed]),
        )
        self.register_outputs({"bucket": self.bucket, "arn": self.arn})

    def _closed(self) -> s3.BucketPublicAccessBlock:
        """No list of grants and no policy can open the bucket to the public."""
        s3.BucketOwnershipControls(
            f"{self._name}-ownership",
            bucket=self.bucket,
            rule={"object_ownership": "BucketOwnerEnforced"},
            opts=self.child(),
        )
        return s3.BucketPublicAccessBlock(
            f"{self._name}-public-access",
            bucket=self.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self.child(),
        )

    def _kept(self) -> None:
        """Everything is encrypted, what was replaced is kept for a while, nothing for ever."""
        s3.BucketServerSideEncryptionConfiguration(
            f"{self._name}-encryption",
            bucket=self.bucket,
            rules=[
                {
                    "apply_server_side_encryption_by_default": {
                        "sse_algorithm": "aws:kms",
                        "kms_master_key_id": self._args.key_arn,
                    },
                    # One data key for many objects; weights are thousands of them.
                    "bucket_key_enabled": True,
                }
            ],
            opts=self.child(),
        )
        s3.BucketLifecycleConfiguration(
            f"{self._name}-lifecycle",
            bucket=self.bucket,
            rules=[self._rule()],
            opts=self.child(self._versions()),
        )

    def _versions(self) -> list[pulumi.Resource]:
        if self._args.versions_days is None:
            return []
        return [
            s3.BucketVersioning(
                f"{self._name}-versions",
                bucket=self.bucket,
                versioning_configuration={"status": "Enabled"},
                opts=self.child(),
            )
        ]

    def _rule(self) -> s3.BucketLifecycleConfigurationRuleArgs:
        args, rule = self._args, dict[str, Any]()
        if args.versions_days is not None:
            rule["noncurrent_version_expiration"] = {"noncurrent_days": args.versions_days}
        if args.expire_days is not None:
            rule["expiration"] = {"days": args.expire_days}
        return s3.BucketLifecycleConfigurationRuleArgs(
            id="old",
            status="Enabled",
            filter=s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
            abort_incomplete_multipart_upload=_ABORT,
            **rule,
        )
