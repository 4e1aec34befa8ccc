"""What a host lock is asked to hold: the few versions that people choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tokenworks.environment.section import Section
from tokenworks.hosts.lock import Driver, PackageName, PackageVersion, Part, RepositoryLock
from tokenworks.hosts.names import MODPROBE_PACKAGE, part_of
from tokenworks.hosts.reading import read_as


class RequestedRepository(RepositoryLock):
    """A repository, and which parts are taken from it and from no other."""

    parts: Annotated[tuple[Part, ...], Field(min_length=1)]

    def locked(self) -> RepositoryLock:
        """Return it as it stands in a lock."""
        return RepositoryLock.model_validate(self.model_dump(exclude={"parts"}))


class Containerd(Section):
    """Which package brings containerd, and at which version."""

    package: Literal["containerd", "containerd.io"]
    version: PackageVersion


class LockRequest(Section):
    """Everything that is chosen by people; packages, versions and hashes follow from it."""

    os: Literal["ubuntu-22.04", "ubuntu-24.04", "debian-12"]
    architecture: Literal["amd64", "arm64"]
    kernel: str = Field(description="Kernel release as `uname -r` prints it.")
    compiler: PackageName = Field(
        description="Package of the compiler that /proc/version names, such as gcc-13."
    )
    driver: Driver
    nvidia_smi: PackageName | None = Field(
        default=None,
        description="Package that brings nvidia-smi, where that is not known here: in NVIDIA's own "
        "archive from branch 590 on.",
    )
    toolkit_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    containerd: Containerd
    extra_packages: tuple[PackageName, ...] = Field(
        default=(),
        description="Further packages, each at the newest version, such as nfs-common or nvlsm.",
    )
    repositories: Annotated[tuple[RequestedRepository, ...], Field(min_length=1)]

    def part_of(self, package: str) -> Part | None:
        """Return what a package belongs to; None for those that the lock does not hold.

        Ubuntu's nvidia-modprobe is a source package of its own, and not in the pocket that brings
        drivers of today: 535 in noble, and nothing in noble-updates (packages.ubuntu.com).
        """
        if self.driver.archive == "distribution" and package == MODPROBE_PACKAGE:
            return Part.OTHER
        return part_of(package) or (Part.OTHER if package in self.extra_packages else None)

    @model_validator(mode="after")
    def _never_mixes_archives(self) -> Self:
        """Builds of two archives do not fit each other (open-gpu-kernel-modules#537)."""
        for part in (Part.DRIVER, Part.TOOLKIT):
            sources = [one.name for one in self.repositories if part in one.parts]
            if len(sources) != 1:
                given = ", ".join(sources) or "none"
                raise ValueError(f"{part} must come from exactly one repository, not {given}")
        names = [one.name for one in self.repositories]
        if len(set(names)) != len(names):
            raise ValueError("two repositories have one name")
        return self


def request_path(stacks: Path, lock_name: str) -> Path:
    """Return where the request for a lock lies: ``stacks/hosts/requests/<name>.yaml``."""
    return stacks / "hosts" / "requests" / f"{lock_name}.yaml"


def read_request(file: Path) -> LockRequest:
    """Read a request.

    Raises:
        ConfigError: missing, unreadable, or with every bad value at its key path and line.
    """
    return read_as(file, LockRequest)
