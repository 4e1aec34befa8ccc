"""A volume for the weights of one release, on the file system of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import efs, s3
from pulumi_kubernetes.core.v1 import PersistentVolume

from tokenworks.components.aws.owned import Tags
from tokenworks.naming import ENGINE_USER
from tokenworks.plan.aws.types import FileSystemPlan
from tokenworks.plan.aws.weights_files import FOLDER_METADATA, FOLDER_TYPE, WEIGHTS_FOLDER


@dataclass(frozen=True, kw_only=True)
class WeightsVolumeArgs:
    """The claim that the volume is for, and the file system that it is a folder of."""

    plan: FileSystemPlan
    claim: str
    namespace: pulumi.Input[str]
    size_gib: int
    storage_class: pulumi.Input[str]
    file_system_id: pulumi.Input[str]
    dns_name: pulumi.Input[str]
    mount_name: pulumi.Input[str]
    bucket: pulumi.Input[str]
    labels: Mapping[str, str]
    tags: Tags


class WeightsVolume(pulumi.ComponentResource):
    """A volume that only one claim can have, and that outlives it with everything in it.

    Engines mount their claim read-only; whoever fills it does not.
    """

    volume: pulumi.Output[str]

    def __init__(
        self, name: str, args: WeightsVolumeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:WeightsVolume", name, {}, opts)
        self._name, self._args = name, args
        created = PersistentVolume(
            f"{name}-volume",
            metadata={"name": args.claim, "labels": dict(args.labels)},
            spec={
                "capacity": {"storage": f"{args.size_gib}Gi"},
                "access_modes": ["ReadWriteMany"],
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": args.storage_class,
                "mount_options": list(args.plan.mount_options),
                "claim_ref": {"namespace": args.namespace, "name": args.claim},
                "csi": self._lustre() if args.plan.kind == "fsx-lustre" else self._efs(),
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.volume = created.metadata.name
        self.register_outputs({"volume": self.volume})

    def _lustre(self) -> dict[str, Any]:
        """The driver mounts what the attributes say (aws-fsx-csi-driver ``pkg/driver/node.go``).

        The handle only tells volumes apart: two of one handle on one node are one to the kubelet.
        """
        args = self._args
        folder = f"{WEIGHTS_FOLDER}/{args.claim}"
        made = self._folder(folder)
        return {
            "driver": "fsx.csi.aws.com",
            "volume_handle": pulumi.Output.format("{0}/{1}", args.file_system_id, folder),
            "volume_attributes": {
                "dnsname": args.dns_name,
                "mountname": pulumi.Output.format("{0}/{1}", args.mount_name, made),
            },
        }

    def _folder(self, folder: str) -> pulumi.Output[str]:
        """The folder on the file system, which follows the bucket, and so can be mounted.

        A key that ends in a slash is a folder, and its metadata say whose.
        """
        marker = s3.BucketObjectv2(
            f"{self._name}-folder",
            bucket=self._args.bucket,
            key=f"{folder}/",
            content="",
            content_type=FOLDER_TYPE,
            metadata=dict(FOLDER_METADATA),
            tags={**self._args.tags, "Name": self._args.claim},
            opts=pulumi.ResourceOptions(parent=self),
        )
        return marker.key.apply(lambda key: key.rstrip("/"))

    def _efs(self) -> dict[str, Any]:
        """An access point makes its folder at the first mount, and lets nobody out of it."""
        args = self._args
        point = efs.AccessPoint(
            f"{self._name}-access-point",
            file_system_id=args.file_system_id,
            posix_user={"uid": ENGINE_USER, "gid": ENGINE_USER},
            root_directory={
                "path": f"/{WEIGHTS_FOLDER}/{args.claim}",
                "creation_info": {
                    "owner_uid": ENGINE_USER,
                    "owner_gid": ENGINE_USER,
                    "permissions": "0755",
                },
            },
            tags={**args.tags, "Name": args.claim},
            opts=pulumi.ResourceOptions(parent=self),
        )
        handle = pulumi.Output.format("{0}::{1}", args.file_system_id, point.id)
        return {"driver": "efs.csi.aws.com", "volume_handle": handle}
