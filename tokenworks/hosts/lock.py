"""The host lock: every package and kernel of one kind of host, exact, with where it comes from.

One file stands for one operating system, architecture and driver branch. It is resolved once
(``tokenworks lock hosts``) and committed; roles only consume it.
"""

from __future__ import annotations

import enum
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tokenworks.environment.section import Section

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9A-F]{40}$")]
PackageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
# deb-version(7), without the epoch's and revision's finer rules: dpkg checks those.
PackageVersion = Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.+:~-]*$")]
DriverVersion = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?$")]

OPERATING_SYSTEMS = ("ubuntu-22.04", "ubuntu-24.04", "debian-12")


class Part(enum.StrEnum):
    """What a package belongs to, and so what a change of it costs, from least to most."""

    OTHER = "other"
    TOOLKIT = "toolkit"
    CONTAINERD = "containerd"
    FABRIC_MANAGER = "fabric_manager"
    DRIVER = "driver"
    COMPILER = "compiler"
    HEADERS = "headers"
    KERNEL = "kernel"


def without_password(address: str) -> str:
    """Refuse an address that names who asks: it is kept where everybody may read it."""
    if "@" in address:
        raise ValueError(
            "must not hold a user or password; let the mirror know these hosts by their addresses"
        )
    return address


class RepositoryLock(Section):
    """One apt repository: where, which key signs it, and in which file that key lies."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    uri: Annotated[
        str, Field(pattern=r"^(https?|file)://\S+$"), AfterValidator(without_password)
    ] = Field(
        description="Address; a snapshot or mirror of your own, since vendors delete old packages. "
        "Without a password: it lies in the lock, in state, and readable on every host."
    )
    suite: Annotated[str, Field(min_length=1)] = Field(
        description="Suite, such as noble; ./ for a flat repository."
    )
    components: tuple[str, ...] = Field(default=(), description="Components; none if it is flat.")
    key_file: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+\.asc$")] = Field(
        description="Armoured public key, beside the lock in keys/."
    )
    key_fingerprint: Fingerprint = Field(description="Fingerprint of that key, 40 hex digits.")


class PackageLock(Section):
    """One package at one version with the hash of its file."""

    name: PackageName
    version: PackageVersion
    sha256: Sha256
    part: Part
    repository: str = Field(description="Name of the repository that it must come from.")


class Driver(Section):
    """Which driver, and from which archive."""

    version: DriverVersion
    modules: Literal["open", "proprietary"]
    archive: Literal["cuda", "distribution"]

    @property
    def branch(self) -> int:
        """The driver branch, 580 of 580.126.20."""
        return int(self.version.split(".")[0])


class HostLock(Section):
    """Everything that a host of one kind runs below Kubernetes."""

    os: Literal["ubuntu-22.04", "ubuntu-24.04", "debian-12"]
    architecture: Literal["amd64", "arm64"]
    kernel: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+[A-Za-z0-9.+~-]*$")] = Field(
        description="Kernel release as `uname -r` prints it."
    )
    driver: Driver
    toolkit_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    repositories: Annotated[tuple[RepositoryLock, ...], Field(min_length=1)]
    packages: Annotated[tuple[PackageLock, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        names = Counter(package.name for package in self.packages)
        doubled = sorted(name for name, count in names.items() if count > 1)
        if doubled:
            raise ValueError(f"packages are locked twice: {', '.join(doubled)}")
        known = {repository.name for repository in self.repositories}
        strange = sorted({p.repository for p in self.packages} - known)
        if strange:
            raise ValueError(f"packages come from repositories not listed: {', '.join(strange)}")
        missing = sorted(part for part in _NEEDED if not self.of(part))
        if missing:
            raise ValueError(f"no package is locked for: {', '.join(missing)}")
        return self

    def of(self, *parts: Part) -> tuple[PackageLock, ...]:
        """Return the packages of these parts, by name."""
        listed = (package for package in self.packages if package.part in parts)
        return tuple(sorted(listed, key=lambda package: package.name))

    @property
    def versions(self) -> dict[str, str]:
        """Return every package's version by its name."""
        return {package.name: package.version for package in self.packages}


_NEEDED = (Part.KERNEL, Part.HEADERS, Part.DRIVER, Part.TOOLKIT, Part.CONTAINERD)


def lock_path(stacks: Path, lock_name: str) -> Path:
    """Return where a lock lies: ``stacks/hosts/<name>.yaml``."""
    return stacks / "hosts" / f"{lock_name}.yaml"
