"""Locks resolved from real apt repositories, and every reason for which there is none."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import repository
from tests.hosts.repository import DRIVER, NEW_DRIVER, TOOLKIT, Deb, Signer
from tokenworks.errors import ConfigError, OperationError
from tokenworks.hosts.apt_index import Version, offers
from tokenworks.hosts.lock import HostLock, Part
from tokenworks.hosts.lock_file import differences, lock_text, make_lock, read_host_lock
from tokenworks.hosts.names import part_of
from tokenworks.hosts.request import LockRequest

NEW = {"version": NEW_DRIVER, "modules": "open", "archive": "cuda"}
SMI = {DRIVER: None, NEW_DRIVER: "libnvidia-compute"}


def resolved(archives: Path, signer: Signer, **changed: Any) -> HostLock:
    asked = LockRequest.model_validate(repository.request(archives, signer, **changed))
    return make_lock(asked, archives / "keys")


def names(lock: HostLock, *parts: Part) -> set[str]:
    return {package.name for package in lock.of(*parts)}


def test_a_lock_has_everything_that_the_asked_packages_depend_on(
    archives: Path, signer: Signer
) -> None:
    lock = resolved(archives, signer)
    assert names(lock, Part.DRIVER) == {
        "libnvidia-cfg1-580",
        "libnvidia-compute-580",
        "nvidia-dkms-580-open",
        f"nvidia-firmware-580-{DRIVER}",
        "nvidia-kernel-common-580",
        "nvidia-kernel-source-580-open",
        "nvidia-modprobe",
        "nvidia-persistenced",
        "nvidia-utils-580",
    }
    assert {p.version for p in lock.of(Part.DRIVER)} == {f"{DRIVER}-1ubuntu1"}
    assert names(lock, Part.KERNEL) == {
        "linux-image-6.8.0-87-generic",
        "linux-modules-6.8.0-87-generic",
    }
    assert names(lock, Part.COMPILER) == {"gcc-13", "cpp-13"}
    assert names(lock, Part.CONTAINERD) == {"containerd", "runc"}
    assert names(lock, Part.OTHER) == {"dkms"}


def test_every_hash_is_that_of_the_file_in_the_repository(archives: Path, signer: Signer) -> None:
    for package in resolved(archives, signer).packages:
        file = (
            archives / package.repository / "pool" / f"{package.name}_{package.version}_amd64.deb"
        )
        assert hashlib.sha256(file.read_bytes()).hexdigest() == package.sha256


def test_fabric_manager_is_at_the_version_of_the_driver(archives: Path, signer: Signer) -> None:
    for version in (DRIVER, NEW_DRIVER):
        driver = {"version": version, "modules": "open", "archive": "cuda"}
        lock = resolved(archives, signer, driver=driver, nvidia_smi=SMI[version])
        found = {p.name: p.version for p in lock.of(Part.FABRIC_MANAGER)}
        full = f"{version}-1ubuntu1"
        assert found == {"nvidia-fabricmanager": full, "libnvidia-nscq": full}


def test_packages_of_branch_595_carry_no_branch_in_their_names(
    archives: Path, signer: Signer
) -> None:
    lock = resolved(archives, signer, driver=NEW, nvidia_smi=SMI[NEW_DRIVER])
    found = names(lock, Part.DRIVER)
    assert {"libnvidia-compute", "nvidia-dkms-open", "libnvidia-gpucomp"} <= found
    assert not [name for name in found if "580" in name]


def test_an_older_driver_is_locked_whole_where_a_newer_one_lies_beside_it(
    archives: Path, signer: Signer
) -> None:
    driver = {"version": "580.126.20", "modules": "open", "archive": "cuda"}
    lock = resolved(archives, signer, driver=driver)
    assert {p.version for p in lock.of(Part.DRIVER)} == {"580.126.20-1ubuntu1"}


def test_the_four_toolkit_packages_are_at_one_version(archives: Path, signer: Signer) -> None:
    for version in (TOOLKIT, "1.17.8"):
        lock = resolved(archives, signer, toolkit_version=version)
        assert [p.version for p in lock.of(Part.TOOLKIT)] == [f"{version}-1"] * 4


def test_headers_that_follow_the_newest_kernel_are_never_locked(
    archives: Path, signer: Signer
) -> None:
    found = names(resolved(archives, signer), Part.HEADERS)
    assert found == {"linux-headers-6.8.0-87", "linux-headers-6.8.0-87-generic"}


def refusals(archives: Path, signer: Signer, **changed: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        resolved(archives, signer, **changed)
    return [str(problem) for problem in refused.value.problems]


def test_a_driver_that_is_gone_is_refused_with_the_versions_that_are_there(
    archives: Path, signer: Signer
) -> None:
    driver = {"version": "580.95.05", "modules": "open", "archive": "cuda"}
    told = refusals(archives, signer, driver=driver)
    assert told[0] == (
        "driver.version: 580.95.05 cannot be locked: cuda has libnvidia-compute-580 only at "
        "580.159.04-1ubuntu1, 580.126.20-1ubuntu1; choose a version that is there, or point uri at "
        "a snapshot or mirror that still has it."
    )


def test_everything_that_cannot_be_locked_is_said_at_once(archives: Path, signer: Signer) -> None:
    told = refusals(archives, signer, toolkit_version="1.19.0", kernel="6.8.0-99-generic")
    assert [line.split(":")[0] for line in told] == [*["toolkit_version"] * 4, "kernel", "kernel"]


def test_a_dependency_that_only_another_driver_could_meet_is_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    debs = [deb for deb in repository.driver_580() if deb.name != "nvidia-kernel-common-580"]
    debs.append(Deb(name="nvidia-kernel-common-580", version="580.178.04-1ubuntu1"))
    told = refusals(*with_cuda(archives, signer, tmp_path, debs))
    assert len(told) == 1
    assert "nvidia-dkms-580-open 580.159.04-1ubuntu1 depends on nvidia-kernel-common-580" in told[0]
    assert "nvidia-kernel-common-580 580.178.04-1ubuntu1 in cuda" in told[0]


def test_packages_that_cannot_stand_beside_each_other_are_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    debs = [deb for deb in repository.driver_580() if deb.name != "libnvidia-nscq"]
    full = f"{DRIVER}-1ubuntu1"
    debs.append(Deb(name="libnvidia-nscq", version=full, conflicts="nvidia-utils-580"))
    told = refusals(*with_cuda(archives, signer, tmp_path, debs))
    assert len(told) == 1
    assert f"cannot be installed beside nvidia-utils-580 {full}" in told[0]


def with_cuda(archives: Path, signer: Signer, folder: Path, debs: list[Deb]) -> tuple[Path, Signer]:
    """The repositories with another one in the place of cuda."""
    for name in ("toolkit", "ubuntu", "keys"):
        (folder / name).symlink_to(archives / name)
    repository.publish(folder / "cuda", debs, signer)
    return folder, signer


def test_a_driver_of_two_repositories_is_refused(archives: Path, signer: Signer) -> None:
    asked = repository.request(archives, signer)
    asked["repositories"][2]["parts"].append("driver")
    with pytest.raises(ValueError, match="driver must come from exactly one repository"):
        LockRequest.model_validate(asked)


def test_an_index_that_was_changed_after_signing_is_refused(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    folder, _ = with_cuda(archives, signer, tmp_path, repository.driver_580())
    index = folder / "cuda" / "Packages.gz"
    index.write_bytes(index.read_bytes()[:-1] + b"\1")
    with pytest.raises(OperationError, match=r"Packages\.gz is not the file that was signed"):
        resolved(folder, signer)


def test_a_repository_signed_by_another_key_is_refused_with_its_fingerprint(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    thief = Signer(tmp_path / "thief")
    for name in ("toolkit", "ubuntu", "keys"):
        (tmp_path / name).symlink_to(archives / name)
    repository.publish(tmp_path / "cuda", repository.driver_580(), thief)
    thief.end()
    with pytest.raises(OperationError, match=f"is not good under {signer.fingerprint}"):
        resolved(tmp_path, signer)


def test_a_good_signature_by_a_key_with_another_fingerprint_is_refused(
    archives: Path, signer: Signer
) -> None:
    asked = repository.request(archives, signer)
    asked["repositories"][0]["key_fingerprint"] = "A" * 40
    with pytest.raises(OperationError, match=f"it is signed by {signer.fingerprint}"):
        make_lock(LockRequest.model_validate(asked), archives / "keys")


def test_a_detached_signature_will_do_and_none_will_not(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    folder, _ = with_cuda(archives, signer, tmp_path, repository.driver_580())
    cuda = folder / "cuda"
    signed = (cuda / "InRelease").read_text()
    release = signed[signed.index("Origin") : signed.index("-----BEGIN PGP SIGNATURE")]
    (cuda / "InRelease").unlink()
    (cuda / "Release").write_text(release)
    with pytest.raises(OperationError, match="a repository without a signature is never used"):
        resolved(folder, signer)
    (cuda / "Release.gpg").write_bytes(signer.detached(release))
    assert resolved(folder, signer).driver.version == DRIVER


def test_a_key_that_is_none_or_is_not_there_is_named(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    asked = LockRequest.model_validate(repository.request(archives, signer))
    with pytest.raises(OperationError, match=r"key tests\.asc: it cannot be read"):
        make_lock(asked, tmp_path)
    (tmp_path / "tests.asc").write_bytes(b"\x99\x01 binary \x0a")
    with pytest.raises(OperationError, match=r"key tests\.asc: it "):
        make_lock(asked, tmp_path)


def test_a_repository_that_is_gone_is_named(archives: Path, signer: Signer) -> None:
    asked = repository.request(archives, signer)
    asked["repositories"][0]["uri"] = "http://127.0.0.1:1/cuda"
    with pytest.raises(OperationError, match=r"reading http://127\.0\.0\.1:1/cuda/InRelease"):
        make_lock(LockRequest.model_validate(asked), archives / "keys")


def test_a_lock_that_is_written_is_read_back_and_written_alike(
    archives: Path, signer: Signer, tmp_path: Path
) -> None:
    lock = resolved(archives, signer)
    file = tmp_path / "lock.yaml"
    file.write_text(lock_text(lock))
    assert read_host_lock(file) == lock
    assert lock_text(read_host_lock(file)) == file.read_text()


def test_two_locks_differ_in_what_a_newer_driver_brings(archives: Path, signer: Signer) -> None:
    driver = {"version": "580.126.20", "modules": "open", "archive": "cuda"}
    older, newer = resolved(archives, signer, driver=driver), resolved(archives, signer)
    found = {one.what: one for one in differences(older, newer)}
    assert "driver" in found
    assert found["nvidia-firmware-580-580.126.20"].offered == "not there"
    assert found["nvidia-utils-580"].locked.startswith("580.126.20-1ubuntu1 ")
    assert "gcc-13" not in found
    assert not list(differences(older, copy.deepcopy(older)))


def test_a_kernel_of_a_longer_number_is_another_kernel(archives: Path, signer: Signer) -> None:
    told = refusals(archives, signer, kernel="6.8.0-8-generic")
    assert len(told) == 2


@given(st.lists(st.sampled_from(["1.0-1", "1.0~rc1-1", "1:0.5-1", "1.0-1ubuntu1", "1.0.1-1"])))
def test_versions_are_ordered_as_dpkg_orders_them(given_versions: list[str]) -> None:
    order = ["1.0~rc1-1", "1.0-1", "1.0-1ubuntu1", "1.0.1-1", "1:0.5-1"]
    found = [version.text for version in sorted(map(Version, given_versions))]
    assert found == sorted(given_versions, key=order.index)


def test_what_is_of_no_concern_is_not_even_read() -> None:
    index = "Package: cowsay\nVersion: 1\n\nPackage: runc\nVersion: 1.3-1\nSHA256: " + "a" * 64
    assert [offer.name for offer in offers(index, "any", part_of)] == ["runc"]


def test_a_package_that_is_asked_for_beside_the_rest_is_locked_and_no_other(
    archives: Path, signer: Signer
) -> None:
    assert "nfs-common" not in resolved(archives, signer).versions
    lock = resolved(archives, signer, extra_packages=["nfs-common"])
    assert lock.versions["nfs-common"] == "1:2.6.4-3ubuntu5"
    assert names(lock, Part.OTHER) == {"dkms", "nfs-common"}
    assert len(refusals(archives, signer, extra_packages=["nfs-uncommon"])) == 1
