"""Weights, model servers and the gateway."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from tokenworks import naming
from tokenworks.components.gateway import Gateway, GatewayArgs
from tokenworks.components.gateway_certificate import GivenCertificate
from tokenworks.components.model_server import ModelServer, ModelServerArgs
from tokenworks.components.rate_limit import RateLimit, RateLimitArgs, RateLimitStore
from tokenworks.components.weights import (
    Weights,
    WeightsArgs,
    WeightsCollector,
    WeightsCollectorArgs,
)
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.plan.types import ModelPlan, ServerPlan
from tokenworks.programs.context import Context
from tokenworks.render import (
    collect_files,
    engine_files,
    populate_files,
    weights_gate_files,
)
from tokenworks.render_budgets import rate_limit_file
from tokenworks.render_gateway import gateway_files
from tokenworks.render_keys import gateway_credentials_files, gateway_keys_file, key_hash

POD_ADDRESS = "0.0.0.0"  # noqa: S104  (a pod's own addresses; NetworkPolicies decide who comes in)


def program(context: Context) -> None:
    """Serve every model of the plan behind one gateway."""
    cluster = context.stack("cluster")
    volumes = _volumes(context)
    for model in context.plan.models:
        weights = _weights(context, model, cluster, volumes.get(model.name))
        server = _model_server(context, model, weights, cluster)
        _collect(context, model, server, cluster)
    _rate_limit(context, cluster)
    gateway = _gateway(context, cluster)
    pulumi.export("gateway_address", gateway.address)
    pulumi.export("models", [model.name for model in context.plan.models])


def _weights(
    context: Context,
    model: ModelPlan,
    cluster: pulumi.StackReference,
    volume: pulumi.Output[str] | None,
) -> Weights:
    source = model.weights.populate.source
    secret = source.token_secret if isinstance(source, ServerPlan) else None
    return Weights(
        f"{model.name}-weights",
        WeightsArgs(
            model=model,
            gate_files=weights_gate_files(model.weights),
            populate_files=populate_files(model.name, model.weights),
            token=pulumi.Config().require_secret(secret) if secret else None,
            storage_class=cluster.require_output("weights_storage_class"),
            namespace=cluster.require_output("engines_namespace"),
            priority_class=cluster.require_output("engine_priority_class"),
            labels=context.labels(model.engine, naming.WEIGHTS_ROLE, model.name),
            volume=volume,
        ),
        context.opts,
    )


def _collect(
    context: Context, model: ModelPlan, server: ModelServer, cluster: pulumi.StackReference
) -> None:
    """Remove what no release uses, once the rollout is complete and old pods are gone."""
    args = WeightsCollectorArgs(
        model=model,
        files=collect_files(model.weights),
        namespace=cluster.require_output("engines_namespace"),
        priority_class=cluster.require_output("engine_priority_class"),
        labels=context.labels(model.engine, naming.WEIGHTS_ROLE, model.name),
    )
    WeightsCollector(f"{model.name}-weights-old", args, _after(context, server))


def _after(context: Context, first: pulumi.Resource) -> pulumi.ResourceOptions:
    """Options of a component that starts when another is complete."""
    wait = pulumi.ResourceOptions(depends_on=[first])
    return pulumi.ResourceOptions.merge(context.opts, wait)


def _volumes(context: Context) -> Mapping[str, pulumi.Output[str]]:
    """Volumes of weights by model, where the platform makes one for each claim."""
    if context.plan.aws is None:
        return {}
    from tokenworks.programs.aws_volumes import weights_volumes  # its SDK is for this platform only

    return weights_volumes(context, context.plan.aws)


def _model_server(
    context: Context, model: ModelPlan, weights: Weights, cluster: pulumi.StackReference
) -> ModelServer:
    return ModelServer(
        model.name,
        ModelServerArgs(
            model=model,
            config_files=engine_files(model),
            labels=context.labels(model.engine, naming.ENGINE_ROLE, model.name),
            namespace=cluster.require_output("engines_namespace"),
            gateway_namespace=cluster.require_output("gateway_namespace"),
            priority_class=cluster.require_output("engine_priority_class"),
            weights_claim=weights.claim,
            weights_gate=weights.gate,
        ),
        _after(context, weights),
    )


def _gateway(context: Context, cluster: pulumi.StackReference) -> Gateway:
    plan = context.plan.gateway
    return Gateway(
        "gateway",
        GatewayArgs(
            plan=plan,
            pods=context.plan.gateway_pods,
            config_files=gateway_files(plan, listen_address=POD_ADDRESS),
            key_file=_key_file(plan),
            credentials_files=_credentials_files(plan),
            certificate=None if plan.issuer else _given_certificate(context),
            load_balancer=context.load_balancer,
            labels=context.labels("gateway", naming.GATEWAY_ROLE),
            namespace=cluster.require_output("gateway_namespace"),
            engines_namespace=cluster.require_output("engines_namespace"),
            priority_class=cluster.require_output("gateway_priority_class"),
        ),
        context.opts,
    )


def _given_certificate(context: Context) -> GivenCertificate:
    certificate = context.certificate()
    return GivenCertificate(chain=certificate.chain, private_key=certificate.private_key)


def _rate_limit(context: Context, cluster: pulumi.StackReference) -> None:
    """The keeper of budgets, where any tenant has one."""
    plan, pods = context.plan.gateway, context.plan.gateway_pods.rate_limit
    if plan.rate_limit is None or pods is None:
        return
    args = RateLimitArgs(
        plan=plan.rate_limit,
        pods=pods,
        budgets_file=rate_limit_file(plan),
        service_labels=context.labels(naming.RATE_LIMIT_SERVICE, naming.RATE_LIMIT_ROLE),
        store_labels=context.labels(naming.RATE_LIMIT_STORE_SERVICE, naming.RATE_LIMIT_STORE_ROLE),
        namespace=cluster.require_output("gateway_namespace"),
        priority_class=cluster.require_output("gateway_priority_class"),
    )
    RateLimitStore(naming.RATE_LIMIT_STORE_SERVICE, args, context.opts)
    RateLimit(naming.RATE_LIMIT_SERVICE, args, context.opts)


def _credentials_files(plan: GatewayPlan) -> pulumi.Output[dict[str, str]] | None:
    """What managed APIs ask for; made by people, so a missing one stops the update."""
    if not plan.apis:
        return None
    config = pulumi.Config()
    secrets = {api.name: config.require_secret(api.credential_secret) for api in plan.apis}
    return pulumi.Output.all(**secrets).apply(gateway_credentials_files)


def _key_file(plan: GatewayPlan) -> pulumi.Output[str]:
    """The gateway's keys as hashes; the keys themselves never reach the cluster."""
    config = pulumi.Config()
    names = [name for tenant in plan.tenants for name in tenant.key_secrets]

    def write(keys: list[str]) -> str:
        hashes = dict(zip(names, (key_hash(key) for key in keys), strict=True))
        return gateway_keys_file(
            {t.name: [hashes[name] for name in t.key_secrets] for t in plan.tenants}
        )

    return pulumi.Output.all(*(config.require_secret(name) for name in names)).apply(write)
