"""Keys, the weights bucket and the file system: what outlives every cluster."""

from __future__ import annotations

import pulumi

from tokenworks.components.aws.bucket import Bucket, BucketArgs
from tokenworks.components.aws.file_system import FILE_SYSTEM_GROUP, FileSystem, FileSystemArgs
from tokenworks.components.aws.key import Key
from tokenworks.components.aws.network import subnet_names
from tokenworks.plan.aws import keys
from tokenworks.programs.aws_account import Account, account
from tokenworks.programs.context import Context

KEPT_DAYS = 30
"""How long a file of weights that was replaced or deleted can be had back."""


def program(context: Context) -> None:
    """Create what holds data, guarded against deletion if the plan says so."""
    owner = account(context, "storage")
    plan = owner.plan.storage
    made = {
        key.name: Key(key.name, key, owner.tags, protect=plan.protected, opts=owner.opts)
        for key in plan.keys
    }
    weights_key = made[keys.WEIGHTS]
    bucket = _weights(owner, weights_key)
    files = _file_system(owner, context.stack("network"), weights_key, bucket)
    pulumi.export("key_arns", {name: key.arn for name, key in made.items()})
    pulumi.export("weights_bucket", bucket.bucket)
    pulumi.export("file_system_id", files.file_system_id)
    pulumi.export("file_system_dns_name", files.dns_name)
    pulumi.export("file_system_mount_name", files.mount_name)


def _weights(owner: Account, key: Key) -> Bucket:
    plan = owner.plan.storage
    return Bucket(
        "weights",
        BucketArgs(
            bucket=plan.bucket,
            policy=plan.bucket_policy,
            key_arn=key.arn,
            versions_days=KEPT_DAYS,
            expire_days=None,
            protect=plan.protected,
            tags=owner.tags,
        ),
        owner.opts,
    )


def _file_system(
    owner: Account, network: pulumi.StackReference, key: Key, bucket: Bucket
) -> FileSystem:
    ids = network.require_output("subnet_ids")
    plan = owner.plan
    return FileSystem(
        "weights-files",
        FileSystemArgs(
            title=f"{owner.title}-weights",
            plan=plan.storage.file_system,
            subnet_ids={
                zone: ids[name] for zone, name in subnet_names(plan.network, "access").items()
            },
            group_id=network.require_output("group_ids")[FILE_SYSTEM_GROUP],
            key_arn=key.arn,
            bucket=bucket.bucket,
            protect=plan.storage.protected,
            tags=owner.tags,
        ),
        owner.opts,
    )
