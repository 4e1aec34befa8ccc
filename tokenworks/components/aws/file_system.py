"""The file system that weights are read from: FSx for Lustre in one zone, or EFS in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import efs, fsx

from tokenworks.components.aws.owned import Owned, Tags
from tokenworks.errors import OperationError
from tokenworks.plan.aws.types import FileSystemPlan
from tokenworks.plan.aws.weights_files import WEIGHTS_FOLDER

FILE_SYSTEM_GROUP = "weights"


@dataclass(frozen=True, kw_only=True)
class FileSystemArgs:
    """The file system as planned, and where; ``subnet_ids`` is by zone."""

    title: str
    plan: FileSystemPlan
    subnet_ids: Mapping[str, pulumi.Input[str]]
    group_id: pulumi.Input[str]
    key_arn: pulumi.Input[str]
    bucket: pulumi.Input[str]
    protect: bool
    tags: Tags


class FileSystem(Owned):
    """A file system, encrypted by a key of ours; ``mount_name`` is empty for EFS."""

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]

    def __init__(
        self, name: str, args: FileSystemArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("FileSystem", name, args.tags, opts)
        self._name, self._args = name, args
        if args.plan.kind == "fsx-lustre":
            self._lustre()
        else:
            self._efs()
        outputs = {"file_system_id": self.file_system_id, "dns_name": self.dns_name}
        self.register_outputs({**outputs, "mount_name": self.mount_name})

    def _lustre(self) -> None:
        args, plan = self._args, self._args.plan
        throughput = plan.throughput_mb_per_second_per_tib
        created = fsx.LustreFileSystem(
            f"{self._name}-lustre",
            subnet_ids=self._subnet(),
            security_group_ids=[args.group_id],
            deployment_type=plan.deployment_type,
            file_system_type_version=plan.lustre_version,
            storage_type="SSD",
            storage_capacity=plan.capacity_gib.value,
            per_unit_storage_throughput=throughput.value if throughput else None,
            kms_key_id=args.key_arn,
            # Every file is in the bucket; backups of the copy would cost as much again.
            automatic_backup_retention_days=0,
            skip_final_backup=True,
            copy_tags_to_backups=False,
            tags=self.named(args.title),
            opts=self.child(protect=args.protect),
        )
        fsx.DataRepositoryAssociation(
            f"{self._name}-repository",
            file_system_id=created.id,
            file_system_path=f"/{WEIGHTS_FOLDER}",
            data_repository_path=pulumi.Output.format("s3://{0}/{1}", args.bucket, WEIGHTS_FOLDER),
            batch_import_meta_data_on_create=True,
            delete_data_in_filesystem=False,
            # Weights are never changed in place, and no node writes them back.
            s3={"auto_import_policy": {"events": ["NEW", "DELETED"]}},
            tags=self.named(args.title),
            opts=self.child(),
        )
        self.file_system_id, self.dns_name = created.id, created.dns_name
        self.mount_name = created.mount_name

    def _efs(self) -> None:
        args = self._args
        created = efs.FileSystem(
            f"{self._name}-efs",
            creation_token=args.title,
            encrypted=True,
            kms_key_id=args.key_arn,
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            tags=self.named(args.title),
            opts=self.child(protect=args.protect),
        )
        targets: list[pulumi.Output[Any]] = [
            efs.MountTarget(
                f"{self._name}-{zone}",
                file_system_id=created.id,
                subnet_id=subnet,
                security_groups=[args.group_id],
                opts=self.child(),
            ).id
            for zone, subnet in args.subnet_ids.items()
        ]
        # Whoever reads the id can mount it: every zone has its target by then.
        everywhere = pulumi.Output.all(created.id, *targets)
        self.file_system_id = everywhere.apply(lambda ids: str(ids[0]))
        self.dns_name = created.dns_name
        self.mount_name = pulumi.Output.from_input("")

    def _subnet(self) -> pulumi.Input[str]:
        zone = self._args.plan.zone_id
        if zone is None or zone not in self._args.subnet_ids:
            raise OperationError(
                f"file system of {self._args.title}",
                reason=f"it lies in one zone, and {zone} has no subnet",
                remedy="name one of the network's zones for it",
            )
        return self._args.subnet_ids[zone]
