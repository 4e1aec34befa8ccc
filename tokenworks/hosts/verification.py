"""Whether a host is as locked, by role: read from the host, not from what tasks said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenworks.hosts.changes import (
    ChangePlan,
    ManagedFile,
    plan_changes,
    wanted_packages,
    wanted_units,
)
from tokenworks.hosts.files import containerd_options, upgrade_blacklist
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState

_AGAIN = "run: tokenworks hosts prepare"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is not as it must be on a host, and what to do."""

    role: str
    message: str


def findings(
    state: HostState, lock: HostLock, settings: HostSettings, files: tuple[ManagedFile, ...]
) -> tuple[Finding, ...]:
    """Return everything that is not as locked, each under the role whose business it is.

    What a run would still change is the business of no single role, and under ``host``. The note of
    what a run owes does not count: it is settled when all this holds.
    """
    settled = state.model_copy(update={"owed": ()})
    plan = plan_changes(settled, lock, files)
    found = {
        "host": tuple(f"{change.because}; {_AGAIN}" for change in plan.changes),
        "base": (*_base(plan), *_apt(state, lock), *_timers(state, settings)),
        "gpu_driver": tuple(_driver(state, lock)),
        "container_toolkit": tuple(_toolkit(state, lock)),
        "containerd": tuple(_containerd(state)),
        "kubelet_gate": tuple(_gate(state)),
        "storage_client": tuple(_storage(state, lock, settings)),
    }
    return tuple(
        Finding(role=role, message=message)
        for role, messages in found.items()
        for message in messages
    )


def _base(plan: ChangePlan) -> Iterator[str]:
    left = {
        "packages are not as locked": (*plan.installed, *plan.removed),
        "packages are not held": plan.held,
        "files differ": plan.files,
    }
    for what, names in left.items():
        if names:
            yield f"{what}: {', '.join(names)}; {_AGAIN}"


def _apt(state: HostState, lock: HostLock) -> Iterator[str]:
    wanted = wanted_packages(state, lock)
    for name, version in sorted(wanted.items()):
        candidate = state.candidates.get(name)
        if candidate not in (None, version):
            yield (
                f"apt would install {name} {candidate}, locked is {version}; another file in "
                "/etc/apt/preferences.d overrides ours: remove it"
            )
    blacklist = state.upgrade_blacklist
    missing = set(upgrade_blacklist(lock)) - set(blacklist or ())
    if blacklist is None or missing:
        yield (
            f"unattended upgrades may touch {', '.join(sorted(missing))}; a file in "
            "/etc/apt/apt.conf.d clears Unattended-Upgrade::Package-Blacklist: remove that"
        )


def _timers(state: HostState, settings: HostSettings) -> Iterator[str]:
    if not settings.automatic_updates and state.automatic_updates is not False:
        yield (
            "apt's own timers may update packages, which automatic_updates forbids; a file in "
            "/etc/apt/apt.conf.d sets APT::Periodic::Enable after ours: remove that"
        )


def _driver(state: HostState, lock: HostLock) -> Iterator[str]:
    version = lock.driver.version
    if state.libraries != (version,):
        there = ", ".join(state.libraries) or "of no version"
        yield (
            f"libnvidia-ml {there} is on disk, locked is {version}; the packages brought another "
            "driver than their names say: lock them anew"
        )
    for unit in wanted_units(state, lock):
        if unit.startswith("nvidia-") and unit.endswith(".service") and state.gpus:
            status = state.services.get(unit, "missing")
            if status != "active":
                yield f"{unit} is {status}; see: journalctl -u {unit}"
    if state.gpus and "/dev/nvidia-uvm" not in state.device_nodes:
        yield "/dev/nvidia-uvm is missing; see: systemctl status tokenworks-gpu-devices"


def _toolkit(state: HostState, lock: HostLock) -> Iterator[str]:
    if state.gpus and max(state.cdi_specs.values(), default=0) <= state.gpus:
        yield (
            f"no CDI specification names each of the {state.gpus} GPUs and all of them; see: "
            "journalctl -u nvidia-cdi-refresh"
        )
    versions = {state.packages.get(package.name) for package in lock.of(Part.TOOLKIT)}
    if len(versions) > 1:
        yield f"the toolkit's packages are of several versions; {_AGAIN}"


def _containerd(state: HostState) -> Iterator[str]:
    containerd = state.containerd
    if containerd is None or not containerd.merged:
        yield "containerd cannot read its configuration; see: containerd config dump"
        return
    for runtime, option, value in containerd_options():
        if containerd.runtimes.get(runtime, {}).get(option) != value:
            yield (
                f"runtime {runtime} has no {option} = {value} after merging; a file that is read "
                "later overrides ours: compare with containerd config dump"
            )
    if not containerd.cdi:
        yield "enable_cdi is off after merging; compare with: containerd config dump"
    if '"cri"' in containerd.disabled_plugins or "cri" in containerd.disabled_plugins.split("'"):
        yield "the CRI plugin is disabled; remove it from disabled_plugins"


def _gate(state: HostState) -> Iterator[str]:
    if state.enabled.get("tokenworks-gate.service") != "enabled":
        yield f"the gate does not run at boot; {_AGAIN}"


def _storage(state: HostState, lock: HostLock, settings: HostSettings) -> Iterator[str]:
    for name in settings.storage_packages:
        if state.packages.get(name) != lock.versions.get(name):
            yield f"{name} is not at its locked version; {_AGAIN}"
