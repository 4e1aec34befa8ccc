"""Simulated nodes: Node objects that the scheduler believes in and kwok keeps alive."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from tokenworks.plan.nodes import NodePlan

SDK_VERSION = importlib.metadata.version("pulumi-kubernetes")
FAKE_NODE_ANNOTATION = {"kwok.x-k8s.io/node": "fake"}


@dataclass(frozen=True, kw_only=True)
class SimulatedNodesArgs:
    """The nodes to pretend."""

    nodes: Sequence[NodePlan]


class SimulatedNodes(pulumi.ComponentResource):
    """Nodes of one pool that exist only as objects in the API server."""

    def __init__(
        self, name: str, args: SimulatedNodesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:cluster:SimulatedNodes", name, {}, opts)
        for node in args.nodes:
            self._node(node)
        self.names = [node.name for node in args.nodes]
        self.register_outputs({"names": self.names})

    def _node(self, node: NodePlan) -> pulumi.CustomResource:
        # The SDK's typed Node has no status, and a node without capacity takes no pods.
        return pulumi.CustomResource(
            "kubernetes:core/v1:Node",
            f"{node.name}-node",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": node.name,
                    "labels": node.labels,
                    "annotations": FAKE_NODE_ANNOTATION,
                },
                "spec": {"taints": [vars(taint) for taint in node.taints]},
                "status": {"capacity": node.capacity, "allocatable": node.allocatable},
            },
            pulumi.ResourceOptions(
                parent=self,
                version=SDK_VERSION,
                # The API server ignores changes to the status of an existing Node.
                replace_on_changes=["status"],
                delete_before_replace=True,
            ),
        )
