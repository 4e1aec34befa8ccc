"""Reading images and what uses them, and deregistering those that nothing does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenworks.aws.client import AwsError, Cloud, tags_of
from tokenworks.aws.images import Image, Use, Verdict


def read_images(cloud: Cloud) -> list[Image]:
    """Images that this account owns in this region, whosever of its environments they are."""
    found = cloud.pages("ec2", "describe_images", "Images", Owners=["self"])
    return [
        Image(
            id=each["ImageId"],
            name=each.get("Name", ""),
            created=each.get("CreationDate", ""),
            tags=tags_of(each.get("Tags")),
            snapshots=tuple(_snapshots(each)),
        )
        for each in found
    ]


def read_uses(cloud: Cloud) -> list[Use]:
    """Everything in this region from which a machine runs or could start, whosever it is."""
    return [*_instances(cloud), *_templates(cloud), *_configurations(cloud), *_groups(cloud)]


def collect(
    cloud: Cloud, verdicts: Iterable[Verdict], say: Callable[[str], None]
) -> list[tuple[str, str]]:
    """Deregister each that goes, then its snapshots; returns what failed with the reason.

    One failure stops nothing else. A snapshot that another image uses is refused by EC2 itself.
    """
    failed: list[tuple[str, str]] = []
    for image in (verdict.image for verdict in verdicts if verdict.goes):
        try:
            cloud.call("ec2", "deregister_image", ImageId=image.id)
        except AwsError as error:
            failed.append((image.id, error.reason))
            continue
        say(f"{image.name} ({image.id}): deregistered")
        for snapshot in image.snapshots:
            try:
                cloud.call("ec2", "delete_snapshot", SnapshotId=snapshot)
            except AwsError as error:
                failed.append((snapshot, error.reason))
    return failed


def _snapshots(image: dict[str, Any]) -> Iterator[str]:
    for mapping in image.get("BlockDeviceMappings") or ():
        if snapshot := (mapping.get("Ebs") or {}).get("SnapshotId"):
            yield snapshot


def _instances(cloud: Cloud) -> Iterator[Use]:
    for reservation in cloud.pages("ec2", "describe_instances", "Reservations"):
        for one in reservation["Instances"]:
            if one["State"]["Name"] != "terminated":
                yield Use(image=one["ImageId"], by=f"instance {one['InstanceId']}")


def _templates(cloud: Cloud) -> Iterator[Use]:
    """Every version of every template: a group may be set back to an old one."""
    for template in cloud.pages("ec2", "describe_launch_templates", "LaunchTemplates"):
        listing = {"LaunchTemplateId": template["LaunchTemplateId"]}
        versions = cloud.pages(
            "ec2", "describe_launch_template_versions", "LaunchTemplateVersions", **listing
        )
        for one in versions:
            if image := one["LaunchTemplateData"].get("ImageId"):
                name = f"{template['LaunchTemplateName']} version {one['VersionNumber']}"
                yield Use(image=image, by=f"launch template {name}")


def _configurations(cloud: Cloud) -> Iterator[Use]:
    listing = ("autoscaling", "describe_launch_configurations", "LaunchConfigurations")
    for one in cloud.pages(*listing):
        name = one["LaunchConfigurationName"]
        yield Use(image=one["ImageId"], by=f"launch configuration {name}")


def _groups(cloud: Cloud) -> Iterator[Use]:
    """Groups with overrides that name an image themselves; the rest name a template."""
    for group in cloud.pages("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"):
        policy = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
        for override in policy.get("Overrides") or ():
            if image := override.get("ImageId"):
                yield Use(image=image, by=f"auto scaling group {group['AutoScalingGroupName']}")
