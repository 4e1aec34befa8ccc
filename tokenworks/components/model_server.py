"""Replicas of one release behind one Service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from tokenworks.components.engine_pod import engine_pod
from tokenworks.components.workload import Workload
from tokenworks.naming import (
    GATEWAY_ROLE,
    MODEL_LABEL,
    RELEASE_LABEL,
    ROLE_LABEL,
    content_hash,
    engine_service,
)
from tokenworks.plan.types import ModelPlan


@dataclass(frozen=True, kw_only=True)
class ModelServerArgs:
    """One release, and where it runs."""

    model: ModelPlan
    config_files: Mapping[str, str]
    labels: Mapping[str, str]
    namespace: pulumi.Input[str]
    gateway_namespace: pulumi.Input[str]
    priority_class: pulumi.Input[str]
    weights_claim: pulumi.Input[str]
    weights_gate: pulumi.Input[str]


class ModelServer(Workload):
    """Replicas of one release behind one headless Service that only the gateway may reach."""

    service: pulumi.Output[str]

    def __init__(
        self, name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:ModelServer",
            name,
            opts,
            namespace=args.namespace,
            labels=args.labels,
            selector={MODEL_LABEL: args.model.name, ROLE_LABEL: args.labels[ROLE_LABEL]},
        )
        self._args = args
        config = self._config()
        self._deployment(config)
        self.service = self._service().metadata.name
        self.disruption_budget()
        self._opening()
        self.register_outputs({"service": self.service})

    def _config(self) -> ConfigMap:
        files = dict(self._args.config_files)
        return ConfigMap(
            f"{self.name}-config",
            metadata=self.metadata(f"{self.name}-config-{content_hash(files)}"),
            data=files,
            immutable=True,
            opts=self.child(),
        )

    def _deployment(self, config: ConfigMap) -> Deployment:
        args, model = self._args, self._args.model
        rollout = model.rollout.value
        return Deployment(
            f"{self.name}-deployment",
            metadata=self.metadata(self.name),
            spec={
                "replicas": model.replicas.value,
                "selector": {"match_labels": self.selector},
                "strategy": {
                    "type": "RollingUpdate",
                    "rolling_update": {
                        "max_surge": rollout.max_surge,
                        "max_unavailable": rollout.max_unavailable,
                    },
                },
                # A new replica counts once gateways know of it; until then an old one stays.
                "min_ready_seconds": model.drain_seconds.value,
                "progress_deadline_seconds": model.progress_deadline_seconds.value,
                "revision_history_limit": 3,
                "template": {
                    "metadata": {"labels": {**args.labels, RELEASE_LABEL: model.release}},
                    "spec": engine_pod(
                        model,
                        selector=self.selector,
                        priority_class=args.priority_class,
                        config=config.metadata.name,
                        weights_claim=args.weights_claim,
                        weights_gate=args.weights_gate,
                    ),
                },
            },
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=_patience(model)),
        )

    def _service(self) -> Service:
        return Service(
            f"{self.name}-service",
            metadata=self.metadata(engine_service(self.name)),
            spec={
                "type": "ClusterIP",
                # Headless: the gateway balances over the pods itself, by requests in flight.
                "cluster_ip": "None",
                "selector": self.selector,
                "ports": [{"name": "http", "port": self._args.model.port, "target_port": "http"}],
            },
            opts=self.child(),
        )

    def _opening(self) -> NetworkPolicy:
        """The one way in: from the gateway's pods to the engine's port."""
        return NetworkPolicy(
            f"{self.name}-from-gateway",
            metadata=self.metadata(f"{self.name}-from-gateway"),
            spec={
                "pod_selector": {"match_labels": self.selector},
                "policy_types": ["Ingress"],
                "ingress": [
                    {
                        "from_": [
                            {
                                "namespace_selector": {
                                    "match_labels": {
                                        "kubernetes.io/metadata.name": self._args.gateway_namespace
                                    }
                                },
                                "pod_selector": {"match_labels": {ROLE_LABEL: GATEWAY_ROLE}},
                            }
                        ],
                        "ports": [{"protocol": "TCP", "port": self._args.model.port}],
                    }
                ],
            },
            opts=self.child(),
        )


def _patience(model: ModelPlan) -> pulumi.CustomTimeouts:
    """Pulumi would give up on a rollout after ten minutes, long before it counts as stuck."""
    limit = f"{model.rollout_limit_seconds.value}s"
    return pulumi.CustomTimeouts(create=limit, update=limit)
