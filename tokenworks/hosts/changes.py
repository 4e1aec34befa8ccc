"""What a run would change on a host, and what that costs those who use it.

The decision is pure: a host as it is, the lock, and the files that it must have. A dry run prints
it, and a real run carries out exactly it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.names import builds_modules, is_beside_driver
from tokenworks.hosts.state import HostState

# Packages of NVIDIA's driver and toolkit, under any name that either archive has given them.
_NVIDIA: Final = re.compile(
    r"(?:lib)?nvidia-.+|libnv(?:sdm|optix|cuvid)\S*|cuda-drivers\S*|cuda-compat\S*|nvlsm"
    r"|xserver-xorg-video-nvidia\S*|linux-(?:modules|objects|signatures)-nvidia-\S+"
)


class ChangeClass(enum.IntEnum):
    """What a run does to a host, from nothing to a new kernel."""

    NOTHING = 0
    CONFIGURATION = 1
    TOOLKIT = 2
    DRIVER = 3
    KERNEL = 4


class Step(enum.StrEnum):
    """One act of a run; a run takes its steps in this order."""

    DRAIN = "drain"
    FILES = "files"
    PACKAGES = "packages"
    BUILD_MODULE = "build_module"
    INITRAMFS = "initramfs"
    BOOT_LOADER = "boot_loader"
    RELOAD_UNITS = "reload_units"
    ENABLE_UNITS = "enable_units"
    REBOOT = "reboot"
    LOAD_DRIVER = "load_driver"
    RESTART_GPU_SERVICES = "restart_gpu_services"
    REFRESH_CDI = "refresh_cdi"
    RESTART_CONTAINERD = "restart_containerd"
    VERIFY = "verify"
    UNCORDON = "uncordon"


_INTERRUPTING: Final = {
    Step.REBOOT: ChangeClass.DRIVER,
    Step.BUILD_MODULE: ChangeClass.DRIVER,
    Step.LOAD_DRIVER: ChangeClass.DRIVER,
    Step.RESTART_GPU_SERVICES: ChangeClass.DRIVER,
    Step.RELOAD_UNITS: ChangeClass.TOOLKIT,
    Step.REFRESH_CDI: ChangeClass.TOOLKIT,
    Step.RESTART_CONTAINERD: ChangeClass.TOOLKIT,
}
"""What a step makes of the run at least. Reloading units counts: under the systemd cgroup driver it
takes GPUs away from containers that a legacy hook gave them to (nvidia-container-toolkit#48)."""

_BY_BOOT: Final = frozenset(
    {
        Step.RELOAD_UNITS,
        Step.LOAD_DRIVER,
        Step.RESTART_GPU_SERVICES,
        Step.REFRESH_CDI,
        Step.RESTART_CONTAINERD,
    }
)
"""What a boot does by itself."""


@dataclass(frozen=True, kw_only=True)
class ManagedFile:
    """A file that must be on a host, and what has to follow when it changes."""

    path: str
    sha256: str
    then: frozenset[Step] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference: which class it makes of the run, and why it counts."""

    change_class: ChangeClass
    because: str


@dataclass(frozen=True, kw_only=True)
class ChangePlan:
    """Everything that a run would do to one host.

    ``installed`` is version by package, ``removed`` are packages that leave in the same
    transaction, ``held`` those to be held afterwards, ``files`` the paths that differ, ``enabled``
    the units that do not start at boot yet.
    """

    change_class: ChangeClass
    changes: tuple[Change, ...] = ()
    installed: Mapping[str, str]
    removed: tuple[str, ...]
    files: tuple[str, ...]
    held: tuple[str, ...]
    enabled: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def interrupts(self) -> bool:
        """Whether whatever uses the host's GPUs has to stop."""
        return Step.DRAIN in self.steps


_CLASS_OF_PART: Final = {
    # Scripts of any package may reload units, and so no package changes on a loaded node.
    Part.OTHER: ChangeClass.TOOLKIT,
    Part.TOOLKIT: ChangeClass.TOOLKIT,
    Part.CONTAINERD: ChangeClass.TOOLKIT,
    Part.FABRIC_MANAGER: ChangeClass.DRIVER,
    Part.DRIVER: ChangeClass.DRIVER,
    Part.COMPILER: ChangeClass.DRIVER,
    Part.HEADERS: ChangeClass.DRIVER,
    Part.KERNEL: ChangeClass.KERNEL,
}
_AT_BOOT: Final = ("enabled", "static")
"""States of a unit's file that leave nothing to enable. Canonical's nvidia-persistenced is static,
and something else starts it (`systemctl status` of it in public logs of Ubuntu)."""
_REPLACES: Final = {"containerd.io": ("containerd", "runc"), "containerd": ("containerd.io",)}
"""Docker's package brings its own runc and cannot be there together with the distribution's."""


def plan_changes(state: HostState, lock: HostLock, files: tuple[ManagedFile, ...]) -> ChangePlan:
    """Return what has to be done to a host so that it is as locked.

    Fabric manager packages count only where there are NVSwitches: on a host without, the service
    fails (cube-studio#29).
    """
    wanted = wanted_packages(state, lock)
    installed = {n: v for n, v in wanted.items() if state.packages.get(n) != v}
    removed = _removed(state, wanted)
    unheld = tuple(sorted(set(wanted) - state.held))
    wanted_now = wanted_units(state, lock)
    disabled = tuple(unit for unit in wanted_now if state.enabled.get(unit) not in _AT_BOOT)
    stale = tuple(file for file in files if state.files.get(file.path) != file.sha256)
    changes = (
        *_package_changes(state, lock, installed),
        *_removals(state, removed),
        *_kernel_changes(state, lock),
        *_driver_changes(state, lock),
        *_file_changes(stale),
        *_small("not held", unheld),
        *_small("not started at boot", disabled),
        *_small("failed at boot and keeps the node out", _closed_gate(state)),
        *_owed_changes(state),
    )
    change_class = max((c.change_class for c in changes), default=ChangeClass.NOTHING)
    needed = _needed(state, lock, stale, installed, removed, unheld)
    steps = _steps(change_class, needed | ({Step.ENABLE_UNITS} if disabled else set()))
    return ChangePlan(
        change_class=change_class,
        changes=changes,
        installed=dict(sorted(installed.items())),
        removed=removed,
        files=tuple(file.path for file in stale),
        # A package that apt moves although it is held loses its hold.
        held=tuple(sorted({*unheld, *installed})),
        enabled=disabled,
        steps=steps,
    )


def wanted_packages(state: HostState, lock: HostLock) -> dict[str, str]:
    """Return the packages that this host must have, with their versions."""
    return {
        package.name: package.version
        for package in lock.packages
        if package.part is not Part.FABRIC_MANAGER or state.nvswitches
    }


def wanted_units(state: HostState, lock: HostLock) -> tuple[str, ...]:
    """Return the units that must start at boot on this host."""
    owners = {
        "nvidia-persistenced.service": re.compile(r"nvidia-persistenced|nvidia-compute-utils-.+"),
        "nvidia-fabricmanager.service": re.compile(r"nvidia-fabric-?manager(-\d+)?"),
        "nvidia-cdi-refresh.path": re.compile(r"nvidia-container-toolkit-base"),
    }
    wanted = wanted_packages(state, lock)
    brought = (u for u, owner in owners.items() if any(map(owner.fullmatch, wanted)))
    return (
        "tokenworks-cdi.timer",
        "tokenworks-gate.service",
        "tokenworks-gpu-devices.service",
        *sorted(brought),
    )


def _closed_gate(state: HostState) -> tuple[str, ...]:
    """Return the gate if it failed: a run that repairs the host without a reboot must open it."""
    gate = "tokenworks-gate.service"
    return (gate,) if state.services.get(gate) == "failed" else ()


def _removed(state: HostState, wanted: Mapping[str, str]) -> tuple[str, ...]:
    present = {*state.packages, *state.half_installed}
    strange = {name for name in present if _NVIDIA.fullmatch(name) and not is_beside_driver(name)}
    for name, replaced in _REPLACES.items():
        if name in wanted:
            strange |= present.intersection(replaced)
    return tuple(sorted(strange - set(wanted)))


def _package_changes(
    state: HostState, lock: HostLock, installed: Mapping[str, str]
) -> Iterator[Change]:
    for package in lock.packages:
        if package.name in installed:
            present = state.packages.get(package.name)
            was = f"is at {present}" if present else "is missing"
            yield Change(
                change_class=_CLASS_OF_PART[package.part],
                because=f"{package.name} {was}, locked at {package.version}",
            )
    for name in state.half_installed:
        because = f"{name} is half installed: a run was cut off"
        yield Change(change_class=ChangeClass.DRIVER, because=because)


def _removals(state: HostState, removed: tuple[str, ...]) -> Iterator[Change]:
    for name in removed:
        because = f"{name} {state.packages.get(name, '(half installed)')} is not in the lock"
        yield Change(change_class=ChangeClass.DRIVER, because=because)


def _kernel_changes(state: HostState, lock: HostLock) -> Iterator[Change]:
    if state.running_kernel != lock.kernel:
        because = f"kernel {state.running_kernel} runs, locked is {lock.kernel}"
        yield Change(change_class=ChangeClass.KERNEL, because=because)
    if state.boot_kernel != lock.kernel:
        boots = state.boot_kernel or "a kernel that cannot be told"
        because = f"the next boot starts {boots}, locked is {lock.kernel}"
        yield Change(change_class=ChangeClass.CONFIGURATION, because=because)
    if lock.kernel in state.stale_initramfs:
        because = f"the initial RAM disk of {lock.kernel} is older than the rules it must hold"
        yield Change(change_class=ChangeClass.CONFIGURATION, because=because)


def _driver_changes(state: HostState, lock: HostLock) -> Iterator[Change]:
    version = lock.driver.version
    if state.nouveau_loaded:
        because = "nouveau holds the GPUs"
        yield Change(change_class=ChangeClass.DRIVER, because=because)
    if state.loaded_driver not in (None, version):
        because = f"driver {state.loaded_driver} is loaded, locked is {version}"
        yield Change(change_class=ChangeClass.DRIVER, because=because)
    if _other_modules(state, lock):
        because = f"{state.loaded_modules} modules are loaded, locked is {lock.driver.modules}"
        yield Change(change_class=ChangeClass.DRIVER, because=because)
    if state.loaded_driver is None and state.gpus:
        because = f"no driver is loaded, locked is {version}"
        yield Change(change_class=ChangeClass.DRIVER, because=because)
    built = state.module_versions.get(lock.kernel)
    if built != version:
        have = f"module {built}" if built else "no module"
        because = f"kernel {lock.kernel} has {have} on disk, locked is {version}"
        yield Change(change_class=ChangeClass.DRIVER, because=because)


def _other_modules(state: HostState, lock: HostLock) -> bool:
    """Whether the loaded driver is of the other flavour; both are there under one version."""
    return state.loaded_modules not in (None, lock.driver.modules)


def _file_changes(stale: tuple[ManagedFile, ...]) -> Iterator[Change]:
    for file in stale:
        yield Change(change_class=_class_of_steps(file.then), because=f"{file.path} differs")


def _small(what: str, names: tuple[str, ...]) -> Iterator[Change]:
    if names:
        because = f"{what}: {', '.join(names)}"
        yield Change(change_class=ChangeClass.CONFIGURATION, because=because)


def _owed_changes(state: HostState) -> Iterator[Change]:
    if state.owed:
        because = f"a run was cut off before: {', '.join(state.owed)}"
        yield Change(change_class=_class_of_steps(owed_steps(state)), because=because)


def owed_steps(state: HostState) -> frozenset[Step]:
    """Return the steps that an earlier run noted on the host and did not take."""
    return frozenset(step for step in Step if step in state.owed)


def _class_of_steps(steps: frozenset[Step]) -> ChangeClass:
    classes = (_INTERRUPTING.get(step, ChangeClass.CONFIGURATION) for step in steps)
    return max(classes, default=ChangeClass.CONFIGURATION)


def _needed(
    state: HostState,
    lock: HostLock,
    stale: tuple[ManagedFile, ...],
    installed: Mapping[str, str],
    removed: tuple[str, ...],
    unheld: tuple[str, ...],
) -> frozenset[Step]:
    """Return the steps that the differences call for, in no order."""
    parts = {package.part for package in lock.packages if package.name in installed}
    steps = {step for file in stale for step in file.then} | owed_steps(state)
    if not builds_modules(lock):
        # Owed under another lock; where modules come built there need not even be a dkms.
        steps.discard(Step.BUILD_MODULE)
    if installed or removed or unheld or state.half_installed:
        steps.add(Step.PACKAGES)
    if stale:
        steps.add(Step.FILES)
    if Part.CONTAINERD in parts:
        steps.add(Step.RESTART_CONTAINERD)
    if Part.TOOLKIT in parts:
        steps.add(Step.REFRESH_CDI)
    if state.boot_kernel != lock.kernel or Part.KERNEL in parts:
        steps.add(Step.BOOT_LOADER)
    if lock.kernel in state.stale_initramfs:
        steps.add(Step.INITRAMFS)
    return frozenset(steps | _driver_steps(state, lock, parts, removed))


def _driver_steps(
    state: HostState, lock: HostLock, parts: set[Part], removed: tuple[str, ...]
) -> set[Step]:
    """Return how the locked driver comes into the kernel.

    Whether to reboot follows from facts and not from whether a task said "changed": a driver that
    is loaded cannot be replaced while it runs, a kernel only starts at a boot.
    """
    version = lock.driver.version
    steps: set[Step] = set()
    touched = bool(parts & _OF_DRIVER or removed or state.half_installed)
    if builds_modules(lock) and (touched or state.module_versions.get(lock.kernel) != version):
        steps |= {Step.BUILD_MODULE}
    if touched and state.gpus:
        steps |= {Step.RESTART_GPU_SERVICES, Step.REFRESH_CDI}
    replaced = state.loaded_driver not in (None, version) or _other_modules(state, lock)
    other_kernel = Part.KERNEL in parts or state.running_kernel != lock.kernel
    if other_kernel or state.nouveau_loaded or replaced or (touched and state.reboot_required):
        return steps | {Step.REBOOT}
    if state.loaded_driver is None and state.gpus:
        steps |= {Step.LOAD_DRIVER, Step.REFRESH_CDI, Step.RESTART_GPU_SERVICES}
    return steps


_OF_DRIVER: Final = {
    Part.FABRIC_MANAGER,
    Part.DRIVER,
    Part.COMPILER,
    Part.HEADERS,
    Part.KERNEL,
}


def _steps(change_class: ChangeClass, needed: frozenset[Step]) -> tuple[Step, ...]:
    """Return the steps in order, between draining and uncordoning if they stop anything."""
    if change_class is ChangeClass.NOTHING:
        return ()
    steps = set(needed) | {Step.VERIFY}
    if Step.REBOOT in steps:
        steps -= _BY_BOOT
    if change_class >= ChangeClass.TOOLKIT:
        steps |= {Step.DRAIN, Step.UNCORDON}
    return tuple(step for step in Step if step in steps)
