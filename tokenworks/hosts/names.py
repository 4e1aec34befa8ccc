"""What packages are called: by archive, operating system and driver branch.

Two archives carry NVIDIA's driver for Ubuntu, under different names, and NVIDIA's own renamed its
packages at branch 590. Nothing here is a version.

Sources, read 2026-11-29 and 2026-11-30: fabric manager, NSCQ and their change at 580 from
NVIDIA/gpu-driver-container ``ubuntu24.04/precompiled/local-repo.sh`` at 1ae29e79; compute-only
names from docs.nvidia.com/datacenter/tesla/driver-installation-guide; Canonical's from
packages.ubuntu.com (sources ``nvidia-graphics-drivers-580-server`` and
``linux-restricted-modules``, the file list of ``nvidia-compute-utils-580-server``); the four
toolkit names from NVIDIA/cloud-native-docs at 52dcb7b. NVIDIA's guide ("Ubuntu 590 and later
packages") says which names lost their branch at 590; what became of ``nvidia-utils-580``, which has
nvidia-smi, could not be read there.
"""

from __future__ import annotations

import re
from typing import Final

from tokenworks.hosts.lock import Driver, HostLock, Part

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

SMI_PACKAGE: Final = re.compile(r"nvidia-utils(-\d+(-server)?)?|nvidia-smi")
"""Packages that bring nvidia-smi: Canonical's and NVIDIA's below 590 (packages.ubuntu.com, file
lists), and Debian's own."""
MODPROBE_PACKAGE: Final = "nvidia-modprobe"
"""Brings the program that makes device files; its name never had a branch."""

BESIDE_DRIVER: Final = (
    r"nvidia-(mig-manager|gds|fs|cuda-(toolkit|dev|doc|gdb|samples)|opencl-dev|profiler"
    r"|visual-profiler)(-.+)?|libnvidia-ml-dev"
)
"""NVIDIA's packages that are no part of the driver and have versions of their own: the MIG manager
(NVIDIA/mig-parted), GPUDirect Storage with its module (docs.nvidia.com/gpudirect-storage), and the
distribution's CUDA toolkit (packages.debian.org, source nvidia-cuda-toolkit)."""

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
    if is_beside_driver(package):
        return None
    return next((part for regex, part in _PARTS if re.fullmatch(regex, package)), None)


def is_beside_driver(package: str) -> bool:
    """Whether a package of NVIDIA's is no part of the driver: whoever installed it keeps it."""
    return re.fullmatch(BESIDE_DRIVER, package) is not None


def follows_kernel(package: str) -> bool:
    """Whether a package of the driver has its kernel's version: modules that come built."""
    return package.startswith("linux-")


def builds_modules(lock: HostLock) -> bool:
    """Whether the locked driver's modules are built on the host, by dkms, or come built."""
    names = (package.name for package in lock.of(Part.DRIVER))
    return any("dkms" in name and "no-dkms" not in name for name in names)


def driver_packages(os: str, driver: Driver, kernel: str) -> tuple[str, ...] | None:
    """Return the packages to ask for to have a compute-only driver, without display.

    Canonical's come with modules that are built for one kernel and signed. None where the archive
    has no driver that serves: Debian's own ends at 535 in bookworm (packages.debian.org), before
    every GPU and engine of today.
    """
    branch, is_open = driver.branch, driver.modules == "open"
    if os.startswith("debian"):
        if driver.archive == "distribution":
            return None
        modules = "nvidia-kernel-open-dkms" if is_open else "nvidia-kernel-dkms"
        return ("nvidia-driver-cuda", modules, "nvidia-persistenced")
    flavour = "-open" if is_open else ""
    if driver.archive == "distribution":
        return (
            f"nvidia-headless-no-dkms-{branch}-server{flavour}",
            f"linux-modules-nvidia-{branch}-server{flavour}-{kernel}",
            f"nvidia-utils-{branch}-server",
            MODPROBE_PACKAGE,
        )
    if branch >= RENAMED_AT:
        return (
            "libnvidia-compute",
            f"nvidia-dkms{flavour}",
            MODPROBE_PACKAGE,
            "nvidia-persistenced",
        )
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
