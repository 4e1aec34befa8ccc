"""Volumes of weights on the file system of an AWS environment."""

from __future__ import annotations

import pulumi

from tokenworks import naming
from tokenworks.components.aws.weights_volume import WeightsVolume, WeightsVolumeArgs
from tokenworks.plan.aws.types import AwsPlan
from tokenworks.plan.types import ModelPlan
from tokenworks.platforms import aws
from tokenworks.programs.context import Context


def weights_volumes(context: Context, plan: AwsPlan) -> dict[str, pulumi.Output[str]]:
    """For each model the name of a volume that only the claim of its weights can have."""
    opts = pulumi.ResourceOptions(providers=[context.provider, aws.provider(plan)])
    return {
        model.name: WeightsVolume(
            f"{model.name}-weights-volume", _volume(context, plan, model), opts
        ).volume
        for model in context.plan.models
    }


def _volume(context: Context, plan: AwsPlan, model: ModelPlan) -> WeightsVolumeArgs:
    cluster, storage = context.stack("cluster"), context.stack("storage")
    return WeightsVolumeArgs(
        plan=plan.storage.file_system,
        claim=model.weights.claim,
        namespace=cluster.require_output("engines_namespace"),
        size_gib=model.weights.volume_gib.value,
        storage_class=cluster.require_output("weights_storage_class"),
        file_system_id=storage.require_output("file_system_id"),
        dns_name=storage.require_output("file_system_dns_name"),
        mount_name=storage.require_output("file_system_mount_name"),
        bucket=storage.require_output("weights_bucket"),
        labels=context.labels(model.engine, naming.WEIGHTS_ROLE, model.name),
        tags=aws.tags(plan, "serving"),
    )
