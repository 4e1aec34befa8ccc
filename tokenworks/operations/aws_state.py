"""The state of an AWS environment's stacks: a bucket with versions, secrets under a key of KMS."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.aws.client import AwsError, Cloud, connect
from tokenworks.environment.aws import Aws
from tokenworks.errors import OperationError
from tokenworks.operations.aws_target import find_cloud, target_of
from tokenworks.operations.backends import Backend, shell_file
from tokenworks.workspace import Workspace


def bucket_backend(workspace: Workspace, name: str, section: Aws) -> Backend:
    """The bucket of an environment, once the account is proven to be the one in its file.

    Pulumi gets its AWS provider itself, in the version that the SDK names: it is not among the
    tools that are built here.

    Raises:
        OperationError: wrong account or region, no credentials, or no bucket yet.
    """
    return _backend(workspace, connect(target_of(name, section)))


def cloud_and_backend(workspace: Workspace, name: str) -> tuple[Cloud, Backend]:
    """An environment's account, and its state there, with the errors of ``bucket_backend``."""
    cloud = find_cloud(workspace, name)
    return cloud, _backend(workspace, cloud)


def _backend(workspace: Workspace, cloud: Cloud) -> Backend:
    target = cloud.target
    _refuse_missing(cloud)
    return Backend(
        secrets_provider=target.secrets_provider,
        variables={
            "PULUMI_BACKEND_URL": target.backend_url,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "AWS_REGION": target.region,
        },
        shell_file=shell_file(workspace, target.environment, "aws"),
        is_shared=True,
        store=BucketStore(cloud),
    )


@dataclass(frozen=True)
class BucketStore:
    """The newest versions of the objects in an environment's state bucket."""

    cloud: Cloud

    def read(self, key: str) -> bytes | None:
        """The content of an object, or None where there is none.

        Raises:
            AwsError: it cannot be read.
        """
        bucket = self.cloud.target.state_bucket
        try:
            body = self.cloud.call("s3", "get_object", Bucket=bucket, Key=key)["Body"]
        except AwsError as error:
            if error.code == "NoSuchKey":
                return None
            raise
        content: bytes = body.read()
        return content

    def keys(self, prefix: str) -> tuple[str, ...]:
        """Keys of the objects that are there, sorted."""
        bucket = self.cloud.target.state_bucket
        listing = {"Bucket": bucket, "Prefix": prefix}
        found = self.cloud.pages("s3", "list_objects_v2", "Contents", **listing)
        return tuple(sorted(str(each["Key"]) for each in found))


def _refuse_missing(cloud: Cloud) -> None:
    try:
        cloud.call("s3", "head_bucket", Bucket=cloud.target.state_bucket)
    except AwsError as error:
        if error.code not in ("404", "NoSuchBucket"):
            raise
        raise OperationError(
            f"state of {cloud.target.environment}",
            reason=f"there is no bucket {cloud.target.state_bucket} yet",
            remedy=f"run `tokenworks aws bootstrap {cloud.target.environment}` first",
        ) from error
