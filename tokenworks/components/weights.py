"""The weights of one release: a read-only volume and the gate that checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim

from tokenworks.naming import content_hash
from tokenworks.plan.types import WeightsPlan


@dataclass(frozen=True, kw_only=True)
class WeightsArgs:
    """Which weights, on which storage, and the files of the gate."""

    weights: WeightsPlan
    gate_files: Mapping[str, str]
    size_gib: int
    storage_class: pulumi.Input[str]
    namespace: pulumi.Input[str]
    labels: Mapping[str, str]


class Weights(pulumi.ComponentResource):
    """A claim for one revision of a model's files, and the manifest they are held against."""

    claim: pulumi.Output[str]
    gate: pulumi.Output[str]

    def __init__(
        self, name: str, args: WeightsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:serving:Weights", name, {}, opts)
        self.claim = self._claim(name, args).metadata.name
        self.gate = self._gate(name, args).metadata.name
        self.register_outputs({"claim": self.claim, "gate": self.gate})

    def _claim(self, name: str, args: WeightsArgs) -> PersistentVolumeClaim:
        return PersistentVolumeClaim(
            f"{name}-claim",
            metadata={
                "name": args.weights.claim,
                "namespace": args.namespace,
                "labels": args.labels,
                "annotations": {
                    "tokenworks.dev/repository": args.weights.repository,
                    "tokenworks.dev/revision": args.weights.revision,
                    "tokenworks.dev/weights-digest": args.weights.digest,
                },
            },
            spec={
                "access_modes": ["ReadOnlyMany"],
                "resources": {"requests": {"storage": f"{args.size_gib}Gi"}},
                "storage_class_name": args.storage_class,
            },
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _gate(self, name: str, args: WeightsArgs) -> ConfigMap:
        files = dict(args.gate_files)
        return ConfigMap(
            f"{name}-gate",
            metadata={
                "name": f"{name}-gate-{content_hash(files)}",
                "namespace": args.namespace,
                "labels": args.labels,
            },
            data=files,
            immutable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
