"""Emptying a bucket of ours, without which it cannot be deleted."""

from __future__ import annotations

from itertools import islice
from typing import Final

from tokenworks.aws.client import Cloud, tags_of
from tokenworks.aws.target import ENVIRONMENT_TAG
from tokenworks.errors import OperationError

_OBJECTS_AT_ONCE: Final = 1000
"""DeleteObjects takes this many (S3's API reference)."""


def empty_bucket(cloud: Cloud, bucket: str) -> int:
    """Delete every version of every object of a bucket with our tag; returns how many there were.

    Raises:
        OperationError: the bucket does not carry the environment's tag, or something stayed.
    """
    tags = tags_of(cloud.call("s3", "get_bucket_tagging", Bucket=bucket)["TagSet"])
    if tags.get(ENVIRONMENT_TAG) != cloud.target.environment:
        raise OperationError(
            f"bucket {bucket}",
            reason=f"does not carry {ENVIRONMENT_TAG}={cloud.target.environment}",
            remedy="it is somebody else's; nothing in it was deleted",
        )
    count = 0
    for kind in ("Versions", "DeleteMarkers"):
        found = cloud.pages("s3", "list_object_versions", kind, Bucket=bucket)
        named = ({"Key": each["Key"], "VersionId": each["VersionId"]} for each in found)
        while batch := list(islice(named, _OBJECTS_AT_ONCE)):
            answer = cloud.call(
                "s3", "delete_objects", Bucket=bucket, Delete={"Objects": batch, "Quiet": True}
            )
            _refuse_errors(bucket, answer.get("Errors") or [])
            count += len(batch)
    return count


def _refuse_errors(bucket: str, errors: list[dict[str, str]]) -> None:
    if errors:
        raise OperationError(
            f"bucket {bucket}",
            reason=f"{len(errors)} objects stayed, the first {errors[0].get('Key')}: "
            f"{errors[0].get('Code')}",
            remedy="correct what S3 names and run the same command again",
        )
