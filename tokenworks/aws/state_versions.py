"""Earlier versions of a stack's state, and having one of them back.

Nothing is overwritten for good: the version that is there stays, below the one that is restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tokenworks.aws.client import Cloud
from tokenworks.errors import OperationError

SHOWN: Final = 20
"""Versions that are looked into, newest first; each is read whole."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of a state; ``resources`` and ``pending`` are None where nothing can be read."""

    id: str
    when: str
    is_latest: bool
    deleted: bool
    resources: int | None
    pending: int | None


def list_versions(cloud: Cloud, key: str) -> list[Version]:
    """The newest versions of a stack's state, newest first; a deletion is one as well.

    Raises:
        OperationError: there is none.
    """
    found = sorted(_found(cloud, key), key=lambda each: (each.is_latest, each.when), reverse=True)
    if not found:
        raise OperationError(
            key,
            reason=f"the bucket {cloud.target.state_bucket} has no version of it",
            remedy="see that the program's name is right; if its state never was there, "
            "`tokenworks aws import-plan` says what could be adopted",
        )
    return [_looked_into(cloud, key, each) for each in found[:SHOWN]]


def restore_version(cloud: Cloud, key: str, version: str) -> None:
    """Make an earlier version of a state the latest, by a copy of it.

    Raises:
        OperationError: that version is a deletion, or cannot be read.
    """
    bucket = cloud.target.state_bucket
    content = _content(cloud, key, version)
    try:
        json.loads(content)["checkpoint"]
    except (ValueError, KeyError) as error:
        raise OperationError(
            f"version {version} of {key}",
            reason="is not a state of Pulumi",
            remedy="choose another one; nothing was changed",
        ) from error
    source = {"Bucket": bucket, "Key": key, "VersionId": version}
    cloud.call("s3", "copy_object", Bucket=bucket, Key=key, CopySource=source)


def _found(cloud: Cloud, key: str) -> Iterator[Version]:
    bucket = {"Bucket": cloud.target.state_bucket, "Prefix": key}
    for kind in ("Versions", "DeleteMarkers"):
        for each in cloud.pages("s3", "list_object_versions", kind, **bucket):
            if each["Key"] == key:
                yield Version(
                    id=each["VersionId"],
                    when=each["LastModified"].isoformat(),
                    is_latest=each["IsLatest"],
                    deleted=kind == "DeleteMarkers",
                    resources=None,
                    pending=None,
                )


def _looked_into(cloud: Cloud, key: str, version: Version) -> Version:
    if version.deleted:
        return version
    try:
        latest = json.loads(_content(cloud, key, version.id))["checkpoint"]["latest"] or {}
    except (ValueError, KeyError):
        return version
    return Version(
        id=version.id,
        when=version.when,
        is_latest=version.is_latest,
        deleted=False,
        resources=len(latest.get("resources") or ()),
        pending=len(latest.get("pending_operations") or ()),
    )


def _content(cloud: Cloud, key: str, version: str) -> bytes:
    place = {"Bucket": cloud.target.state_bucket, "Key": key, "VersionId": version}
    content: bytes = cloud.call("s3", "get_object", **place)["Body"].read()
    return content
