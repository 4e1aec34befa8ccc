"""What is asked of the hosts of one pool, apart from what is locked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.environment.section import Section

# https://github.com/NVIDIA/k8s-device-plugin, internal/rm/health.go: errors of applications, which
# say nothing about the GPU. Every other Xid makes NVIDIA's own plugin take the GPU out of service.
APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)


class GateSettings(Section):
    """What a node must measure before it may join; every threshold is here."""

    harmless_xids: tuple[int, ...] = Field(
        default=APPLICATION_XIDS, description="Xid errors that are an application's own fault."
    )
    pcie_full_width: bool = Field(
        default=True, description="Whether each GPU must have all the PCIe lanes that it can have."
    )
    pcie_min_generation: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="PCIe generation that each GPU must be able to use in its slot, such as 5.",
    )
    nvlinks_per_gpu: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="NVLinks that each GPU must have, such as 18 on H100 (docs.nvidia.com/"
        "health-validation). Without it, one at least, and only where there are NVSwitches.",
    )
    nvlink_min_gb_per_second: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Speed that each NVLink must have, in 10^9 bytes per second, such as 26.5 on "
        "H100 and 53.1 on GB200 (docs.nvidia.com/health-validation).",
    )
    acs_off: bool = Field(
        default=False,
        description="Whether PCIe access control must be off, which peer-to-peer traffic on bare "
        "metal needs (NVIDIA/nccl#2079); a virtual machine cannot choose.",
    )
    max_uncorrected_ecc: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Uncorrected memory errors since boot that are put up with."
    )
    dcgm_level: Annotated[int, Field(ge=0, le=3)] = Field(
        default=0, description="Level of `dcgmi diag`; 0 runs none, 1 takes seconds, 3 minutes."
    )
    nccl_test: str | None = Field(
        default=None, description="Path of nccl-tests' all_reduce_perf on the host; none, no test."
    )
    nccl_min_gb_per_second: Annotated[float, Field(gt=0)] = Field(
        # NVIDIA/NVSentinel#808: 256 MB over eight GPUs of one host.
        default=150.0,
        description="Bus bandwidth that it must reach, in 10^9 bytes per second.",
    )
    container_image: str | None = Field(
        default=None,
        description="Image on the host in which `nvidia-smi -L` must see what the host sees.",
    )


class HostSettings(Section):
    """What the managed files of a host say that is not in the lock."""

    expected_gpus: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="GPUs that the host must have; None asks only that all agree."
    )
    builds_image: bool = Field(
        default=False,
        description="Whether the host becomes an image: it may lack GPUs, and each node that boots "
        "the image proves its own before it joins.",
    )
    apt_proxy: Annotated[str, Field(pattern=r"^https?://[^\s\"@]+$")] | None = Field(
        default=None,
        description="Proxy for apt; without a password, since the file is readable on the host.",
    )
    automatic_updates: bool = Field(
        default=False,
        description="Whether apt's own timers may update what is not locked; if not, they sleep.",
    )
    containerd_root: Literal["managed", "external"] = Field(
        default="managed",
        description="Who owns /etc/containerd/config.toml: these roles, or whoever set up the "
        "cluster, who then must import /etc/containerd/conf.d/*.toml.",
    )
    kubelet_unit: Annotated[str, Field(pattern=r"^[A-Za-z0-9@._-]+\.service$")] = Field(
        default="kubelet.service", description="Unit that the gate keeps from starting."
    )
    storage_packages: tuple[str, ...] = Field(
        default=(), description="Locked packages that mount volumes here, such as nfs-common."
    )
    storage_modules: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], ...] = Field(
        default=(),
        description="Kernel modules of file systems, such as nfs; loaded now and at each boot.",
    )
    package_lock_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        default=600, description="How long to wait for others who hold the package manager."
    )
    reboot_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        default=1800,
        description="How long a reboot may take; servers with much memory test it for minutes.",
    )
    drain_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        # The longest request of a gateway's default, many times over, and room for other replicas
        # to start, which disruption budgets wait for.
        default=1800,
        description="How long a node's pods may take to leave before the run gives up.",
    )
    turn_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        # A module built by DKMS, two reboots of a large machine and a burn-in; hours, not minutes.
        default=3 * 60 * 60,
        description="How long one failure domain may take, from draining to serving; a run may "
        "take as long as all its domains.",
    )
    gate: GateSettings = Field(default=GateSettings())
