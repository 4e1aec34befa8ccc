"""A namespace that refuses by default: pods must be restricted, and nobody may talk to anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.networking.v1 import NetworkPolicy

POD_SECURITY_LEVEL = "restricted"


@dataclass(frozen=True, kw_only=True)
class GuardedNamespaceArgs:
    """Name and labels of the namespace."""

    namespace: str
    labels: Mapping[str, str]


class GuardedNamespace(pulumi.ComponentResource):
    """A namespace under Pod Security ``restricted`` with a NetworkPolicy that denies everything."""

    namespace: pulumi.Output[str]

    def __init__(
        self, name: str, args: GuardedNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:cluster:GuardedNamespace", name, {}, opts)
        created = Namespace(
            f"{name}-namespace",
            metadata={"name": args.namespace, "labels": {**args.labels, **_pod_security()}},
            opts=pulumi.ResourceOptions(parent=self),
        )
        NetworkPolicy(
            f"{name}-default-deny",
            metadata={
                "name": "default-deny",
                "namespace": created.metadata.name,
                "labels": args.labels,
            },
            spec={"pod_selector": {}, "policy_types": ["Ingress", "Egress"]},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.namespace = created.metadata.name
        self.register_outputs({"namespace": self.namespace})


def _pod_security() -> dict[str, str]:
    modes = ("enforce", "audit", "warn")
    return {f"pod-security.kubernetes.io/{mode}": POD_SECURITY_LEVEL for mode in modes}
