"""What packages are called: by archive, operating system and driver branch.

Two archives carry NVIDIA's driver for Ubuntu, under different names, and NVIDIA's own renamed its
packages at branch 590. Nothing here is a version.

Sources, read 2026-11-29: fabric manager, NSCQ and their change at 580 from
NVIDIA/gpu-driver-container ``ubuntu24.04/precompiled/local-repo.sh`` at 1ae29e79; compute-only
names from docs.nvidia.com/datacenter/tesla/driver-installation-guide; Canonical's from
packages.ubuntu.com (``nvidia-headless-580-server-open``); the four toolkit names from
NVIDIA/cloud-native-docs at 52dcb7b.
"""

from __future__ import annotations

import re
from typing import Final

from tokenworks.hosts.lock import Driver, Part

RENAMED_AT: Final = 590
"""First branch whose packages in NVIDIA's archive carry no branch in their names."""
FABRIC_RENAMED_AT: Final = 580

TOOLKIT_PACKAGES: Final = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""They must all be at one version: a part left behind loses GPUs in running containers
(nvidia-container-toolkit#1091)."""

INDEPENDENT: Final = frozenset({"nvlsm"})
"""Packages of the driver's world that have version numbers of their own."""

_PARTS: Final = (
    (r"(lib)?nvidia-container\S*", Part.TOOLKIT),
    (r"containerd|containerd\.io|runc", Part.CONTAINERD),
    (r"nvidia-fabric-?manager\S*|cuda-drivers-fabricmanager\S*", Part.FABRIC_MANAGER),
    (r"libnvidia-nscq\S*|libnvsdm\S*|nvlsm|nvlink5\S*", Part.FABRIC_MANAGER),
    (r"(lib)?nvidia-\S+|firmware-nvidia-\S+|libcuda1|libxnvctrl\S*", Part.DRIVER),
    (r"linux-(modules|objects|signatures)-nvidia-\S+", Part.DRIVER),
    (r"linux-(image|modules|modules-extra)-\S+", Part.KERNEL),
    (r"linux-(headers|kbuild)-\S+|linux-\S+-headers-\S+", Part.HEADERS),
    (r"linux-compiler-\S+|(gcc|cpp)-[0-9]+", Part.COMPILER),
    (r"dkms", Part.OTHER),
)


def part_of(package: str) -> Part | None:
    """Return what a package belongs to; None for those that a lock leaves to the distribution."""
    return next((part for regex, part in _PARTS if re.fullmatch(regex, package)), None)


def driver_packages(os: str, driver: Driver) -> tuple[str, ...] | None:
    """Return the packages to ask for to have a compute-only driver, without display.

    None where the archive has no driver that serves: Debian's own ends at 535 in bookworm
    (packages.debian.org), before every GPU and engine of today.
    """
    branch, is_open = driver.branch, driver.modules == "open"
    if os.startswith("debian"):
        if driver.archive == "distribution":
            return None
        modules = "nvidia-kernel-open-dkms" if is_open else "nvidia-kernel-dkms"
        return ("nvidia-driver-cuda", modules, "nvidia-persistenced")
    flavour = "-open" if is_open else ""
    if driver.archive == "distribution":
        return (f"nvidia-headless-{branch}-server{flavour}", f"nvidia-utils-{branch}-server")
    if branch >= RENAMED_AT:
        return ("libnvidia-compute", f"nvidia-dkms{flavour}", "nvidia-persistenced")
    return (
        f"libnvidia-compute-{branch}",
        f"nvidia-dkms-{branch}{flavour}",
        f"nvidia-utils-{branch}",
        "nvidia-persistenced",
    )


def fabric_packages(driver: Driver) -> tuple[str, ...]:
    """Return fabric manager and the library that monitors NVSwitches, at the driver's version."""
    branch = driver.branch
    suffix = driver.archive == "distribution" or branch < FABRIC_RENAMED_AT
    names = ("nvidia-fabricmanager", "libnvidia-nscq")
    return tuple(f"{name}-{branch}" for name in names) if suffix else names


def kernel_packages(kernel: str) -> dict[str, Part]:
    """Return the packages of one kernel release, image and headers."""
    return {f"linux-image-{kernel}": Part.KERNEL, f"linux-headers-{kernel}": Part.HEADERS}
