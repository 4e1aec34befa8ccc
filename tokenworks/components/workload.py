"""What every workload of ours has in common: metadata, a disruption budget, restricted pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.networking.v1 import NetworkPolicy
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from tokenworks.naming import GPU_RESOURCE, GPU_TAINT_VALUE
from tokenworks.plan.gateway_pods import PodProbes
from tokenworks.plan.spread import SpreadPlan
from tokenworks.plan.types import Probe

RESTRICTED = {
    "allow_privilege_escalation": False,
    "capabilities": {"drop": ["ALL"]},
    "read_only_root_filesystem": True,
}
"""Security context of every container, under Pod Security ``restricted``."""

ON_GPU_NODES = [
    {"key": GPU_RESOURCE, "operator": "Equal", "value": GPU_TAINT_VALUE, "effect": "NoSchedule"}
]
"""Tolerations of what may run beside GPUs."""

DNS_PORT = 53
WAIT_FOR = "pulumi.com/waitFor"
"""The annotation that tells the provider when an object counts as there."""


def namespace_selector(name: pulumi.Input[str]) -> dict[str, Any]:
    """Selects one namespace by its name."""
    return {"match_labels": {"kubernetes.io/metadata.name": name}}


TO_DNS: dict[str, Any] = {
    "to": [
        {
            "namespace_selector": namespace_selector("kube-system"),
            "pod_selector": {"match_labels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")],
}
"""The way out that everything needs which calls somebody by name."""


class Workload(pulumi.ComponentResource):
    """A component whose children live in one namespace under one set of labels."""

    def __init__(
        self,
        token: str,
        name: str,
        opts: pulumi.ResourceOptions | None,
        *,
        namespace: pulumi.Input[str],
        labels: Mapping[str, str],
        selector: Mapping[str, str],
    ) -> None:
        super().__init__(token, name, {}, opts)
        self.name, self.namespace = name, namespace
        self.labels, self.selector = dict(labels), dict(selector)

    def metadata(self, name: str) -> dict[str, Any]:
        """Metadata of a child under a fixed name."""
        return {"name": name, "namespace": self.namespace, "labels": self.labels}

    def child(self) -> pulumi.ResourceOptions:
        """Options of a child."""
        return pulumi.ResourceOptions(parent=self)

    def disruption_budget(self) -> PodDisruptionBudget:
        """Of all pods one at a time may be drained."""
        return PodDisruptionBudget(
            f"{self.name}-disruption-budget",
            metadata=self.metadata(self.name),
            spec={"max_unavailable": 1, "selector": {"match_labels": self.selector}},
            opts=self.child(),
        )

    def opening(self, suffix: str, rules: Mapping[str, Any]) -> NetworkPolicy:
        """One way in or out of the pods; whatever no opening names is closed."""
        return NetworkPolicy(
            f"{self.name}-{suffix}",
            metadata=self.metadata(f"{self.name}-{suffix}"),
            spec={"pod_selector": {"match_labels": self.selector}, **rules},
            opts=self.child(),
        )


def probes(plan: PodProbes) -> dict[str, Any]:
    """The three probes of a container."""
    return {
        "startup_probe": probe(plan.startup.value),
        "readiness_probe": probe(plan.readiness.value),
        "liveness_probe": probe(plan.liveness.value),
    }


def probe(plan: Probe) -> dict[str, Any]:
    """One probe of a container."""
    asked = (
        {"tcp_socket": {"port": plan.port}}
        if plan.path is None
        else {"http_get": {"path": plan.path, "port": plan.port}}
    )
    kill = {"termination_grace_period_seconds": plan.kill_seconds} if plan.kill_seconds else {}
    return {
        **asked,
        **kill,
        "period_seconds": plan.period_seconds,
        "timeout_seconds": plan.timeout_seconds,
        "failure_threshold": plan.failure_threshold,
    }


def restricted_pod(
    *,
    user: int,
    selector: Mapping[str, str],
    spread: SpreadPlan,
    priority_class: pulumi.Input[str],
) -> dict[str, Any]:
    """The part of a pod specification that says who it is and where it may not be alone."""
    return {
        "automount_service_account_token": False,
        # Services would otherwise set variables, some of which engines take for their own.
        "enable_service_links": False,
        "priority_class_name": priority_class,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": user,
            "run_as_group": user,
            "fs_group": user,
            "fs_group_change_policy": "OnRootMismatch",
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "topology_spread_constraints": [
            _even("kubernetes.io/hostname", spread.nodes.value, selector),
            _even("topology.kubernetes.io/zone", spread.zones.value, selector),
        ],
    }


def _even(
    topology_key: str, when_unsatisfiable: str, selector: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "max_skew": 1,
        "topology_key": topology_key,
        "when_unsatisfiable": when_unsatisfiable,
        "label_selector": {"match_labels": dict(selector)},
        "match_label_keys": ["pod-template-hash"],
        "node_taints_policy": "Honor",
    }
