"""Machine images by the same roles as any host, for the pools that name a lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws import ec2, iam

from tokenworks.components.aws.bucket import Bucket, BucketArgs
from tokenworks.components.aws.machine_image import BUILDER_GROUP, MachineImage, MachineImageArgs
from tokenworks.components.aws.network import subnet_names
from tokenworks.components.aws.role import Role
from tokenworks.plan.aws import keys
from tokenworks.plan.aws.types import ImagePlan
from tokenworks.platforms import aws
from tokenworks.programs.aws_account import Account, account
from tokenworks.programs.context import Context

READ_OUTPUTS = "pulumi:pulumi:readStackOutputs"
TRANSFERS_EXPIRE_DAYS = 1


def program(context: Context) -> None:
    """Build each image that is not there yet, and export the ids of all by name.

    An image of that name has that content, so one that an earlier build left, or another state
    knew, is taken as it is. One that this stack built stays its own, with its builder asleep.
    """
    owner = account(context, "image")
    mine = _built_here(context)
    found = {
        image.name: _found(owner, image) for image in owner.plan.images if image.name not in mine
    }
    to_build = [image for image in owner.plan.images if not found.get(image.name)]
    built = _build(context, owner, to_build) if to_build else {}
    there = {name: id_ for name, id_ in found.items() if id_}
    pulumi.export("image_ids", {**there, **built})
    pulumi.export("built", [image.name for image in to_build])


def _built_here(context: Context) -> frozenset[str]:
    """Names of the images that are in this stack's own state.

    Which resources there are has to be known at once, and a reference to a stack is only known
    later.
    """
    name = context.parts.stacks.name("image")
    answered: Any = pulumi.runtime.invoke(READ_OUTPUTS, {"name": name}).value
    outputs = answered.get("outputs") or {}
    return frozenset(outputs.get("built") or ())


def _found(owner: Account, image: ImagePlan) -> str | None:
    """The id of an image of this name that this environment made before."""
    wanted = {"name": image.name, "state": "available"}
    wanted |= {f"tag:{key}": value for key, value in owner.plan.tags.items()}
    ids = ec2.get_ami_ids(
        owners=["self"],
        filters=[
            ec2.GetAmiIdsFilterArgs(name=name, values=[value]) for name, value in wanted.items()
        ],
        opts=pulumi.InvokeOptions(provider=owner.provider),
    ).ids
    return ids[0] if ids else None


def _build(
    context: Context, owner: Account, images: list[ImagePlan]
) -> Mapping[str, pulumi.Output[str]]:
    network, storage = context.stack("network"), context.stack("storage")
    key_arns = storage.require_output("key_arns")
    transfers = _transfers(owner, key_arns[keys.WEIGHTS])
    profile = _profile(owner)
    subnets = subnet_names(owner.plan.network, "nodes")
    return {
        image.name: MachineImage(
            image.lock_name,
            MachineImageArgs(
                plan=image,
                pool=aws.builder_pool(context.workspace, context.plan, owner.plan, image),
                target=aws.target(context.plan, owner.plan),
                subnet_id=network.require_output("subnet_ids")[subnets[image.zone_id]],
                group_id=network.require_output("group_ids")[BUILDER_GROUP],
                profile=profile.name,
                key_arn=key_arns[keys.NODES],
                after=[transfers],
                tags=owner.tags,
            ),
            owner.opts,
        ).image_id
        for image in images
    }


def _transfers(owner: Account, key_arn: pulumi.Input[str]) -> Bucket:
    """Where modules lie for a moment; without versions, since a deleted one would stay for ever."""
    return Bucket(
        "transfers",
        BucketArgs(
            bucket=owner.plan.transfer_bucket,
            policy=owner.plan.transfer_bucket_policy,
            key_arn=key_arn,
            versions_days=None,
            expire_days=TRANSFERS_EXPIRE_DAYS,
            protect=False,
            tags=owner.tags,
        ),
        owner.opts,
    )


def _profile(owner: Account) -> iam.InstanceProfile:
    role = Role("builder", owner.plan.builder_role, owner.tags, opts=owner.opts)
    return iam.InstanceProfile(
        "builder-profile",
        name=owner.plan.builder_role.name,
        role=role.role_name,
        tags={**owner.tags, "Name": owner.plan.builder_role.name},
        opts=pulumi.ResourceOptions(providers=[owner.provider], depends_on=[role]),
    )
