"""The service that keeps the budgets of all gateways together, and the store of its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from tokenworks.components.workload import RESTRICTED, Workload, restricted_pod
from tokenworks.naming import GATEWAY_ROLE, ROLE_LABEL, content_hash
from tokenworks.plan.gateway_types import RateLimitPlan
from tokenworks.render_gateway import (
    RATE_LIMIT_CONFIG_MOUNT,
    rate_limit_environment,
    store_arguments,
)

NOBODY = 65532
"""The user of the service's image, which has no shell and nothing else."""
STORE_USER = 999
"""The ``valkey`` user of the store's image."""
DNS_PORT = 53
SKIP_AWAIT = "pulumi.com/skipAwait"


@dataclass(frozen=True, kw_only=True)
class RateLimitArgs:
    """What is kept, and for whom."""

    plan: RateLimitPlan
    budgets_file: str
    service_labels: Mapping[str, str]
    store_labels: Mapping[str, str]
    namespace: pulumi.Input[str]
    priority_class: pulumi.Input[str]


class RateLimitStore(Workload):
    """One Valkey in memory: the counters of this minute, which only the service may reach."""

    def __init__(
        self, name: str, args: RateLimitArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:RateLimitStore",
            name,
            opts,
            namespace=args.namespace,
            labels=args.store_labels,
            selector={ROLE_LABEL: args.store_labels[ROLE_LABEL]},
        )
        port = args.plan.store_port
        container = {
            "name": "valkey",
            "image": args.plan.store_image.reference,
            "command": ["valkey-server"],
            "args": list(store_arguments(args.plan)),
            "ports": [{"name": "store", "container_port": port}],
            "security_context": RESTRICTED,
            "resources": _resources("100m", "128Mi"),
            "readiness_probe": {"tcp_socket": {"port": "store"}, "period_seconds": 5},
            "liveness_probe": {"tcp_socket": {"port": "store"}, "period_seconds": 10},
        }
        pod = {**_pod(self, STORE_USER, args), "containers": [container]}
        # Two at once would keep two counts.
        _deployment(self, pod, replicas=1, strategy={"type": "Recreate"})
        _service(self, "store", port)
        _opening(self, args.service_labels[ROLE_LABEL], port)
        self.register_outputs({})


class RateLimit(Workload):
    """``envoyproxy/ratelimit``, which only gateways may ask and which reaches only its store."""

    def __init__(
        self, name: str, args: RateLimitArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:RateLimit",
            name,
            opts,
            namespace=args.namespace,
            labels=args.service_labels,
            selector={ROLE_LABEL: args.service_labels[ROLE_LABEL]},
        )
        self._args = args
        pod = {
            **_pod(self, NOBODY, args),
            "containers": [self._container()],
            "volumes": [{"name": "budgets", "config_map": {"name": self._budgets()}}],
        }
        strategy = {
            "type": "RollingUpdate",
            "rolling_update": {"max_surge": 1, "max_unavailable": 0},
        }
        _deployment(self, pod, replicas=args.plan.replicas.value, strategy=strategy)
        _service(self, "http", args.plan.port)
        self.disruption_budget()
        _opening(self, GATEWAY_ROLE, args.plan.port)
        self._to_store()
        self.register_outputs({})

    def _budgets(self) -> pulumi.Output[str]:
        files = {"tokenworks.yaml": self._args.budgets_file}
        created = ConfigMap(
            f"{self.name}-budgets",
            metadata=self.metadata(f"{self.name}-budgets-{content_hash(files)}"),
            data=files,
            immutable=True,
            opts=self.child(),
        )
        return created.metadata.name

    def _container(self) -> dict[str, Any]:
        plan = self._args.plan
        ready = {"http_get": {"path": "/healthcheck", "port": "http"}, "timeout_seconds": 5}
        environment = rate_limit_environment(plan)
        return {
            "name": "rate-limit",
            "image": plan.image.reference,
            "command": ["/bin/ratelimit"],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "ports": [{"name": "http", "container_port": plan.port}],
            "security_context": RESTRICTED,
            "resources": _resources("100m", "128Mi"),
            "readiness_probe": {**ready, "period_seconds": 5, "failure_threshold": 2},
            "liveness_probe": {"tcp_socket": {"port": "http"}, "period_seconds": 10},
            "volume_mounts": [
                {"name": "budgets", "mount_path": RATE_LIMIT_CONFIG_MOUNT, "read_only": True}
            ],
        }

    def _to_store(self) -> None:
        dns = {
            "to": [
                {
                    "namespace_selector": {
                        "match_labels": {"kubernetes.io/metadata.name": "kube-system"}
                    },
                    "pod_selector": {"match_labels": {"k8s-app": "kube-dns"}},
                }
            ],
            "ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")],
        }
        role = self._args.store_labels[ROLE_LABEL]
        store = {
            "to": [{"pod_selector": {"match_labels": {ROLE_LABEL: role}}}],
            "ports": [{"protocol": "TCP", "port": self._args.plan.store_port}],
        }
        NetworkPolicy(
            f"{self.name}-to-store",
            metadata=self.metadata(f"{self.name}-to-store"),
            spec={
                "pod_selector": {"match_labels": self.selector},
                "policy_types": ["Egress"],
                "egress": [store, dns],
            },
            opts=self.child(),
        )


def _resources(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def _pod(workload: Workload, user: int, args: RateLimitArgs) -> dict[str, Any]:
    return restricted_pod(user=user, selector=workload.selector, priority_class=args.priority_class)


def _deployment(
    workload: Workload, pod: Mapping[str, Any], *, replicas: int, strategy: Mapping[str, Any]
) -> None:
    Deployment(
        f"{workload.name}-deployment",
        metadata=workload.metadata(workload.name),
        spec={
            "replicas": replicas,
            "selector": {"match_labels": workload.selector},
            "strategy": strategy,
            "revision_history_limit": 3,
            "template": {"metadata": {"labels": workload.labels}, "spec": pod},
        },
        opts=workload.child(),
    )


def _service(workload: Workload, port_name: str, port: int) -> None:
    Service(
        f"{workload.name}-service",
        # The Deployment's readiness says it already; the provider would watch ten seconds longer.
        metadata={**workload.metadata(workload.name), "annotations": {SKIP_AWAIT: "true"}},
        spec={
            "type": "ClusterIP",
            "selector": workload.selector,
            "ports": [{"name": port_name, "port": port, "target_port": port_name}],
        },
        opts=workload.child(),
    )


def _opening(workload: Workload, role: str, port: int) -> None:
    """The one way in: from the pods of one role, in the same namespace."""
    NetworkPolicy(
        f"{workload.name}-from-{role}",
        metadata=workload.metadata(f"{workload.name}-from-{role}"),
        spec={
            "pod_selector": {"match_labels": workload.selector},
            "policy_types": ["Ingress"],
            "ingress": [
                {
                    "from_": [{"pod_selector": {"match_labels": {ROLE_LABEL: role}}}],
                    "ports": [{"protocol": "TCP", "port": port}],
                }
            ],
        },
        opts=workload.child(),
    )
