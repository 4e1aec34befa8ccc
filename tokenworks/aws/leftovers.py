"""Proof that nothing of an environment is left: whatever carries its tag, by any service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.aws.client import AwsError, Cloud, tags_of
from tokenworks.aws.target import ENVIRONMENT_TAG, PROGRAM_TAG, STATE_PROGRAM, Target

_IMAGE_PARTS: Final = (":image/", ":snapshot/")


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """One resource that carries the environment's tag."""

    arn: str
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is there on purpose, and what should not be."""

    kept: tuple[Tagged, ...]
    left: tuple[Tagged, ...]


def sort_out(found: Iterable[Tagged], target: Target, kept_programs: Collection[str]) -> Left:
    """Tell what stays on purpose from what is left over.

    The state belongs to no stack; images and their snapshots outlive theirs, since a rebuild starts
    from them; ``kept_programs`` are those that were not taken down.
    """
    kept: list[Tagged] = []
    left: list[Tagged] = []
    for each in sorted(found, key=lambda one: one.arn):
        program = each.tags.get(PROGRAM_TAG)
        image = any(part in each.arn for part in _IMAGE_PARTS)
        stays = program == STATE_PROGRAM or program in kept_programs or image
        if each.tags.get(ENVIRONMENT_TAG) == target.environment:
            (kept if stays else left).append(each)
    return Left(kept=tuple(kept), left=tuple(left))


def read_tagged(cloud: Cloud) -> list[Tagged]:
    """Everything that carries the environment's tag and still exists.

    Raises:
        AwsError: something could not be listed.
    """
    tag = {"Key": ENVIRONMENT_TAG, "Values": [cloud.target.environment]}
    listed = cloud.pages(
        "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", TagFilters=[tag]
    )
    found = [Tagged(arn=each["ResourceARN"], tags=tags_of(each["Tags"])) for each in listed]
    return [each for each in found if not _is_gone(cloud, each.arn)] + list(_roles(cloud))


def _roles(cloud: Cloud) -> Iterator[Tagged]:
    """Roles, which the listing of tags has in one region only, by name and then by tag."""
    for role in cloud.pages("iam", "list_roles", "Roles"):
        if role["RoleName"].startswith(cloud.target.cluster):
            listed = cloud.call("iam", "list_role_tags", RoleName=role["RoleName"])["Tags"]
            if tags_of(listed).get(ENVIRONMENT_TAG) == cloud.target.environment:
                yield Tagged(arn=role["Arn"], tags=tags_of(listed))


def _is_gone(cloud: Cloud, arn: str) -> bool:
    """Whether a resource is deleted, and only still listed: for an hour, or until its key ends."""
    _, _, _, service, _, _, name = ["", *arn.split(":", 5)]
    kind, _, id_ = name.partition("/")
    look = _LOOKS.get((service, kind))
    if look is None:
        return False
    try:
        return bool(look(cloud, id_))
    except AwsError as error:
        if "NotFound" in error.code or error.code.endswith(".Malformed"):
            return True
        raise


def _instance(cloud: Cloud, id_: str) -> bool:
    answer = cloud.call("ec2", "describe_instances", InstanceIds=[id_])
    instances = [one for each in answer["Reservations"] for one in each["Instances"]]
    return all(one["State"]["Name"] == "terminated" for one in instances)


def _nat_gateway(cloud: Cloud, id_: str) -> bool:
    gateways = cloud.call("ec2", "describe_nat_gateways", NatGatewayIds=[id_])["NatGateways"]
    return all(one["State"] == "deleted" for one in gateways)


def _key(cloud: Cloud, id_: str) -> bool:
    return bool(
        cloud.call("kms", "describe_key", KeyId=id_)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    )


_LOOKS: Final[Mapping[tuple[str, str], Any]] = {
    ("ec2", "instance"): _instance,
    ("ec2", "natgateway"): _nat_gateway,
    ("kms", "key"): _key,
}
