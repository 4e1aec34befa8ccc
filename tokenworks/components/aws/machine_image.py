"""A machine image by our own roles: from a builder that nobody can call, named by its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
from pulumi.dynamic import Resource
from pulumi_aws import ec2

from tokenworks.aws.target import Target
from tokenworks.components.aws.builder import BuilderProvider, builder_inputs
from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.hosts.inventory import Pool
from tokenworks.hosts.settings import HostSettings
from tokenworks.plan.aws.types import ImagePlan

BUILDER_GROUP = "builder"
LIMIT = pulumi.CustomTimeouts(create=f"{HostSettings().turn_timeout_seconds + 2 * 3600}s")
"""One machine's preparation, then its verification and what comes before and after."""


@dataclass(frozen=True, kw_only=True)
class MachineImageArgs:
    """The image as planned; ``pool`` is one host without an address, with lock and settings.

    ``after`` is what must be there before Ansible is.
    """

    plan: ImagePlan
    pool: Pool
    target: Target
    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    key_arn: pulumi.Input[str]
    after: Sequence[pulumi.Resource]
    tags: Tags


class PreparedBuilder(Resource, module="hosts", name="Builder"):
    """A builder that is prepared, proven, sealed and stopped."""

    def __init__(
        self, name: str, inputs: pulumi.Input[dict[str, Any]], opts: pulumi.ResourceOptions
    ) -> None:
        given = pulumi.Output.from_input(inputs)
        props = {"pool": given["pool"], "target": given["target"]}
        super().__init__(BuilderProvider(), name, props, opts)


class MachineImage(Owned):
    """Builder and image; another content is another builder under another name.

    Images stay when nothing here names them any more: nodes may start from them as long as any
    version of a launch template does.
    """

    image_id: pulumi.Output[str]

    def __init__(
        self, name: str, args: MachineImageArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("MachineImage", name, args.tags, opts)
        self._name, self._args = f"{name}-{args.plan.digest[:10]}", args
        instance = self._builder()
        prepared = PreparedBuilder(
            f"{self._name}-prepared",
            instance.id.apply(self._inputs),
            self.child(args.after, custom_timeouts=LIMIT),
        )
        image = ec2.AmiFromInstance(
            f"{self._name}-image",
            name=args.plan.name,
            description=f"{args.plan.lock_name} on {args.plan.base_image}",
            source_instance_id=instance.id,
            snapshot_without_reboot=False,
            tags=self.named(args.plan.name, {"tokenworks:image-digest": args.plan.digest}),
            opts=self.child(
                [prepared],
                retain_on_delete=True,
                custom_timeouts=pulumi.CustomTimeouts(create="120m"),
            ),
        )
        self.image_id = image.id
        self.register_outputs({"image_id": self.image_id})

    def _inputs(self, instance: str) -> dict[str, Any]:
        (host,) = self._args.pool.hosts
        placed = replace(self._args.pool, hosts=(replace(host, address=instance),))
        return builder_inputs(placed, self._args.target)

    def _builder(self) -> ec2.Instance:
        plan = self._args.plan
        return ec2.Instance(
            f"{self._name}-builder",
            ami=plan.base_image,
            instance_type=plan.builder_instance,
            subnet_id=self._args.subnet_id,
            associate_public_ip_address=False,
            vpc_security_group_ids=[self._args.group_id],
            iam_instance_profile=self._args.profile,
            instance_initiated_shutdown_behavior="stop",
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                "http_put_response_hop_limit": 1,
            },
            root_block_device={
                "volume_type": "gp3",
                "volume_size": plan.root_volume_gib,
                "encrypted": True,
                "kms_key_id": self._args.key_arn,
                "delete_on_termination": True,
                "tags": self.named(f"{plan.name}-builder"),
            },
            tags=self.named(f"{plan.name}-builder"),
            opts=self.child(),
        )
