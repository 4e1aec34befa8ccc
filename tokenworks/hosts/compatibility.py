"""Whether a host lock, its GPUs and what is to run on them go together; pure, used at plan time.

A misfit found here costs a minute; found on a node it costs a night, since the driver loads, the
node joins, and only the first engine fails.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from tokenworks.facts import gpu_drivers
from tokenworks.facts.gpu_drivers import Version, version
from tokenworks.hosts.apt_index import Version as PackageVersion
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.names import INDEPENDENT


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """Two things that do not go together: what was given, why not, what to do."""

    given: str
    reason: str
    remedy: str


def lock_misfits(lock: HostLock) -> Iterator[Misfit]:
    """Yield what is wrong within a lock, whatever GPUs its hosts have."""
    driver = lock.driver
    if driver.modules == "proprietary" and driver.branch > gpu_drivers.LAST_PROPRIETARY_BRANCH:
        yield Misfit(
            given=driver.version,
            reason=f"has no proprietary modules; branch {gpu_drivers.LAST_PROPRIETARY_BRANCH} was "
            "the last to have them",
            remedy="lock open modules, or an older branch for GPUs before Turing",
        )
    yield from _of_one_version(lock)
    if version(lock.toolkit_version) < gpu_drivers.TOOLKIT_FLOOR:
        yield Misfit(
            given=lock.toolkit_version,
            reason="is a toolkit through which a container can take over its host (CVE-2025-23266)",
            remedy=f"lock {_dotted(gpu_drivers.TOOLKIT_FLOOR)} or newer",
        )
    if version(lock.toolkit_version) in gpu_drivers.TOOLKIT_REFRESHES_TOO_LATE:
        yield Misfit(
            given=lock.toolkit_version,
            reason="is a toolkit that names the GPUs to containers only after the node has joined",
            remedy="lock the next release",
        )
    containerd = _containerd(lock)
    floor = gpu_drivers.CDI_CONTAINERD_FLOOR
    if version(lock.toolkit_version) >= gpu_drivers.CDI_TOOLKIT and containerd < floor:
        yield Misfit(
            given=_dotted(containerd),
            reason=f"is a containerd that cannot read what toolkit {lock.toolkit_version} writes "
            "(CDI 0.7.0)",
            remedy=f"lock containerd {_dotted(floor)} or newer",
        )


def gpu_misfits(lock: HostLock, gpu: str, compute_capability: str) -> Iterator[Misfit]:
    """Yield why a lock's driver cannot drive GPUs of a compute capability, such as ``9.0``."""
    driver, of = lock.driver, gpu_drivers.architecture(compute_capability)
    whose = f"{gpu} GPUs ({of.name}, compute capability {compute_capability})"
    if driver.modules == "open" and not of.open_modules:
        yield Misfit(
            given=driver.version,
            reason=f"has open modules, which do not drive {whose}",
            remedy=f"lock proprietary modules of branch {of.last_branch} or older",
        )
    if driver.modules == "proprietary" and not of.proprietary_modules:
        yield Misfit(
            given=driver.version,
            reason=f"has proprietary modules, which do not drive {whose}",
            remedy="lock open modules",
        )
    if version(driver.version) < of.first_driver:
        yield Misfit(
            given=driver.version,
            reason=f"is older than {whose}",
            remedy=f"lock driver {_dotted(of.first_driver)} or newer",
        )
    if of.last_branch is not None and driver.branch > of.last_branch:
        yield Misfit(
            given=driver.version,
            reason=f"no longer drives {whose}",
            remedy=f"lock branch {of.last_branch} or older, or replace the GPUs",
        )


def cuda_misfits(driver_version: str, cuda: str) -> Iterator[Misfit]:
    """Yield why a driver cannot carry an image with a CUDA release, such as ``13.1``."""
    floor = gpu_drivers.CUDA_FAMILY_FLOORS.get(version(cuda)[0])
    if floor is None:
        yield Misfit(
            given=cuda,
            reason="is a CUDA release whose driver floor is unknown",
            remedy="add it to tokenworks/facts/gpu_drivers.py with its source",
        )
    elif version(driver_version) < floor:
        yield Misfit(
            given=driver_version,
            reason=f"is too old for CUDA {cuda}, which needs driver {_dotted(floor)} or newer",
            remedy=f"use driver {_dotted(floor)} or newer, or an engine of an older CUDA",
        )


def cuda_notes(driver_version: str, cuda: str) -> Iterator[str]:
    """Yield what works with a driver older than its CUDA release, and what does not."""
    paired = gpu_drivers.CUDA_RELEASE_FLOORS.get(cuda)
    if paired is not None and version(driver_version) < version(paired):
        yield (
            f"driver {driver_version} is older than {paired}, with which CUDA {cuda} came:"
            " compiled kernels run, but kernels that are only there as PTX of that CUDA are "
            "refused with UnsupportedPtxVersion."
        )


def branch_notes(branch: int, on: datetime.date) -> Iterator[str]:
    """Yield a warning where a driver branch is no longer maintained, or is not known to be."""
    known = gpu_drivers.BRANCHES.get(branch)
    if known is None:
        yield (
            f"driver branch {branch} is none of {', '.join(map(str, gpu_drivers.BRANCHES))}, whose "
            "end is known; look up until when NVIDIA maintains it."
        )
    elif known.ends < on:
        yield (
            f"driver branch {branch} ({known.kind}) has had no fixes since {known.ends:%B %Y}; "
            "move to a branch that is maintained."
        )


def _of_one_version(lock: HostLock) -> Iterator[Misfit]:
    """Fabric manager equals the driver, and the toolkit's packages equal each other."""
    wanted = {Part.FABRIC_MANAGER: lock.driver.version, Part.TOOLKIT: lock.toolkit_version}
    for part, right in wanted.items():
        for package in lock.of(part):
            upstream = PackageVersion(package.version).upstream
            if upstream != right and package.name not in INDEPENDENT:
                yield Misfit(
                    given=f"{package.name} {package.version}",
                    reason=f"is not at {right}, as every package of its kind must be",
                    remedy="resolve the lock again with `tokenworks lock hosts`",
                )


def _containerd(lock: HostLock) -> Version:
    """Numbers of the locked containerd; of ``2.2.1~rc.0`` only those before the first letter."""
    packages = [one for one in lock.of(Part.CONTAINERD) if one.name.startswith("containerd")]
    upstream = PackageVersion(packages[0].version).upstream if packages else "0"
    return version(upstream.split("~")[0].split("+")[0])


def _dotted(numbers: Version) -> str:
    return ".".join(map(str, numbers))
