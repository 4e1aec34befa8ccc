"""Everything decided about the AWS side of an environment, put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.facts.aws_versions import read_on, releases
from tokenworks.hosts.compatibility import cuda_notes
from tokenworks.plan.aws import iam
from tokenworks.plan.aws.balancer import balancer_plan
from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.charts import chart_plans
from tokenworks.plan.aws.cluster import eks_plan
from tokenworks.plan.aws.costs import cost_parts
from tokenworks.plan.aws.images import images
from tokenworks.plan.aws.keys import transfer_bucket_policy
from tokenworks.plan.aws.network import network_plan
from tokenworks.plan.aws.nodes import node_groups
from tokenworks.plan.aws.quotas import quota_needs
from tokenworks.plan.aws.storage import storage_plan
from tokenworks.plan.aws.types import AwsPlan, StatePlan
from tokenworks.plan.aws.weights_files import bucket_notes
from tokenworks.plan.aws.zones import zone_of
from tokenworks.plan.hosts import given_certificate
from tokenworks.plan.types import ModelPlan, PoolPlan

UNKNOWN_DRIVER = "0"


def aws_plan(
    loaded: LoadedEnvironment,
    lock: Lock,
    pools: Sequence[PoolPlan],
    models: Sequence[ModelPlan],
    system_nodes: int,
    roles_digest: str,
) -> AwsPlan | None:
    """The AWS side of an environment whose problems were ruled out before; None elsewhere."""
    section = loaded.environment.aws
    if section is None:
        return None
    case = AwsCase(
        loaded=loaded,
        section=section,
        lock=lock,
        pools=pools,
        system_nodes=system_nodes,
        weights={model.name: model.weights for model in models},
        weights_read_mib_per_second=loaded.environment.weights_storage.read_mib_per_second,
        roles_digest=roles_digest,
    )
    return _plan(case)


def _plan(case: AwsCase) -> AwsPlan:
    section = case.section
    made = images(case)
    network = network_plan(case, builds_images=bool(made))
    groups = node_groups(case)
    storage = storage_plan(case)
    return AwsPlan(
        account=section.account,
        region=section.region,
        zones=section.network.zones,
        tags={ENVIRONMENT_TAG: case.environment},
        state=StatePlan(bucket=section.state.bucket, key_alias=section.state.key_alias),
        network=network,
        storage=storage,
        images=made,
        builder_role=iam.builder_role(case),
        transfer_bucket=case.bucket("transfer"),
        transfer_bucket_policy=transfer_bucket_policy(case),
        cluster=eks_plan(case),
        node_groups=groups,
        charts=chart_plans(case),
        balancer=balancer_plan(case, network),
        certificate=given_certificate(section.certificate),
        quotas=quota_needs(case, network, groups, made),
        costs=cost_parts(case, network, groups, storage),
        notes=tuple(_notes(case, storage.file_system.zone_id)),
    )


def driver_of_release(release: str | None) -> str:
    """The NVIDIA driver in a release of AWS's GPU image."""
    known = releases().get(release or "")
    return known.driver if known else UNKNOWN_DRIVER


def _notes(case: AwsCase, weights_zone: str | None) -> Iterator[str]:
    yield f"aws: versions are those that were public on {read_on()} (facts/aws_versions.json)"
    yield from _cuda_notes(case)
    yield from bucket_notes(case)
    unpriced = _blocks_without_a_price(case)
    for index, pool in enumerate(case.loaded.environment.node_pools):
        path = f"node_pools[{index}]"
        if weights_zone is not None and zone_of(pool) != weights_zone:
            where = zone_of(pool) or "several zones"
            yield (
                f"{path}.zone: nodes in {where} read weights across zones from {weights_zone}, "
                "which is slower and paid by the gigabyte"
            )
        if pool.capacity is not None and pool.capacity.block is not None:
            yield (
                f"{path}.capacity.block: bring the cluster up while the block runs; EKS drains its "
                "nodes 40 minutes before it ends, and AWS ends them 30 minutes before"
            )
        if pool.name in unpriced:
            yield (
                f"{path}.capacity.block: a block is paid ahead at a price of its own, which only "
                "cost.node_prices can say; the list price on demand is none of it"
            )
        if pool.efa:
            yield f"{path}.efa: replicas stay on one node today, so no engine uses the adapters"


def _blocks_without_a_price(case: AwsCase) -> set[str]:
    environment = case.loaded.environment
    given = {one.instance for one in (environment.cost.node_prices if environment.cost else ())}
    in_blocks = [pool for pool in environment.node_pools if pool.capacity and pool.capacity.block]
    return {pool.name for pool in in_blocks if pool.kind not in given}


def _cuda_notes(case: AwsCase) -> Iterator[str]:
    """What a driver older than its engine's CUDA means, on AWS's images; locks say it too."""
    releases_of = {pool.name: pool.release_version for pool in case.loaded.environment.node_pools}
    for index, model in enumerate(case.loaded.environment.models):
        cuda = tensorrt_llm.cuda_release(model.engine.version)
        release = releases_of[model.node_pool]
        if cuda is not None and release is not None:
            for note in cuda_notes(driver_of_release(release), cuda):
                yield f"models[{index}].engine: {note}"
