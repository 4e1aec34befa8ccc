"""An AWS account: providers that act in no other one, an internal NLB, credentials by role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws
import pulumi_kubernetes

from tokenworks.aws.target import PROGRAM_TAG, Target
from tokenworks.errors import OperationError
from tokenworks.hosts.inventory import Access, Host, Pool, SessionManager
from tokenworks.naming import cluster_name
from tokenworks.plan.aws import keys
from tokenworks.plan.aws.types import AwsPlan, ImagePlan
from tokenworks.plan.types import Plan
from tokenworks.platforms.hosts import read_certificate, repository_keys
from tokenworks.platforms.load_balancer import LoadBalancer
from tokenworks.workspace import Workspace

BUILDER = "builder"


def provider(plan: AwsPlan) -> pulumi_aws.Provider:
    """The provider of the environment's account and region, and of no other.

    It adds no tags by itself: those would differ from what resources say (pulumi-aws#5740).
    """
    made = pulumi_aws.Provider("aws", region=plan.region, allowed_account_ids=[plan.account])
    _refuse_elsewhere(plan, made)
    return made


def _refuse_elsewhere(plan: AwsPlan, made: pulumi_aws.Provider) -> None:
    """Refuse before anything is registered, and with a sentence of ours.

    Raises:
        OperationError: the credentials are of another account, or the provider of another region.
    """
    opts = pulumi.InvokeOptions(provider=made)
    account = pulumi_aws.get_caller_identity(opts=opts).account_id
    if account != plan.account:
        raise OperationError(
            f"AWS account {account}",
            reason=f"is not {plan.account}, which the environment names",
            remedy="choose the credentials of that account, for example by AWS_PROFILE",
        )
    region = pulumi_aws.get_region(opts=opts).region
    if region != plan.region:
        raise OperationError(
            f"AWS region {region}",
            reason=f"is not {plan.region}, which the environment names",
            remedy="remove `aws:` keys from the stack's settings, which override it",
        )


def tags(plan: AwsPlan, program: str) -> dict[str, str]:
    """Tags that prove whose a resource is, and which program made it."""
    return {**plan.tags, PROGRAM_TAG: program}


def target(plan: Plan, aws: AwsPlan) -> Target:
    """The environment's place in AWS, for what acts there without Pulumi."""
    return Target(
        environment=plan.environment,
        account=aws.account,
        region=aws.region,
        cluster=aws.cluster.name,
        state_bucket=aws.state.bucket,
        key_alias=aws.state.key_alias,
    )


def kubernetes(
    plan: AwsPlan, cluster: Mapping[str, pulumi.Input[str]], opts: pulumi.ResourceOptions
) -> pulumi_kubernetes.Provider:
    """The provider of the cluster; tokens are asked for when needed, and end by themselves.

    ``cluster`` has ``endpoint``, ``certificate_authority`` and ``identifier``. Whatever changes in
    the credentials replaces nothing as long as the identifier stays, and a cluster made anew has
    another one, even under the same name (pulumi-kubernetes#4019, pulumi-eks#107).
    """

    def kubeconfig(known: Mapping[str, Any]) -> str:
        return json.dumps(_kubeconfig(plan, known), sort_keys=True)

    return pulumi_kubernetes.Provider(
        "cluster",
        kubeconfig=pulumi.Output.all(**cluster).apply(kubeconfig),
        cluster_identifier=cluster["identifier"],
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        opts=opts,
    )


def from_stack(made: pulumi.StackReference, aws: AwsPlan) -> pulumi_kubernetes.Provider:
    """The provider of a cluster that the cluster program made."""
    names = ("endpoint", "certificate_authority", "identifier")
    cluster = {name: made.require_output(f"cluster_{name}") for name in names}
    return kubernetes(aws, cluster, pulumi.ResourceOptions())


def _kubeconfig(plan: AwsPlan, cluster: Mapping[str, str]) -> dict[str, Any]:
    name = plan.cluster.name
    asking = ["eks", "get-token", "--cluster-name", name, "--region", plan.region]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": cluster["endpoint"],
                    "certificate-authority-data": cluster["certificate_authority"],
                },
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": [*asking, "--output", "json"],
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
    }


def load_balancer(made: pulumi.StackReference, aws: AwsPlan) -> LoadBalancer:
    """An internal NLB of AWS's own controller.

    Its class comes from the program that installed the controller: without one nothing would make
    the balancer, and, worse, nothing would remove it.
    """
    return LoadBalancer(
        class_name=made.require_output("load_balancer_class"),
        annotations=dict(aws.balancer.annotations),
        source_ranges=aws.balancer.source_ranges,
        seen_ranges=aws.balancer.seen_ranges,
        needs_node_ports=False,
        address="hostname",
    )


def certificate(workspace: Workspace, aws: AwsPlan) -> tuple[str, pulumi.Output[str]]:
    """Chain and private key of the gateway's certificate, the key from Pulumi's secrets.

    Raises:
        OperationError: none is given, as where an issuer in the cluster signs one.
    """
    return read_certificate(workspace, aws.certificate, "aws.certificate")


def builder_pool(workspace: Workspace, plan: Plan, aws: AwsPlan, image: ImagePlan) -> Pool:
    """The builder of an image as a pool of one host, whose address comes with its instance.

    Raises:
        OperationError: the pool that starts it has no lock, or a repository's key is not beside it.
    """
    of_image = (pool.hosts for pool in plan.pools if pool.name in image.pools)
    hosts = next((one for one in of_image if one is not None), None)
    if hosts is None:
        raise OperationError(
            f"image {image.name}",
            reason=f"none of the pools {', '.join(image.pools)} has a lock",
            remedy="give the pools that start the image a host_lock",
        )
    names = {one.key_file for one in hosts.lock.repositories}
    return Pool(
        name=image.name,
        hosts=(Host(name=BUILDER, address="", failure_domain=image.zone_id),),
        access=Access(
            user="root",
            known_hosts="",  # nothing goes by SSH
            session_manager=SessionManager(
                region=aws.region,
                bucket=aws.transfer_bucket,
                key_alias=f"alias/{cluster_name(plan.environment)}-{keys.WEIGHTS}",
            ),
        ),
        lock=hosts.lock,
        # What boots the image has other GPUs than the builder: any number that agrees is right.
        settings=hosts.settings.model_copy(update={"expected_gpus": None}),
        keys=repository_keys(workspace, image.name, names),
        kubeconfig="",
    )
