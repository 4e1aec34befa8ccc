"""What goes together, and what is refused before a node is touched."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tests.hosts import samples
from tokenworks.facts.gpu_drivers import BRANCHES, CUDA_FAMILY_FLOORS, architecture
from tokenworks.hosts.compatibility import (
    branch_notes,
    cuda_misfits,
    cuda_notes,
    gpu_misfits,
    lock_misfits,
)
from tokenworks.hosts.lock import HostLock

H100, B200, V100, T4 = "9.0", "10.0", "7.0", "7.5"


def lock(driver: str = samples.DRIVER, modules: str = "open", **changed: Any) -> HostLock:
    """The sample lock with every driver package at another driver's version."""
    locked = samples.lock().model_dump(mode="json")
    for package in locked["packages"]:
        if package["part"] in ("driver", "fabric_manager"):
            package["version"] = f"{driver}-1ubuntu1"
    of = {"version": driver, "modules": modules, "archive": "cuda"}
    return HostLock.model_validate(locked | {"driver": of} | changed)


def with_version(name: str, version: str, **changed: Any) -> HostLock:
    locked = samples.lock().model_dump(mode="json")
    for package in locked["packages"]:
        if package["name"] == name:
            package["version"] = version
    return HostLock.model_validate(locked | changed)


def test_the_sample_lock_is_good_for_hopper() -> None:
    assert not list(lock_misfits(lock()))
    assert not list(gpu_misfits(lock(), "h100", H100))


@pytest.mark.parametrize(
    ("driver", "modules", "capability", "why"),
    [
        (samples.DRIVER, "open", V100, "has open modules, which do not drive"),
        ("595.91.07", "proprietary", V100, "no longer drives"),
        (samples.DRIVER, "proprietary", B200, "has proprietary modules, which do not drive"),
        ("570.124.06", "open", B200, "is older than"),
        ("565.57.01", "open", "12.0", "is older than"),
    ],
)
def test_a_driver_that_cannot_drive_the_gpus_is_refused(
    driver: str, modules: str, capability: str, why: str
) -> None:
    found = list(gpu_misfits(lock(driver, modules), "some", capability))
    assert [why in misfit.reason for misfit in found] == [True]
    assert found[0].given == driver
    assert found[0].remedy


@pytest.mark.parametrize(
    ("driver", "modules", "capability"),
    [
        (samples.DRIVER, "proprietary", V100),
        (samples.DRIVER, "proprietary", T4),
        (samples.DRIVER, "open", T4),
        ("570.133.20", "open", B200),
        ("620.10.01", "open", B200),
    ],
)
def test_a_driver_that_drives_the_gpus_is_taken(driver: str, modules: str, capability: str) -> None:
    assert not list(gpu_misfits(lock(driver, modules), "some", capability))


def test_branch_620_has_no_proprietary_modules_any_more() -> None:
    assert [m.given for m in lock_misfits(lock("620.10.01", "proprietary"))] == ["620.10.01"]
    assert not list(lock_misfits(lock("610.57.04", "proprietary")))


def test_a_fabric_manager_of_another_version_is_refused() -> None:
    found = list(lock_misfits(with_version("nvidia-fabricmanager-580", "580.126.20-1")))
    assert [misfit.given for misfit in found] == ["nvidia-fabricmanager-580 580.126.20-1"]


def test_one_toolkit_package_of_another_version_is_refused() -> None:
    found = list(lock_misfits(with_version("libnvidia-container1", "1.19.1-1")))
    assert [misfit.given for misfit in found] == ["libnvidia-container1 1.19.1-1"]


@pytest.mark.parametrize(
    ("version", "why"),
    [("1.17.7", "CVE-2025-23266"), ("1.19.0", "only after the node has joined")],
)
def test_a_toolkit_that_harms_its_host_is_refused(version: str, why: str) -> None:
    locked = samples.lock().model_dump(mode="json")
    for package in locked["packages"]:
        if package["part"] == "toolkit":
            package["version"] = f"{version}-1"
    found = list(lock_misfits(HostLock.model_validate(locked | {"toolkit_version": version})))
    assert [why in misfit.reason for misfit in found] == [True]


@pytest.mark.parametrize("version", ["1.7.15-1", "1.7.2~rc1-0ubuntu1", "1.6.38-1"])
def test_a_containerd_that_cannot_read_the_toolkits_specification_is_refused(version: str) -> None:
    found = list(lock_misfits(with_version("containerd.io", version)))
    assert ["CDI 0.7.0" in misfit.reason for misfit in found] == [True]
    assert not list(lock_misfits(with_version("containerd.io", "1.7.16-1")))


def test_a_driver_carries_a_cuda_of_its_family_and_none_of_a_later_one() -> None:
    assert not list(cuda_misfits("580.65.06", "13.1"))
    assert [m.given for m in cuda_misfits("575.57.08", "13.0")] == ["575.57.08"]
    assert not list(cuda_misfits("525.60.13", "12.9"))
    assert [m.given for m in cuda_misfits("620.10.01", "14.0")] == ["14.0"]


def test_a_driver_older_than_its_cuda_is_told_about_ptx() -> None:
    assert ["UnsupportedPtxVersion" in n for n in cuda_notes("580.126.20", "13.1")] == [True]
    assert not list(cuda_notes("590.44.01", "13.1"))


def test_a_branch_is_warned_of_once_it_has_ended_and_not_a_day_before() -> None:
    end = BRANCHES[535].ends
    assert not list(branch_notes(535, end))
    assert len(list(branch_notes(535, end + datetime.timedelta(days=1)))) == 1
    assert ["whose end is known" in note for note in branch_notes(615, end)] == [True]


def test_floors_rise_with_the_cuda_family() -> None:
    floors = [CUDA_FAMILY_FLOORS[family] for family in sorted(CUDA_FAMILY_FLOORS)]
    assert floors == sorted(floors)


def test_every_architecture_has_modules_that_drive_it() -> None:
    for capability in ("5.2", V100, T4, "8.0", "8.9", H100, B200, "10.3", "12.0"):
        of = architecture(capability)
        assert of.open_modules or of.proprietary_modules
