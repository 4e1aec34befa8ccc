from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.samples import DRIVER, FILES, KERNEL, UNITS, lock, state
from tokenworks.hosts.changes import (
    _INTERRUPTING,
    ChangeClass,
    ChangePlan,
    Step,
    plan_changes,
    wanted_units,
)
from tokenworks.hosts.lock import HostLock

PACKAGES = state().packages


def planned(**changed: Any) -> ChangePlan:
    return plan_changes(state(**changed), lock(), FILES)


def without(*names: str) -> dict[str, str]:
    return {name: version for name, version in PACKAGES.items() if name not in names}


def test_a_host_that_is_as_locked_is_left_alone() -> None:
    plan = planned()
    assert plan.change_class is ChangeClass.NOTHING
    assert (plan.changes, plan.steps, plan.installed, plan.removed) == ((), (), {}, ())
    assert not plan.interrupts


def test_a_gate_that_failed_at_boot_calls_for_a_run_that_proves_the_gpus_and_opens_it() -> None:
    plan = planned(services={**state().services, "tokenworks-gate.service": "failed"})
    assert plan.change_class is ChangeClass.CONFIGURATION
    because = "failed at boot and keeps the node out: tokenworks-gate.service"
    assert [change.because for change in plan.changes] == [because]
    assert plan.steps == (Step.VERIFY,)


def test_a_missing_hold_is_restored_without_touching_a_workload() -> None:
    plan = planned(held=set(PACKAGES) - {"nvidia-utils-580"})
    assert plan.change_class is ChangeClass.CONFIGURATION
    assert plan.held == ("nvidia-utils-580",)
    assert plan.steps == (Step.PACKAGES, Step.VERIFY)


def test_a_containerd_file_that_differs_drains_the_host_before_containerd_restarts() -> None:
    files = {file.path: file.sha256 for file in FILES} | {FILES[1].path: "9" * 64}
    plan = planned(files=files)
    assert plan.change_class is ChangeClass.TOOLKIT
    assert plan.steps == (
        Step.DRAIN,
        Step.FILES,
        Step.RESTART_CONTAINERD,
        Step.VERIFY,
        Step.UNCORDON,
    )


def test_one_toolkit_package_left_behind_is_a_toolkit_change() -> None:
    plan = planned(packages=PACKAGES | {"libnvidia-container1": "1.17.8-1"})
    assert plan.change_class is ChangeClass.TOOLKIT
    assert plan.installed == {"libnvidia-container1": "1.20.0-1"}
    assert plan.changes[0].because == "libnvidia-container1 is at 1.17.8-1, locked at 1.20.0-1"


def test_a_newer_driver_that_somebody_installed_is_taken_back_with_a_reboot() -> None:
    newer = {"nvidia-dkms-580-open": "580.178.04-1ubuntu1"}
    plan = planned(
        packages=PACKAGES | newer,
        loaded_driver="580.178.04",
        module_versions={KERNEL: "580.178.04"},
    )
    assert plan.change_class is ChangeClass.DRIVER
    assert plan.installed == {"nvidia-dkms-580-open": f"{DRIVER}-1ubuntu1"}
    assert plan.steps.index(Step.DRAIN) < plan.steps.index(Step.PACKAGES)
    assert plan.steps.index(Step.PACKAGES) < plan.steps.index(Step.REBOOT)
    assert Step.LOAD_DRIVER not in plan.steps


def test_names_of_another_branch_leave_in_the_same_run_that_brings_the_locked_ones() -> None:
    newer = {"libnvidia-compute": "615.71.09-2ubuntu1", "nvidia-dkms-open": "615.71.09-2ubuntu1"}
    plan = planned(
        packages=without("libnvidia-compute-580", "nvidia-dkms-580-open") | newer,
        loaded_driver="615.71.09",
    )
    assert plan.removed == ("libnvidia-compute", "nvidia-dkms-open")
    assert set(plan.installed) == {"libnvidia-compute-580", "nvidia-dkms-580-open"}
    assert plan.change_class is ChangeClass.DRIVER


def test_a_library_newer_than_the_loaded_driver_needs_no_reboot_to_go_back() -> None:
    plan = planned(packages=PACKAGES | {"libnvidia-compute-580": "580.178.04-1ubuntu1"})
    assert plan.change_class is ChangeClass.DRIVER
    assert Step.REBOOT not in plan.steps
    assert Step.DRAIN in plan.steps


