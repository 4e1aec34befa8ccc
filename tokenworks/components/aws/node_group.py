"""A managed node group: one instance type in one zone, from one version of a launch template."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi_aws import ec2, eks

from tokenworks.components.aws.documents import Late, filled
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.plan.aws.types import NodeGroupPlan

LONGEST_PREFIX: Final = 37
"""Characters of a group's prefix, to which 26 are added: docs.aws.amazon.com/eks CreateNodegroup
allows 63."""
PATIENCE: Final = pulumi.CustomTimeouts(create="60m", update="180m", delete="60m")
"""Large instances take long to come and, as they are drained first, longer to go."""
_EFFECTS: Final = {
    "NoSchedule": "NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
}
OWN_METADATA: Final = ec2.LaunchTemplateMetadataOptionsArgs(
    http_endpoint="enabled",
    http_tokens="required",
    # One hop reaches the node and no pod: those have roles of their own.
    http_put_response_hop_limit=1,
)
# Where each system has its root volume: amazon-eks-ami (AL2023), cloud-images.ubuntu.com.
_AMAZON_ROOT: Final = "/dev/xvda"
_UBUNTU_ROOT: Final = "/dev/sda1"


@dataclass(frozen=True, kw_only=True)
class NodeGroupArgs:
    """The group as planned, and what it is put into.

    ``groups`` are security groups, the cluster's own among them: a template that names any is
    given none by EKS. ``late`` is what user data asks for. ``after`` is what nodes need to become
    ready, and what must clean up behind them.
    """

    plan: NodeGroupPlan
    cluster: pulumi.Input[str]
    kubernetes_version: str
    role_arn: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    groups: Sequence[pulumi.Input[str]]
    key_arn: pulumi.Input[str]
    image_id: pulumi.Input[str] | None
    late: Late
    after: Sequence[pulumi.Resource]
    tags: Tags


class NodeGroup(Owned):
    """Launch template, placement group and node group of one pool in one zone."""

    def __init__(
        self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("NodeGroup", name, args.tags, opts)
        self._name, self._args = name, args
        self._group(self._template())
        self.register_outputs({})

    def _group(self, template: ec2.LaunchTemplate) -> eks.NodeGroup:
        plan = self._args.plan
        autoscaled = plan.minimum != plan.maximum
        return eks.NodeGroup(
            f"{self._name}-nodes",
            cluster_name=self._args.cluster,
            # A fixed name would keep a group from being there before the one that it replaces.
            node_group_name_prefix=f"{self._name[: LONGEST_PREFIX - 1]}-",
            node_role_arn=self._args.role_arn,
            subnet_ids=[self._args.subnet_id],
            instance_types=None if self._is_block() else [plan.instance],
            # The number, and no alias for it, which would differ at every look.
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config={
                "desired_size": plan.nodes,
                "min_size": plan.minimum,
                "max_size": plan.maximum,
            },
            labels=dict(plan.labels),
            taints=[
                {"key": key, "value": value, "effect": _EFFECTS.get(effect, effect)}
                for key, value, effect in plan.taints
            ],
            update_config={
                "max_unavailable": plan.max_unavailable,
                "update_strategy": plan.update_strategy,
            },
            node_repair_config={"enabled": plan.repair},
            tags=self.named(plan.name),
            opts=self.child(
                self._args.after,
                ignore_changes=["scalingConfig.desiredSize"] if autoscaled else None,
                custom_timeouts=PATIENCE,
            ),
            **self._image_and_capacity(),
        )

    def _image_and_capacity(self) -> dict[str, Any]:
        """What EKS chooses by itself unless told; an image of ours forbids its words for AWS's."""
        plan = self._args.plan
        bought = {"RESERVATION": "ON_DEMAND"}.get(plan.capacity.kind, plan.capacity.kind)
        if self._args.image_id is not None:
            return {"capacity_type": bought}
        return {
            "capacity_type": bought,
            "ami_type": plan.ami_type,
            "version": self._args.kubernetes_version,
            "release_version": plan.release_version,
        }

    def _template(self) -> ec2.LaunchTemplate:
        plan = self._args.plan
        return ec2.LaunchTemplate(
            f"{self._name}-template",
            name=plan.name,
            update_default_version=True,
            image_id=self._args.image_id,
            instance_type=plan.instance if self._is_block() else None,
            user_data=self._user_data(),
            metadata_options=OWN_METADATA,
            block_device_mappings=[self._root()],
            tag_specifications=[
                ec2.LaunchTemplateTagSpecificationArgs(
                    resource_type=kind, tags=self.named(plan.name)
                )
                for kind in ("instance", "network-interface", "volume")
            ],
            tags=self.named(plan.name),
            opts=self.child(),
            **self._interfaces(),
            **self._placement(),
            **self._reserved(),
        )

    def _user_data(self) -> pulumi.Input[str]:
        text = pulumi.Output.from_input(filled(self._args.plan.user_data, self._args.late))
        return text.apply(lambda plain: base64.b64encode(plain.encode()).decode())

    def _root(self) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
        own = self._args.image_id is not None
        return ec2.LaunchTemplateBlockDeviceMappingArgs(
            device_name=_UBUNTU_ROOT if own else _AMAZON_ROOT,
            ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                volume_type="gp3",
                volume_size=self._args.plan.root_volume_gib,
                encrypted="true",
                kms_key_id=self._args.key_arn,
                delete_on_termination="true",
            ),
        )

    def _interfaces(self) -> dict[str, Any]:
        """Security groups stand on the instance, or on its interfaces where those are listed."""
        groups = list(self._args.groups)
        if not self._args.plan.interfaces:
            return {"vpc_security_group_ids": groups}
        return {
            "network_interfaces": [
                {
                    "network_card_index": one.card,
                    "device_index": one.device,
                    "interface_type": one.kind,
                    "security_groups": groups,
                    "delete_on_termination": "true",
                }
                for one in self._args.plan.interfaces
            ]
        }

    def _placement(self) -> dict[str, Any]:
        """One group of neighbours, in one zone, where nodes talk by fabric adapters."""
        name = self._args.plan.placement_group
        if name is None:
            return {}
        group = ec2.PlacementGroup(
            f"{self._name}-placement",
            name=name,
            strategy="cluster",
            tags=self.named(name),
            opts=self.child(),
        )
        return {"placement": {"group_name": group.name}}

    def _reserved(self) -> dict[str, Any]:
        reservation = self._args.plan.capacity.reservation
        if reservation is None:
            return {}
        target = {"capacity_reservation_target": {"capacity_reservation_id": reservation}}
        market = {"instance_market_options": {"market_type": "capacity-block"}}
        return {
            "capacity_reservation_specification": target,
            **(market if self._is_block() else {}),
        }

    def _is_block(self) -> bool:
        return self._args.plan.capacity.kind == "CAPACITY_BLOCK"
