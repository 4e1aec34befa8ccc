"""The weights of one model: the volume, the Job that fills it, the gate, and what is removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Secret
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from tokenworks.components.weights_jobs import COLLECT, POPULATE, collect_spec, populate_spec
from tokenworks.components.workload import TO_DNS, Workload
from tokenworks.naming import MODEL_LABEL, ROLE_LABEL, STEP_LABEL, content_hash
from tokenworks.plan.types import ModelPlan, Reach
from tokenworks.render import TOKEN_KEY
from tokenworks.sizing.cold_start import MARGIN_SECONDS


@dataclass(frozen=True, kw_only=True)
class WeightsArgs:
    """Whose weights, on which storage, and the files of the gate and of the Job.

    ``volume`` is the one that was made for the claim, None where the storage class makes one.

    ``token`` is what the source asks for, where it asks for something.
    """

    model: ModelPlan
    gate_files: Mapping[str, str]
    populate_files: Mapping[str, str]
    token: pulumi.Input[str] | None
    storage_class: pulumi.Input[str]
    namespace: pulumi.Input[str]
    priority_class: pulumi.Input[str]
    labels: Mapping[str, str]
    volume: pulumi.Input[str] | None = None


@dataclass(frozen=True, kw_only=True)
class WeightsCollectorArgs:
    """Whose weights, and the files of the Job."""

    model: ModelPlan
    files: Mapping[str, str]
    namespace: pulumi.Input[str]
    priority_class: pulumi.Input[str]
    labels: Mapping[str, str]


class _WithJob(Workload):
    """A component with one Job, which is another Job as soon as anything about it changes."""

    def files(self, suffix: str, files: Mapping[str, str]) -> tuple[str, ConfigMap]:
        """Files for a pod under a name that changes with them, and that name."""
        name = f"{self.name}-{suffix}-{content_hash(dict(files))}"
        made = ConfigMap(
            f"{self.name}-{suffix}",
            metadata=self.metadata(name),
            data=dict(files),
            immutable=True,
            opts=self.child(),
        )
        return name, made

    def closed_but(self, ways_out: list[dict[str, Any]]) -> NetworkPolicy:
        """Nobody may call the Job, and it may call nobody but whom its ways out lead to."""
        rules = {"policy_types": ["Ingress", "Egress"], "egress": ways_out}
        return self.opening("to-source" if ways_out else "to-nobody", rules)

    def job(self, step: str, spec: dict[str, Any], needs: list[pulumi.Resource]) -> Job:
        """The Job; whatever depends on it starts when it has succeeded.

        Its name is short, since pods carry it as a label of up to 63 characters.
        """
        limit = f"{spec['active_deadline_seconds'] + MARGIN_SECONDS}s"
        plain = {**spec, "template": _without_inputs(spec["template"])}
        name = f"{self.selector[MODEL_LABEL]}-{step}-{content_hash(plain)}"
        # A Job that failed stays failed: only another one can do it again.
        again = {"pulumi.com/replaceUnready": "true"}
        return Job(
            f"{self.name}-{step}",
            metadata={**self.metadata(name), "annotations": again},
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needs,
                custom_timeouts=pulumi.CustomTimeouts(create=limit, update=limit),
            ),
        )


class Weights(_WithJob):
    """A volume with one revision of a model's files, and the manifest they are held against.

    Whatever depends on it starts when the revision is on the volume.
    """

    claim: pulumi.Output[str]
    gate: pulumi.Output[str]

    def __init__(
        self, name: str, args: WeightsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:Weights",
            name,
            opts,
            namespace=args.namespace,
            labels=args.labels,
            selector=_selector(args.model, args.labels, POPULATE),
        )
        self._args = args
        claim = self._claim()
        self.claim = claim.metadata.name
        self.gate = self.files("gate", args.gate_files)[1].metadata.name
        reach = args.model.weights.populate.reach
        closed = self.closed_but(_ways_out(reach.value) if reach else [])
        self._populate([claim, closed, *self._token()])
        self.register_outputs({"claim": self.claim, "gate": self.gate})

    def _claim(self) -> PersistentVolumeClaim:
        weights = self._args.model.weights
        return PersistentVolumeClaim(
            f"{self.name}-claim",
            metadata=self.metadata(weights.claim),
            spec={
                # The Job writes and engines read, on whichever nodes.
                "access_modes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": f"{weights.volume_gib.value}Gi"}},
                "storage_class_name": self._args.storage_class,
                "volume_name": self._args.volume,
            },
            opts=self.child(),
        )

    def _token(self) -> list[pulumi.Resource]:
        """What the source asks for: a file in the pod, and in nobody's arguments."""
        if self._args.token is None:
            return []
        secret = Secret(
            f"{self.name}-token",
            metadata=self.metadata(f"{self.name}-token"),
            string_data={TOKEN_KEY: self._args.token},
            opts=self.child(),
        )
        return [secret]

    def _populate(self, needs: list[pulumi.Resource]) -> Job:
        args = self._args
        tools, files = self.files("tools", args.populate_files)
        spec = populate_spec(
            args.model,
            labels={**args.labels, STEP_LABEL: POPULATE},
            tools=tools,
            token=None if args.token is None else f"{self.name}-token",
            priority_class=args.priority_class,
        )
        return self.job(POPULATE, spec, [files, *needs])


class WeightsCollector(_WithJob):
    """A Job that removes the revisions of a model which no release uses.

    It depends on the rollout: until that is complete, pods may run with the old revision.
    """

    def __init__(
        self, name: str, args: WeightsCollectorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "tokenworks:serving:WeightsCollector",
            name,
            opts,
            namespace=args.namespace,
            labels=args.labels,
            selector=_selector(args.model, args.labels, COLLECT),
        )
        tools, files = self.files("tools", args.files)
        labels = {**args.labels, STEP_LABEL: COLLECT}
        spec = collect_spec(
            args.model, labels=labels, tools=tools, priority_class=args.priority_class
        )
        self.job(COLLECT, spec, [files, self.closed_but([])])
        self.register_outputs({})


def _selector(model: ModelPlan, labels: Mapping[str, str], step: str) -> dict[str, str]:
    return {MODEL_LABEL: model.name, ROLE_LABEL: labels[ROLE_LABEL], STEP_LABEL: step}


def _ways_out(reach: Reach) -> list[dict[str, Any]]:
    to = [
        {"ip_block": {"cidr": network, **({"except_": list(but)} if but else {})}}
        for network, but in reach.networks
    ]
    source = {"to": to, "ports": [{"protocol": "TCP", "port": reach.port}]}
    return [TO_DNS, source] if reach.names else [source]


def _without_inputs(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's template without what is known only after deployment."""
    spec = {key: value for key, value in template["spec"].items() if key != "priority_class_name"}
    return {**template, "spec": spec}
