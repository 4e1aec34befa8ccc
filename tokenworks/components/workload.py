"""What every workload of ours has in common: metadata, a disruption budget, restricted pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

RESTRICTED = {
    "allow_privilege_escalation": False,
    "capabilities": {"drop": ["ALL"]},
    "read_only_root_filesystem": True,
}
"""Security context of every container, under Pod Security ``restricted``."""


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


def restricted_pod(
    *, user: int, selector: Mapping[str, str], priority_class: pulumi.Input[str]
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
            {
                "max_skew": 1,
                "topology_key": "kubernetes.io/hostname",
                "when_unsatisfiable": "ScheduleAnyway",
                "label_selector": {"match_labels": dict(selector)},
            }
        ],
    }