def test_a_kernel_that_waits_for_the_next_boot_is_called_off_while_the_locked_one_runs_on() -> None:
    plan = planned(boot_kernel="6.8.0-90-generic")
    assert plan.change_class is ChangeClass.CONFIGURATION
    assert plan.steps == (Step.BOOT_LOADER, Step.VERIFY)


def test_another_kernel_that_runs_is_left_by_a_reboot() -> None:
    plan = planned(running_kernel="6.8.0-90-generic", boot_kernel="6.8.0-90-generic")
    assert plan.change_class is ChangeClass.KERNEL
    assert plan.steps.index(Step.BOOT_LOADER) < plan.steps.index(Step.REBOOT)


def test_a_next_kernel_that_cannot_be_told_is_no_match_and_no_reason_to_reboot() -> None:
    plan = planned(boot_kernel=None)
    assert plan.steps == (Step.BOOT_LOADER, Step.VERIFY)


def test_a_kernel_without_a_module_on_disk_is_found_while_the_driver_still_runs() -> None:
    plan = planned(module_versions={})
    assert plan.change_class is ChangeClass.DRIVER
    assert f"kernel {KERNEL} has no module on disk, locked is {DRIVER}" in {
        change.because for change in plan.changes
    }


def test_a_file_of_the_initial_ram_disk_stops_nothing() -> None:
    files: dict[str, str | None] = {file.path: file.sha256 for file in FILES}
    plan = planned(files=files | {FILES[2].path: None})
    assert plan.steps == (Step.FILES, Step.INITRAMFS, Step.VERIFY)
    assert planned(stale_initramfs=(KERNEL,)).steps == (Step.INITRAMFS, Step.VERIFY)
    assert planned(stale_initramfs=("another",)).steps == ()


def test_a_package_of_no_concern_is_installed_on_a_drained_node_only() -> None:
    """Its scripts may make systemd read its units anew."""
    packages = [p.model_dump(mode="json") for p in lock().packages]
    nfs = packages[0] | {"name": "nfs-common", "version": "1:2.6", "part": "other"}
    plan = plan_changes(state(), lock(packages=[*packages, nfs]), FILES)
    assert plan.steps == (Step.DRAIN, Step.PACKAGES, Step.VERIFY, Step.UNCORDON)


def test_a_new_containerd_is_restarted_and_a_new_toolkit_is_not() -> None:
    containerd = planned(packages=PACKAGES | {"containerd.io": "2.1.0-1"})
    assert Step.RESTART_CONTAINERD in containerd.steps
    toolkit = planned(packages=PACKAGES | {"nvidia-container-toolkit": "1.19.1-1"})
    assert Step.RESTART_CONTAINERD not in toolkit.steps
    assert Step.REFRESH_CDI in toolkit.steps


def test_the_distributions_containerd_leaves_for_dockers_and_the_other_way_round() -> None:
    plan = planned(packages=PACKAGES | {"containerd": "1.6.20", "runc": "1.1.5"})
    assert plan.removed == ("containerd", "runc")


def test_what_was_moved_although_held_is_held_again() -> None:
    plan = planned(packages=PACKAGES | {"nvidia-utils-580": "580.1-1"})
    assert plan.held == ("nvidia-utils-580",)


def test_a_unit_that_does_not_start_at_boot_is_enabled_without_stopping_anything() -> None:
    plan = planned(enabled=dict.fromkeys(UNITS[1:], "enabled"))
    assert plan.enabled == (UNITS[0],)
    assert plan.steps == (Step.ENABLE_UNITS, Step.VERIFY)


def test_what_a_cut_off_run_owed_is_done_with_what_that_costs() -> None:
    assert planned(owed=("uncordon",)).steps == (Step.VERIFY, Step.UNCORDON)
    restart = planned(owed=("restart_containerd",))
    assert restart.steps == (Step.DRAIN, Step.RESTART_CONTAINERD, Step.VERIFY, Step.UNCORDON)


def test_nouveau_leaves_by_a_reboot() -> None:
    plan = planned(loaded_driver=None, nouveau_loaded=True)
    assert Step.REBOOT in plan.steps
    assert Step.LOAD_DRIVER not in plan.steps


