"""Every reason why an AWS environment cannot be planned, each at its key."""

from __future__ import annotations

from collections.abc import Iterator

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.lock import Lock
from tokenworks.errors import Problem
from tokenworks.hosts.beside import HostFiles
from tokenworks.plan.aws.charts import chart_images
from tokenworks.plan.aws.network_problems import network_problems
from tokenworks.plan.aws.pool_problems import pool_problems
from tokenworks.plan.aws.version_problems import version_problems
from tokenworks.plan.aws.weights_files import source_problems


def aws_problems(loaded: LoadedEnvironment, lock: Lock, files: HostFiles) -> Iterator[Problem]:
    """Nothing on other platforms."""
    section = loaded.environment.aws
    if section is None:
        return
    yield from network_problems(loaded, section)
    yield from version_problems(loaded, section)
    yield from pool_problems(loaded, section, files)
    yield from source_problems(loaded, section)
    yield from _images(loaded, section, lock)


def _images(loaded: LoadedEnvironment, section: Aws, lock: Lock) -> Iterator[Problem]:
    for image in chart_images():
        if lock.find(image.repository, image.tag) is None:
            yield loaded.source.problem(
                ("aws",),
                given=f"{image.repository}:{image.tag}",
                reason="is not locked, and a chart of every cluster runs it",
                remedy="add it with its digest and where that was read to images.lock",
            )
    if section.network.egress == "none" and loaded.environment.image_registry is None:
        yield loaded.source.problem(
            ("aws", "network", "egress"),
            given="none",
            reason="leaves no way to the registries of the images",
            remedy="name a mirror inside your networks as image_registry, or use egress nat",
        )
    for index, api in enumerate(loaded.environment.gateway.apis):
        if section.network.egress == "none":
            yield loaded.source.problem(
                ("gateway", "apis", index, "host"),
                given=api.host,
                reason="is outside of a network that nothing leaves (aws.network.egress none)",
                remedy="remove it, or use egress nat or transit-gateway",
            )
