"""What drivers, toolkits and containerd can do: floors, branches and when they end.

Sources, read 2026-11-29. Floors of CUDA: docs.nvidia.com/deploy/cuda-compatibility (families) and
public files that quote table 3 of NVIDIA's CUDA release notes (each minor release). Flavours of
kernel modules: docs.nvidia.com driver-installation-guide, kernel-modules page, and its R620 edition
of 2026-11-09, section 4.1. Ends of branches: docs.nvidia.com/datacenter/tesla/drivers, R620.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

Version = tuple[int, ...]


def version(text: str) -> Version:
    """Numbers of a dotted version, ``(580, 65, 6)`` of 580.65.06; comparable as a whole."""
    return tuple(int(part) for part in text.split("."))


CUDA_FAMILY_FLOORS: dict[int, Version] = {11: (450,), 12: (525,), 13: (580,)}
"""Oldest driver branch on which any release of a CUDA major version runs, by minor-version
compatibility, for code that was compiled to machine code."""

CUDA_RELEASE_FLOORS = {
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}
"""Driver that came with a CUDA release: PTX of that release needs it, since an older driver
refuses with ``UnsupportedPtxVersion``."""


TOOLKIT_FLOOR: Version = (1, 17, 8)
"""Oldest container toolkit without CVE-2025-23266, by which a container took over its host."""

CDI_CONTAINERD_FLOOR: Version = (1, 7, 16)
"""Oldest containerd that reads CDI specifications of version 0.7.0, which toolkits since 1.19.1
write (NVIDIA/cloud-native-docs at 52dcb7b)."""
CDI_TOOLKIT: Version = (1, 19, 1)

TOOLKIT_REFRESHES_TOO_LATE: frozenset[Version] = frozenset({(1, 19, 0)})
"""Toolkits whose unit that writes the CDI specification waits for ``multi-user.target``, and so for
the kubelet (NVIDIA/nvidia-container-toolkit ``deployments/systemd`` at v1.19.0; taken back by
5eee5ce7 in 1.19.1)."""

LAST_PROPRIETARY_BRANCH = 610
"""R620 removed the proprietary kernel modules."""
LAST_BRANCH_BEFORE_TURING = 580


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A GPU architecture: which flavours of kernel modules drive it, and the oldest driver."""

    name: str
    open_modules: bool
    proprietary_modules: bool
    first_driver: Version = (0,)
    last_branch: int | None = None


def architecture(compute_capability: str) -> Architecture:
    """The architecture of a compute capability, such as Hopper for ``9.0``.

    Open modules need the GPU system processor, which came with Turing; Blackwell runs on nothing
    else.
    """
    capability = version(compute_capability)
    if capability < (7, 5):
        return Architecture(
            name="before Turing",
            open_modules=False,
            proprietary_modules=True,
            last_branch=LAST_BRANCH_BEFORE_TURING,
        )
    if capability < (10, 0):
        name = {7: "Turing", 8: "Ampere or Ada Lovelace", 9: "Hopper"}[capability[0]]
        return Architecture(name=name, open_modules=True, proprietary_modules=True)
    # HGX B200 of compute capability 10.0: NVIDIA/cloud-native-docs, platform support
    first = version("570.133.20") if capability == (10, 0) else (570,)
    return Architecture(
        name="Blackwell", open_modules=True, proprietary_modules=False, first_driver=first
    )


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A driver branch: what NVIDIA calls it, and the last month in which it is maintained."""

    kind: str
    ends: datetime.date


READ_ON = datetime.date(2026, 11, 29)
BRANCHES = {
    535: Branch(kind="long-term support", ends=datetime.date(2026, 6, 30)),
    580: Branch(kind="long-term support", ends=datetime.date(2028, 6, 30)),
    595: Branch(kind="production", ends=datetime.date(2027, 3, 31)),
    610: Branch(kind="new feature", ends=datetime.date(2026, 8, 31)),
    620: Branch(kind="long-term support", ends=datetime.date(2029, 9, 30)),
}
