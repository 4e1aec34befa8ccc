"""What speaks against touching a host, found before anything is touched, by role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tokenworks.hosts.changes import ChangePlan
from tokenworks.hosts.compatibility import Misfit, lock_misfits
from tokenworks.hosts.files import SOURCES
from tokenworks.hosts.lock import OPERATING_SYSTEMS, HostLock, Part
from tokenworks.hosts.names import builds_modules
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState

# Since containerd 2.2 the folder is imported without being named (containerd#12323).
_IMPORTS_BY_ITSELF = (2, 2)
_CONF_D = "/etc/containerd/conf.d/"
# As in ansible/vars/rhel-9.yml, which says what is known of them.
_RHEL = re.compile(r"(rhel|rocky|almalinux|ol|centos)-9(\.\d+)?")
_SERVICES = (
    "nvidia-persiste",
    "nv-fabricmanage",
    "nv-hostengine",
    "dcgm",
    "nvidia-device-p",
    "gpu-feature-dis",
    "nvidia-mig-mana",
    "nvidia-smi",
    "nvidia-ctk",
    "nvidia-modprobe",
)
"""NVIDIA's services, DaemonSets and programs that hold GPUs and compute nothing, as /proc/*/comm
has them; each minute a timer of ours runs some of them."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a role must not touch a host, and what to do."""

    role: str
    message: str


def refusals(
    state: HostState, lock: HostLock, settings: HostSettings, plan: ChangePlan, *, drains: bool
) -> tuple[Refusal, ...]:
    """Return everything that speaks against a run; ``drains``: whether the node can be drained."""
    found = {
        "base": (*_system(state, lock), *_sources(state, lock), *_load(state, plan, drains=drains)),
        "gpu_driver": (*_secure_boot(state, lock), *_compiler(state, lock), *_misfits(lock)),
        "containerd": tuple(_containerd(state, settings)),
        "storage_client": tuple(_storage(lock, settings)),
    }
    return tuple(
        Refusal(role=role, message=message)
        for role, messages in found.items()
        for message in messages
    )


def _system(state: HostState, lock: HostLock) -> Iterator[str]:
    if _RHEL.fullmatch(state.os):
        yield (
            f"the host runs {state.os}, of which only repositories and version locks are known; "
            "set those by ansible/rhel-repositories.yml and do the rest by hand, or use one of "
            f"{', '.join(OPERATING_SYSTEMS)}"
        )
    elif state.os != lock.os:
        known = (
            "" if state.os in OPERATING_SYSTEMS else f" (known are {', '.join(OPERATING_SYSTEMS)})"
        )
        yield (
            f"the host runs {state.os}{known}, its lock is for {lock.os}; give the pool a lock for "
            "its system"
        )
    if state.architecture != lock.architecture:
        yield (
            f"the host is {state.architecture}, its lock is for {lock.architecture}; give the pool "
            "a lock for its architecture"
        )


def _sources(state: HostState, lock: HostLock) -> Iterator[str]:
    """Two files that name one repository and trust it by different keys break all of apt."""
    ours = {f"{one.uri.rstrip('/')} {one.suite}" for one in lock.repositories}
    for path, listed in state.apt_sources.items():
        known = (source.rpartition(" ") for source in listed)
        both = sorted(ours & {f"{uri.rstrip('/')} {suite}" for uri, _, suite in known})
        if both and path != SOURCES:
            yield (
                f"{path} also names {', '.join(both)}, and apt refuses one repository with two "
                "keys; remove it from there, or the package that wrote it (such as cuda-keyring)"
            )


def gpu_work(state: HostState, *, pods: bool = True) -> tuple[str, ...]:
    """Return the processes that compute on the GPUs, as ``name (pid)``; of pods as well or not."""
    left_out = () if pods else state.gpu_users_in_pods
    users = (user for user in state.gpu_users if user not in left_out)
    return tuple(user for user in users if not user.startswith(_SERVICES))


def _load(state: HostState, plan: ChangePlan, *, drains: bool) -> Iterator[str]:
    users = gpu_work(state, pods=not drains)
    if plan.interrupts and users:
        remedy = (
            "it is of no pod, so that no drain would end it; stop these processes"
            if drains
            else "name a kubeconfig, so that the node is drained, or stop these processes"
        )
        yield f"this run stops what uses the GPUs, and {', '.join(users)} does; {remedy}"


def _secure_boot(state: HostState, lock: HostLock) -> Iterator[str]:
    if not builds_modules(lock):
        return
    if state.secure_boot is None:
        yield (
            "whether Secure Boot is on cannot be read, and it refuses modules built here; see: "
            "mokutil --sb-state"
        )
    if state.secure_boot and not state.module_key_enrolled:
        yield (
            "Secure Boot is on and would reject a module built here; enrol dkms's key (mokutil "
            "--import /var/lib/dkms/mok.pub, then confirm at the console), or lock the "
            "distribution's signed linux-modules-nvidia packages"
        )


def _compiler(state: HostState, lock: HostLock) -> Iterator[str]:
    locked = {package.name for package in lock.of(Part.COMPILER)}
    built_by = state.kernel_compiler
    if locked and built_by and state.running_kernel == lock.kernel and built_by not in locked:
        yield (
            f"kernel {lock.kernel} was built by {built_by}, locked is {', '.join(sorted(locked))}: "
            f"its modules would not compile; lock {built_by}"
        )


def _misfits(lock: HostLock) -> Iterator[str]:
    for misfit in lock_misfits(lock):
        yield _sentence(misfit)


def _sentence(misfit: Misfit) -> str:
    return f"{misfit.given} {misfit.reason}; {misfit.remedy}"


def _containerd(state: HostState, settings: HostSettings) -> Iterator[str]:
    containerd = state.containerd
    if containerd is None:
        return
    other = [path for path in containerd.drop_ins if re.search(r"nvidia", path)]
    if other:
        yield (
            f"{', '.join(other)} also configures the NVIDIA runtime; remove it, and stop what "
            "writes it (nvidia-ctk, or the GPU Operator without toolkit.enabled=false)"
        )
    if settings.containerd_root == "managed":
        return
    if not containerd.root_present:
        yield (
            "containerd_root is external and /etc/containerd/config.toml is missing; let its owner "
            "write it, or set containerd_root: managed"
        )
        return
    yield from _external_root(containerd.version, containerd.root_schema, containerd.root_imports)


def _external_root(version: str, schema: int | None, imports: tuple[str, ...]) -> Iterator[str]:
    if schema is None or schema < 2:
        yield (
            f"/etc/containerd/config.toml has schema version {schema}, too old to be extended; let "
            "its owner migrate it: containerd config migrate"
        )
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < _IMPORTS_BY_ITSELF and not any(_CONF_D in line for line in imports):
        yield (
            f"/etc/containerd/config.toml does not import {_CONF_D}*.toml; let its owner add: "
            f'imports = ["{_CONF_D}*.toml"]'
        )


def _storage(lock: HostLock, settings: HostSettings) -> Iterator[str]:
    missing = sorted(set(settings.storage_packages) - set(lock.versions))
    if missing:
        yield f"storage_packages names {', '.join(missing)}, which the lock lacks; lock them"
