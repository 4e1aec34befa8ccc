"""How weights reach the file system of a network that nothing leaves."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.weights_source import HttpSource, HubSource, WeightsSource
from tokenworks.errors import Problem
from tokenworks.naming import ENGINE_USER
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.types import WeightsPlan
from tokenworks.plan.weights import reach

WEIGHTS_FOLDER: Final = "weights"
"""Folder of the file system, and prefix of the bucket, with one folder for each claim."""
FOLDER_TYPE: Final = "application/x-directory"
_OWNER: Final = {"file-owner": str(ENGINE_USER), "file-group": str(ENGINE_USER)}
FOLDER_METADATA: Final[Mapping[str, str]] = {**_OWNER, "file-permissions": "0040755"}
FILE_METADATA: Final[Mapping[str, str]] = {**_OWNER, "file-permissions": "0100444"}
"""Whose a folder and a file of the bucket are on Lustre, and what may be done with them: FSx for
Lustre user guide, posix-metadata-support. Without it they would not be the Job's, which marks a
revision when it is asked for, and removes it when nobody uses it."""


def source_problems(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """Sources that cannot be reached, where nothing else can bring their files either."""
    if section.weights.file_system == "fsx-lustre":
        return
    for index, model in enumerate(loaded.environment.models):
        if (server := _out_of_reach(section, model.weights.source)) is not None:
            yield loaded.source.problem(
                ("models", index, "weights", "source"),
                given=server.address,
                reason="is outside of a network that nothing leaves (aws.network.egress none)",
                remedy="name a server with addresses inside your networks, or a claim; with "
                "aws.weights.file_system fsx-lustre the files may be put into the bucket instead",
            )


def bucket_notes(case: AwsCase) -> Iterator[str]:
    """How the files of sources that cannot be reached get on Lustre, which follows a bucket."""
    for index, model in enumerate(case.loaded.environment.models):
        if (server := _out_of_reach(case.section, model.weights.source)) is not None:
            commands = " && ".join(_commands(case, case.weights[model.name]))
            yield (
                f"models[{index}].weights.source: {server.address} is outside of a network that "
                "nothing leaves; fetch the listed files into FOLDER, with nothing beside them, and "
                f"put them into the bucket (docs/aws.md says when): {commands}"
            )


def _out_of_reach(section: Aws, source: WeightsSource) -> HubSource | HttpSource | None:
    """The server of a source, where no way from the network leads to any of its addresses."""
    network, server = section.network, source.server
    if network.egress != "none" or server is None:
        return None
    gateway = network.transit_gateway
    ways = [network.cidr, *(gateway.routes if gateway else ())]
    met = any(_meets(way, one, but) for one, but in reach(server).value.networks for way in ways)
    return None if met else server


def _meets(way: str, network: str, but: tuple[str, ...]) -> bool:
    """Whether a way leads to an address of a network that is in none of its exceptions."""
    ours, closed = ipaddress.ip_network(way), map(ipaddress.ip_network, but)
    if not ours.overlaps(ipaddress.ip_network(network)):
        return False
    return not any(one.overlaps(ours) and one.prefixlen <= ours.prefixlen for one in closed)


def _commands(case: AwsCase, weights: WeightsPlan) -> Iterator[str]:
    """Folders first: what a file's name only implies would be root's."""
    region, bucket = case.section.region, case.bucket("weights")
    root = PurePosixPath(WEIGHTS_FOLDER, weights.claim)
    model = PurePosixPath(weights.folder)
    parents = {folder for path, _, _ in weights.files for folder in (model / path).parents}
    for folder in sorted(parents):
        yield (
            f"aws s3api put-object --region {region} --bucket {bucket} "
            f"--key {shlex.quote(f'{root / folder}/')} --content-type {FOLDER_TYPE} "
            f"--metadata {_written(FOLDER_METADATA)}"
        )
    yield (
        f"aws s3 sync --region {region} FOLDER s3://{bucket}/{root / model}/ "
        f"--metadata {_written(FILE_METADATA)}"
    )


def _written(metadata: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in metadata.items())