@pytest.mark.parametrize(("there", "wanted"), [("proprietary", "open"), ("open", "proprietary")])
def test_modules_of_the_other_flavour_leave_by_a_reboot_though_their_version_is_the_locked_one(
    there: str, wanted: str
) -> None:
    driver = {"version": DRIVER, "modules": wanted, "archive": "cuda"}
    plan = plan_changes(state(loaded_modules=there), lock(driver=driver), FILES)
    assert plan.change_class is ChangeClass.DRIVER
    because = f"{there} modules are loaded, locked is {wanted}"
    assert [change.because for change in plan.changes] == [because]
    assert plan.steps == (Step.DRAIN, Step.REBOOT, Step.VERIFY, Step.UNCORDON)
    same = plan_changes(state(loaded_modules=wanted), lock(driver=driver), FILES)
    assert same.change_class is ChangeClass.NOTHING


BESIDE = (
    *("nvidia-mig-manager", "nvidia-gds", "nvidia-gds-12-8", "nvidia-fs", "nvidia-fs-dkms"),
    *("nvidia-cuda-toolkit", "nvidia-cuda-dev", "libnvidia-ml-dev", "nvidia-profiler"),
)
OF_DRIVER = (
    *("nvidia-driver-570", "libnvidia-compute-570", "nvidia-utils-570-server", "nvidia-imex-570"),
    *("nvidia-headless-no-dkms-570-server", "cuda-drivers-570", "nvidia-cuda-mps", "nvlsm"),
    "nvidia-fabricmanager-570",
)


def test_what_is_no_part_of_the_driver_stays_with_whoever_installed_it() -> None:
    plan = planned(packages=PACKAGES | dict.fromkeys(BESIDE, "1.0-1"))
    assert (plan.removed, plan.steps) == ((), ())


def test_what_is_of_another_driver_leaves_under_whatever_name() -> None:
    plan = planned(packages=PACKAGES | dict.fromkeys(OF_DRIVER, "570.1-1"))
    assert plan.removed == tuple(sorted(OF_DRIVER))


def canonical(**changed: str) -> HostLock:
    """The lock with Canonical's driver, whose modules come built."""
    names = {
        "libnvidia-compute-580": "libnvidia-compute-580-server",
        "nvidia-dkms-580-open": f"linux-modules-nvidia-580-server-open-{KERNEL}",
        "nvidia-utils-580": "nvidia-compute-utils-580-server",
    } | changed
    packages = [package.model_dump(mode="json") for package in lock().packages]
    renamed = [one | {"name": names.get(one["name"], one["name"])} for one in packages]
    headless = renamed[0] | {"name": "nvidia-headless-no-dkms-580-server-open", "part": "driver"}
    return lock(packages=[*renamed, headless])


def test_modules_that_come_built_are_not_built_here() -> None:
    built = plan_changes(state(packages={}), lock(), FILES)
    given_built = plan_changes(state(packages={}), canonical(), FILES)
    assert Step.BUILD_MODULE in built.steps
    assert Step.BUILD_MODULE not in given_built.steps
    assert {Step.DRAIN, Step.PACKAGES, Step.REBOOT} <= set(given_built.steps)


@pytest.mark.parametrize("owner", ["nvidia-persistenced", "nvidia-compute-utils-580-server"])
def test_the_persistence_daemon_runs_whichever_package_brings_it(owner: str) -> None:
    unit = "nvidia-persistenced.service"
    assert unit in wanted_units(state(), canonical(**{"nvidia-utils-580": owner}))
    assert unit not in wanted_units(state(), lock())


@pytest.mark.parametrize(("said", "is_missing"), [("static", False), ("disabled", True)])
def test_a_unit_that_something_else_starts_need_not_be_enabled(said: str, is_missing: bool) -> None:
    """Canonical's persistence daemon is started by udev, and `systemctl enable` changes nothing."""
    unit = "nvidia-persistenced.service"
    now = state()
    now = now.model_copy(update={"enabled": {**now.enabled, unit: said}})
    assert (unit in plan_changes(now, canonical(), FILES).enabled) is is_missing


def test_a_module_that_was_to_be_built_under_another_lock_is_not_owed_any_more() -> None:
    """There may be no dkms, and nothing that it could build."""
    owed = state(packages={}, owed=("build_module", "reboot"))
    assert Step.BUILD_MODULE in plan_changes(owed, lock(), FILES).steps
    plan = plan_changes(owed, canonical(), FILES)
    assert Step.BUILD_MODULE not in plan.steps
    assert Step.REBOOT in plan.steps


