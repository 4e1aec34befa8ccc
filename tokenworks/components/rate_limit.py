"""The service that keeps the budgets of all gateways together, and the store of its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from tokenworks.components.workload import RESTRICTED, TO_DNS, Workload, probes, restricted_pod
from tokenworks.naming import GATEWAY_ROLE, ROLE_LABEL, content_hash
from tokenworks.plan.gateway_pods import (
    SERVICE_PORT_NAME,
    STORE_PORT_NAME,
    PodPlan,
    RateLimitPods,
)
from tokenworks.plan.gateway_types import RateLimitPlan
from tokenworks.render_budgets import (
    RATE_LIMIT_CONFIG_MOUNT,
    rate_limit_environment,
    store_arguments,
)

NOBODY = 65532
"""The user of the service's image, which has no shell and nothing else."""
STORE_USER = 999
"""The ``valkey`` user of the store's image."""
SKIP_AWAIT = "pulumi.com/skipAwait"


@dataclass(frozen=True, kw_only=True)
class RateLimitArgs:
    """What is kept, and for whom."""

    plan: RateLimitPlan
    pods: RateLimitPods
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
            "ports": [{"name": STORE_PORT_NAME, "container_port": port}],
            **_running(args.pods.store),
        }
        pod = {**_pod(self, STORE_USER, args, args.pods.store), "containers": [container]}
        # Two at once would keep two counts.
        replicas = args.pods.store_replicas.value
        _deployment(self, pod, replicas=replicas, strategy={"type": "Recreate"})
        _service(self, STORE_PORT_NAME, port)
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
            **_pod(self, NOBODY, args, args.pods.service),
            "containers": [self._container()],
            "volumes": [{"name": "budgets", "config_map": {"name": self._budgets()}}],
        }
        strategy = {
            "type": "RollingUpdate",
            "rolling_update": {"max_surge": 1, "max_unavailable": 0},
        }
        _deployment(self, pod, replicas=args.plan.replicas.value, strategy=strategy)
        _service(self, SERVICE_PORT_NAME, args.plan.port)
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
        environment = rate_limit_environment(plan)
        return {
            "name": "rate-limit",
            "image": plan.image.reference,
            "command": ["/bin/ratelimit"],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "ports": [{"name": SERVICE_PORT_NAME, "container_port": plan.port}],
            **_running(self._args.pods.service),
            "volume_mounts": [
                {"name": "budgets", "mount_path": RATE_LIMIT_CONFIG_MOUNT, "read_only": True}
            ],
        }

    def _to_store(self) -> None:
        role = self._args.store_labels[ROLE_LABEL]
        store = {
            "to": [{"pod_selector": {"match_labels": {ROLE_LABEL: role}}}],
            "ports": [{"protocol": "TCP", "port": self._args.plan.store_port}],
        }
        self.opening("to-store", {"policy_types": ["Egress"], "egress": [store, TO_DNS]})


def _running(plan: PodPlan) -> dict[str, Any]:
    """What the containers of both have in common: rights, share of the node, probes and end."""
    cpu, memory = f"{plan.cpu_millicores.value}m", f"{plan.memory_mib.value}Mi"
    delay = plan.stop_delay_seconds.value
    return {
        "security_context": RESTRICTED,
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        **probes(plan.probes),
        **({"lifecycle": {"pre_stop": {"sleep": {"seconds": delay}}}} if delay else {}),
    }


def _pod(workload: Workload, user: int, args: RateLimitArgs, plan: PodPlan) -> dict[str, Any]:
    return {
        **restricted_pod(
            user=user,
            selector=workload.selector,
            spread=args.pods.spread,
            priority_class=args.priority_class,
        ),
        "termination_grace_period_seconds": plan.termination_grace_seconds.value,
    }


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
    way = {
        "from_": [{"pod_selector": {"match_labels": {ROLE_LABEL: role}}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }
    workload.opening(f"from-{role}", {"policy_types": ["Ingress"], "ingress": [way]})
