"""Locks have what a host needs of a driver, from either archive, or say what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hosts import repository
from tests.hosts.repository import DRIVER, KERNEL, NEW_DRIVER, UBUNTU, Deb, Signer
from tokenworks.errors import ConfigError
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.lock_file import make_lock
from tokenworks.hosts.names import builds_modules, part_of
from tokenworks.hosts.request import LockRequest

NEW = {"version": NEW_DRIVER, "modules": "open", "archive": "cuda"}
SIGNED = {"version": DRIVER, "modules": "open", "archive": "distribution"}


def resolved(archives: Path, signer: Signer, **changed: Any) -> HostLock:
    asked = LockRequest.model_validate(repository.request(archives, signer, **changed))
    return make_lock(asked, archives / "keys")


def refusals(archives: Path, signer: Signer, **changed: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        resolved(archives, signer, **changed)
    return [str(problem) for problem in refused.value.problems]


def other(archives: Path, signer: Signer, folder: Path, debs: list[Deb]) -> Path:
    """The repositories with another one in the place of cuda."""
    for name in ("toolkit", "ubuntu", "keys"):
        (folder / name).symlink_to(archives / name)
    repository.publish(folder / "cuda", debs, signer)
    return folder


def test_from_590_on_nobody_guesses_which_package_has_nvidia_smi(
    archives: Path, signer: Signer
) -> None:
    (told,) = refusals(archives, signer, driver=NEW)
    assert told == (
        f"nvidia_smi: driver {NEW_DRIVER} cannot be locked: it has no package that is known to "
        "bring nvidia-smi, by which GPUs are proven; name the package that does; on a machine with "
        "such a driver `dpkg -S /usr/bin/nvidia-smi` tells it."
    )


def test_the_package_that_is_said_to_have_nvidia_smi_is_locked_at_the_drivers_version(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    full = f"{NEW_DRIVER}-1ubuntu1"
    newer = Deb(name="nvidia-programs", version="615.71.09-2ubuntu1")
    debs = [*repository.driver_590(), Deb(name="nvidia-programs", version=full), newer]
    place = other(archives, signer, tmp_path, debs)
    lock = resolved(place, signer, driver=NEW, nvidia_smi="nvidia-programs")
    assert lock.versions["nvidia-programs"] == full
    (told,) = refusals(archives, signer, driver=NEW, nvidia_smi="nvidia-programs")
    assert "has no nvidia-programs" in told


@pytest.mark.parametrize(("driver", "smi"), [({}, None), (NEW, "libnvidia-compute")])
def test_every_driver_has_what_makes_device_files(
    archives: Path, signer: Signer, driver: dict[str, str], smi: str | None
) -> None:
    changed = {"driver": driver} if driver else {}
    assert "nvidia-modprobe" in resolved(archives, signer, nvidia_smi=smi, **changed).versions


def test_a_driver_without_what_makes_device_files_is_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    debs = [deb for deb in repository.driver_580() if deb.name != "nvidia-modprobe"]
    common = next(deb for deb in debs if deb.name == "nvidia-kernel-common-580")
    debs.remove(common)
    debs.append(Deb(name=common.name, version=common.version))
    place = other(archives, signer, tmp_path, [*debs, Deb(name="nvidia-firmware-580", version="1")])
    (told,) = refusals(place, signer)
    assert "known to bring nvidia-modprobe, which makes the device files" in told


@pytest.fixture
def distribution(archives: Path, signer: Signer, tmp_path: Path) -> Path:
    """The repositories with Canonical's driver in the place of NVIDIA's."""
    return of_ubuntu(archives, signer, tmp_path, repository.canonical())


def of_ubuntu(archives: Path, signer: Signer, folder: Path, debs: list[Deb]) -> Path:
    """The same with some packages of it.

    What makes device files is in the release and not among the updates that drivers come with.
    """
    place = other(archives, signer, folder, debs)
    (place / "ubuntu").unlink()
    release = [*repository.distribution(), Deb(name="nvidia-modprobe", version="535.54.03-1")]
    repository.publish(place / "ubuntu", release, signer, suite="noble")
    return place


def test_canonicals_driver_comes_with_modules_that_are_built_and_signed(
    distribution: Path, signer: Signer
) -> None:
    lock = resolved(distribution, signer, driver=SIGNED)
    full = f"{DRIVER}-0ubuntu0.24.04.1"
    assert {p.name: p.version for p in lock.of(Part.DRIVER)} == {
        "libnvidia-cfg1-580-server": full,
        "libnvidia-compute-580-server": full,
        f"linux-modules-nvidia-580-server-open-{KERNEL}": UBUNTU,
        f"linux-signatures-nvidia-{KERNEL}": UBUNTU,
        "nvidia-compute-utils-580-server": full,
        "nvidia-headless-no-dkms-580-server-open": full,
        "nvidia-kernel-common-580-server": full,
        "nvidia-kernel-source-580-server-open": full,
        "nvidia-utils-580-server": full,
    }
    (makes_files,) = [p for p in lock.packages if p.name == "nvidia-modprobe"]
    assert (makes_files.version, makes_files.repository) == ("535.54.03-1", "ubuntu")
    assert {p.name for p in lock.of(Part.FABRIC_MANAGER)} == {
        "libnvidia-nscq-580",
        "nvidia-fabricmanager-580",
    }
    assert not builds_modules(lock)
    assert "dkms" not in lock.versions


def test_modules_that_were_built_for_another_driver_are_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    debs = [d for d in repository.canonical() if not d.name.startswith("linux-modules-")]
    modules = f"linux-modules-nvidia-580-server-open-{KERNEL}"
    needs = "nvidia-kernel-common-580-server (>= 580.178.04)"
    debs.append(Deb(name=modules, version=UBUNTU, depends=needs))
    (told,) = refusals(of_ubuntu(archives, signer, tmp_path, debs), signer, driver=SIGNED)
    assert f"{modules} {UBUNTU} depends on nvidia-kernel-common-580-server (>= 580.178.04)" in told


def test_a_kernel_without_modules_of_canonicals_is_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    debs = [d for d in repository.canonical() if not d.name.startswith("linux-modules-")]
    told = refusals(of_ubuntu(archives, signer, tmp_path, debs), signer, driver=SIGNED)
    assert f"has no linux-modules-nvidia-580-server-open-{KERNEL}" in told[0]


def test_debians_own_driver_is_refused_with_what_to_use(archives: Path, signer: Signer) -> None:
    told = refusals(archives, signer, os="debian-12", driver=SIGNED)
    assert told[0] == (
        "driver.archive: distribution cannot be locked: debian-12 itself has no driver that "
        "serves; use archive: cuda."
    )


def test_a_further_package_of_the_driver_is_at_its_version(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    versions = (f"{DRIVER}-1", "580.178.04-1")
    imex = [Deb(name="nvidia-imex", version=version) for version in versions]
    place = other(archives, signer, tmp_path, [*repository.driver_580(), *imex])
    lock = resolved(place, signer, extra_packages=["nvidia-imex"])
    assert lock.versions["nvidia-imex"] == versions[0]


@pytest.mark.parametrize("name", ["nvidia-mig-manager", "nvidia-gds-12-8", "nvidia-fs-dkms"])
def test_what_is_no_part_of_the_driver_is_locked_only_where_it_is_asked_for(
    name: str, archives: Path, signer: Signer
) -> None:
    assert part_of(name) is None
    asked = repository.request(archives, signer, extra_packages=[name])
    assert LockRequest.model_validate(asked).part_of(name) is Part.OTHER