def test_a_driver_that_is_not_loaded_is_loaded_without_a_reboot() -> None:
    plan = planned(loaded_driver=None)
    assert Step.LOAD_DRIVER in plan.steps
    assert Step.REBOOT not in plan.steps


def test_a_builder_without_gpus_needs_no_driver_loaded() -> None:
    packages = without("nvidia-fabricmanager-580")
    plan = planned(gpus=0, nvswitches=0, loaded_driver=None, packages=packages)
    assert plan.change_class is ChangeClass.NOTHING


def test_a_host_without_nvswitches_gets_no_fabric_manager_and_loses_one_it_has() -> None:
    plan = planned(nvswitches=0)
    assert plan.removed == ("nvidia-fabricmanager-580",)
    assert planned(nvswitches=0, packages=without("nvidia-fabricmanager-580")).removed == ()


def test_a_run_that_was_cut_off_is_finished() -> None:
    plan = planned(half_installed=("nvidia-dkms-580-open",))
    assert plan.change_class is ChangeClass.DRIVER
    assert "half installed" in plan.changes[0].because


@given(
    st.dictionaries(st.sampled_from(sorted(PACKAGES)), st.sampled_from(["", "0.1-1", "999.9-9"])),
    st.sampled_from([None, DRIVER, "615.71.09"]),
    st.sampled_from([KERNEL, "6.8.0-90-generic"]),
    st.booleans(),
    st.sets(st.sampled_from([file.path for file in FILES])),
    st.sets(st.sampled_from(sorted(set(Step) - {Step.DRAIN, Step.VERIFY}))),
    st.sampled_from([(), ("nvidia-dkms-580-open",)]),
)
def test_nothing_that_stops_gpus_happens_before_the_host_is_drained(
    differing: dict[str, str],
    loaded: str | None,
    boot: str,
    reboot: bool,
    stale: set[str],
    owed: set[Step],
    half: tuple[str, ...],
) -> None:
    packages = {name: differing.get(name, version) for name, version in PACKAGES.items()}
    packages = {name: version for name, version in packages.items() if version}
    plan = planned(
        packages=packages,
        loaded_driver=loaded,
        boot_kernel=boot,
        reboot_required=reboot,
        files={f.path: None if f.path in stale else f.sha256 for f in FILES},
        owed=tuple(sorted(owed)),
        half_installed=half,
    )
    stops = set(_INTERRUPTING) & set(plan.steps)
    if stops or plan.installed or plan.removed:
        assert plan.steps[0] is Step.DRAIN
        assert plan.steps[-1] is Step.UNCORDON
        assert plan.steps[-2] is Step.VERIFY
    assert bool(plan.changes) == (plan.change_class is not ChangeClass.NOTHING)


def test_every_step_that_touches_what_gpus_are_used_by_is_one_that_stops_them() -> None:
    """Steps that nobody notices are named, so that whoever adds one has to say which it is."""
    unnoticed = {
        *(Step.DRAIN, Step.FILES, Step.PACKAGES, Step.INITRAMFS, Step.BOOT_LOADER),
        *(Step.ENABLE_UNITS, Step.VERIFY, Step.UNCORDON),
    }
    assert set(Step) == unnoticed | set(_INTERRUPTING)
    assert not unnoticed & set(_INTERRUPTING)


@given(st.dictionaries(st.sampled_from(sorted(PACKAGES)), st.sampled_from(["", "0.1-1"])))
def test_a_host_that_did_as_planned_has_nothing_left_to_do(differing: dict[str, str]) -> None:
    packages = {name: differing.get(name, version) for name, version in PACKAGES.items()}
    packages = {name: version for name, version in packages.items() if version}
    plan = planned(packages=packages | {"cuda-drivers-550": "550.1-1"})
    after = {n: v for n, v in packages.items() if n not in plan.removed} | dict(plan.installed)
    assert planned(packages=after).change_class is ChangeClass.NOTHING


@pytest.mark.parametrize("path", [file.path for file in FILES])
def test_a_file_that_is_missing_is_written(path: str) -> None:
    files: dict[str, str | None] = {file.path: file.sha256 for file in FILES}
    assert planned(files=files | {path: None}).files == (path,)
