"""What is on a host, as ``ansible/library/host_state.py`` reads it in one round trip."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Containerd(BaseModel):
    """What containerd makes of its configuration, after all files are merged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    root_present: bool = Field(description="Whether /etc/containerd/config.toml is there.")
    root_schema: int | None = Field(description="Its `version`; 1 if it names none.")
    root_imports: tuple[str, ...] = Field(default=(), description="Its `imports`, as written.")
    merged: bool = Field(description="Whether `containerd config dump` could read it all.")
    imports: str = ""
    disabled_plugins: str = ""
    cdi: bool = False
    runtimes: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Options BinaryName and SystemdCgroup, by runtime."
    )
    drop_ins: tuple[str, ...] = ()


class HostState(BaseModel):
    """One host as it is; a field that could not be read is None, never a guess."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    os: str
    architecture: str
    running_kernel: str
    boot_kernel: str | None = Field(description="Kernel that the next boot starts.")
    installed_kernels: tuple[str, ...] = ()
    stale_initramfs: tuple[str, ...] = Field(
        default=(), description="Kernels whose initial RAM disk is missing or older than its rules."
    )
    kernel_compiler: str | None = Field(
        default=None, description="Compiler of the running kernel, such as gcc-13."
    )
    packages: dict[str, str] = Field(description="Installed packages of concern, with version.")
    half_installed: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    apt_sources: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Repositories that the host knows, by file."
    )
    candidates: dict[str, str] = Field(
        default_factory=dict, description="Version that apt would install, by locked package."
    )
    upgrade_blacklist: tuple[str, ...] | None = Field(
        default=None, description="What unattended upgrades leave alone, all files merged."
    )
    automatic_updates: bool | None = Field(
        default=None, description="Whether apt's own timers act, all files merged."
    )
    package_manager_busy: str | None = Field(default=None, description="Who holds apt's locks.")
    files: dict[str, str | None] = Field(
        default_factory=dict, description="SHA-256 of each managed file, None where it is missing."
    )
    owed: tuple[str, ...] = Field(
        default=(), description="Steps that a run which was cut off noted and did not take."
    )
    loaded_driver: str | None = Field(description="From /proc/driver/nvidia/version.")
    loaded_modules: Literal["open", "proprietary"] | None = Field(
        default=None, description="Flavour of that driver."
    )
    nouveau_loaded: bool
    module_versions: dict[str, str] = Field(
        default_factory=dict, description="Version of the nvidia module on disk, by kernel."
    )
    dkms: dict[str, str] = Field(
        default_factory=dict, description="added, built or installed, by driver/kernel."
    )
    libraries: tuple[str, ...] = Field(
        default=(), description="Versions of libnvidia-ml on disk: what packages really brought."
    )
    gpus: Annotated[int, Field(ge=0)] = Field(description="NVIDIA GPUs on the PCI bus.")
    gpu_ids: tuple[str, ...] = Field(default=(), description="PCI device ids, such as 0x2330.")
    nvswitches: Annotated[int, Field(ge=0)] = Field(description="NVSwitches on the PCI bus.")
    secure_boot: bool | None = None
    module_key_enrolled: bool = Field(
        default=False, description="Whether the firmware knows the key that dkms signs with."
    )
    reboot_required: bool = False
    gpu_users: tuple[str, ...] = Field(
        default=(), description="Processes that hold a GPU device file open."
    )
    gpu_users_in_pods: tuple[str, ...] = Field(
        default=(), description="Those of them that run in a pod, by their control group."
    )
    gate: dict[str, object] | None = Field(
        default=None, description="What the gate wrote at the last boot."
    )
    services: dict[str, str] = Field(
        default_factory=dict, description="State of each unit of concern: active, failed, …"
    )
    enabled: dict[str, str] = Field(
        default_factory=dict, description="Whether each unit of concern starts at boot."
    )
    device_nodes: tuple[str, ...] = ()
    containerd: Containerd | None = None
    cdi_specs: dict[str, int] = Field(
        default_factory=dict, description="Devices in each of NVIDIA's CDI specifications."
    )
