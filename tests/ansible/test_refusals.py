"""What goes wrong in the world around a host: each is told with what to do, and changes nothing."""

from __future__ import annotations

import dataclasses
import fcntl
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ansible import debs, gotools
from tests.ansible.debs import DRIVER, NEWER_DRIVER
from tests.ansible.world import Archive, Machine, Play
from tests.hosts.repository import Signer
from tokenworks.hosts.lock import HostLock, Part


def altered(lock: HostLock, name: str, **fields: str) -> HostLock:
    """The lock with one package's fields replaced."""
    packages = [
        {**package.model_dump(mode="json"), **(fields if package.name == name else {})}
        for package in lock.packages
    ]
    return HostLock.model_validate(lock.model_dump(mode="json") | {"packages": packages})


def test_a_repository_that_is_gone_is_told_and_changes_no_package(
    host: Machine, play: Play, published: Archive
) -> None:
    packages = host.packages
    gone = dataclasses.replace(published, uri=published.uri + "gone/")
    ran = play("prepare.yml", host, gone.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert "a repository of the lock cannot be read; check that the host reaches it" in ran.message
    assert host.packages == packages


def test_a_proxy_that_answers_in_place_of_the_repository_is_told(
    host: Machine, play: Play, published: Archive
) -> None:
    place = published.folder / "proxy"
    place.mkdir()
    for name in ("InRelease", "Release", "Release.gpg", "Packages"):
        (place / name).write_text("<html><title>Access denied by policy</title></html>\n")
    other = dataclasses.replace(published, uri=published.uri + "proxy/")
    packages = host.packages
    ran = play("prepare.yml", host, other.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert "something else answers in place of a repository of the lock" in ran.message
    assert host.packages == packages


def test_a_version_that_the_vendor_deleted_is_named(
    host: Machine, play: Play, published: Archive
) -> None:
    gone = altered(published.lock(), "nvidia-utils-580", version="580.126.21-1ubuntu1")
    ran = play("prepare.yml", host, gone)
    assert ran.status == 2
    assert "no repository of the lock has nvidia-utils-580 580.126.21-1ubuntu1" in ran.message
    assert "use a snapshot or mirror that keeps them" in ran.message
    assert host.packages["nvidia-utils-580"] == f"{DRIVER}-1ubuntu1"


def test_another_file_under_the_locked_version_is_not_installed(
    machine: Machine, play: Play, published: Archive
) -> None:
    ran = play(
        "prepare.yml", machine, altered(published.lock(), "nvidia-modprobe", sha256="0" * 64)
    )
    assert ran.status == 2
    assert "offer other files than locked for nvidia-modprobe" in ran.message
    assert "nvidia-modprobe" not in machine.packages


def test_a_rotated_key_is_told_and_the_old_packages_stay(
    host: Machine, play: Play, published: Archive, signers: Callable[[str], Signer]
) -> None:
    place = published.folder / "rotated"
    place.mkdir()
    (place / "pool").symlink_to("../pool")
    for name in ("Packages", "Packages.gz"):
        (place / name).symlink_to(f"../{name}")
    signed = (published.folder / "InRelease").read_text()
    release = re.sub(r"\A.*?\n\n|-----BEGIN PGP SIGNATURE.*", "", signed, flags=re.DOTALL)
    (place / "InRelease").write_bytes(signers("successor").inline(release))
    rotated = dataclasses.replace(published, uri=published.uri + "rotated/")
    ran = play("prepare.yml", host, rotated.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert "is not signed by the key of the lock; compare the vendor's announced" in ran.message
    assert host.packages["nvidia-utils-580"] == f"{DRIVER}-1ubuntu1"


def test_a_key_that_is_not_the_locked_one_never_reaches_a_host(
    machine: Machine, play: Play, published: Archive
) -> None:
    lock = published.lock()
    repository = lock.repositories[0].model_copy(update={"key_fingerprint": "0" * 40})
    ran = play("prepare.yml", machine, lock.model_copy(update={"repositories": (repository,)}))
    assert ran.status == 2
    assert f"tests.asc holds {published.fingerprint}, locked is {'0' * 40}" in ran.message
    assert not list((machine.root / "etc/apt/keyrings").glob("tokenworks-*"))


def test_a_package_that_the_lock_forgot_is_not_dragged_in(
    machine: Machine, play: Play, published: Archive
) -> None:
    lock = published.lock()
    fewer = [p for p in lock.packages if p.name != "nvidia-modprobe"]
    ran = play("prepare.yml", machine, lock.model_copy(update={"packages": tuple(fewer)}))
    assert ran.status == 2
    assert "apt would also touch nvidia-modprobe" in ran.message or (
        "apt finds no way to the locked packages" in ran.message
    )
    assert "nvidia-utils-580" not in machine.packages


def test_without_headers_the_module_is_missed_before_any_reboot(
    host: Machine, play: Play, published: Archive
) -> None:
    host.run("rm", "-r", f"/lib/modules/{debs.KERNEL}/build")
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert f"dkms could not build the driver for {debs.KERNEL}" in ran.message
    assert "look for missing headers" in ran.message
    assert not [line for line in host.log[before:] if line.startswith("shutdown")]


def test_a_module_that_dkms_did_not_build_is_missed_before_any_reboot(
    host: Machine, play: Play, published: Archive
) -> None:
    """It may end well all the same, and print nothing."""
    host.write("var/lib/stand-in/faults.json", '{"dkms": "builds nothing"}')
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 2
    assert f"Kernel {debs.KERNEL} has no module on disk, locked is {NEWER_DRIVER}" in ran.message
    assert not [line for line in host.log[before:] if line.startswith("shutdown")]
    (host.root / "var/lib/stand-in/faults.json").unlink()
    again = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert again.status == 0, again.message


def test_a_drop_in_of_another_owner_is_refused_before_anything_is_touched(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/containerd/conf.d/99-nvidia.toml", "version = 3\n")
    before = host.snapshot()
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 2
    assert "/etc/containerd/conf.d/99-nvidia.toml also configures the NVIDIA runtime" in ran.message
    assert host.snapshot() == before


def test_a_drop_in_that_overrides_ours_is_caught_in_the_merged_configuration(
    host: Machine, play: Play, published: Archive
) -> None:
    plugin = 'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options'
    host.write(
        "etc/containerd/conf.d/90-site.toml", f"version = 3\n[{plugin}]\nSystemdCgroup = false\n"
    )
    ran = play("verify.yml", host, published.lock())
    assert ran.status == 2
    assert "runtime nvidia has no SystemdCgroup = true after merging" in ran.message


def test_a_file_that_containerd_cannot_read_keeps_it_from_being_restarted(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/containerd/conf.d/90-site.toml", "version = 9\n")
    host.write("etc/containerd/conf.d/50-tokenworks.toml", "")
    before = len(host.log)
    ran = play("prepare.yml", host, published.lock())
    assert ran.status == 2
    assert "containerd would not start with these files, and was not restarted" in ran.message
    assert host.log[before:] == []


def test_preferences_of_others_that_win_over_ours_are_found(
    host: Machine, play: Play, published: Archive
) -> None:
    pin = f"Package: nvidia-utils-580\nPin: version {NEWER_DRIVER}-1ubuntu1\nPin-Priority: 1002\n"
    host.write("etc/apt/preferences.d/00-site", pin)
    ran = play("verify.yml", host, published.lock())
    assert ran.status == 2
    assert f"apt would install nvidia-utils-580 {NEWER_DRIVER}-1ubuntu1" in ran.message


def test_a_blacklist_that_somebody_cleared_is_found(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/apt/apt.conf.d/99zz-site", "#clear Unattended-Upgrade::Package-Blacklist;\n")
    ran = play("verify.yml", host, published.lock())
    assert ran.status == 2
    assert "unattended upgrades may touch" in ran.message


def test_timers_that_somebody_switched_on_again_are_found(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("etc/apt/apt.conf.d/99zz-site", 'APT::Periodic::Enable "1";\n')
    ran = play("verify.yml", host, published.lock())
    assert ran.status == 2
    assert "apt's own timers may update packages" in ran.message


def test_packages_wait_until_the_first_boot_has_installed_its_own(
    host: Machine, play: Play, published: Archive
) -> None:
    waiting = f"echo $* $(grep -c {NEWER_DRIVER} /var/lib/dpkg/status) >>/root/waited"
    host.write("usr/bin/cloud-init", f"#!/bin/sh\n{waiting}\nexit 2\n")
    (host.root / "usr/bin/cloud-init").chmod(0o755)
    ran = play("prepare.yml", host, published.lock(NEWER_DRIVER))
    assert ran.status == 0, ran.message
    assert host.text("root/waited") == "status --wait 0\n"


def test_a_first_boot_that_does_not_end_is_named_and_nothing_is_installed(
    host: Machine, play: Play, published: Archive
) -> None:
    host.write("usr/bin/cloud-init", "#!/bin/sh\nexec sleep 60\n")
    (host.root / "usr/bin/cloud-init").chmod(0o755)
    lock = published.lock(NEWER_DRIVER)
    ran = play("prepare.yml", host, lock, base_lock_timeout_seconds=1)
    assert ran.status == 2
    assert "cloud-init has not finished in 1 seconds" in ran.message
    assert NEWER_DRIVER not in host.text("var/lib/dpkg/status")


def test_a_package_manager_that_stays_busy_is_named_and_not_broken_into(
    host: Machine, play: Play, published: Archive
) -> None:
    host.run("apt-mark", "unhold", "nvidia-utils-580")
    with (host.root / "var/lib/dpkg/lock-frontend").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        ran = play("prepare.yml", host, published.lock(), base_lock_timeout_seconds=1)
    assert ran.status == 2
    assert "another program has held dpkg's lock for 1 seconds" in ran.message
    assert "nvidia-utils-580" not in host.run("apt-mark", "showhold").split()


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ('ID="rocky"\nVERSION_ID="9.6"\n', "the host runs rocky-9.6, of which only repositories"),
        ('ID="sles"\nVERSION_ID="15"\n', "known are ubuntu-22.04, ubuntu-24.04, debian-12"),
    ],
)
def test_the_wrong_system_is_refused_with_the_systems_that_are_known(
    release: str, words: str, machine: Machine, play: Play, published: Archive
) -> None:
    machine.write("etc/os-release", release)
    ran = play("prepare.yml", machine, published.lock())
    assert ran.status == 2
    assert words in ran.message


def test_our_drop_in_says_what_nvidias_own_tool_would_write(host: Machine, tmp_path: Path) -> None:
    """nvidia-ctk copies more tables; of the runtime and of CDI it must say the same."""
    import tomllib

    config = tmp_path / "config.toml"
    config.write_text("version = 3\n")
    said = subprocess.run(
        [
            gotools.program("nvidia-ctk"), "runtime", "configure", "--runtime=containerd",
            f"--config={config}", f"--drop-in-config={tmp_path}/99.toml",
            "--cdi.enabled", "--dry-run",
        ],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    theirs = tomllib.loads(said.split("\nimports")[0])
    ours = tomllib.loads(host.text("etc/containerd/conf.d/50-tokenworks.toml"))
    cri = "io.containerd.cri.v1.runtime"
    their_runtime = theirs["plugins"][cri]["containerd"]["runtimes"]["nvidia"]
    our_runtime = ours["plugins"][cri]["containerd"]["runtimes"]["nvidia"]
    assert our_runtime["runtime_type"] == their_runtime["runtime_type"]
    assert their_runtime["options"].items() <= our_runtime["options"].items()
    assert theirs["plugins"][cri]["enable_cdi"] is ours["plugins"][cri]["enable_cdi"] is True


@pytest.mark.parametrize("part", [Part.TOOLKIT])
def test_the_real_nvidia_ctk_says_the_locked_version(
    part: Part, host: Machine, published: Archive
) -> None:
    assert f"version {published.lock().toolkit_version}" in host.run("nvidia-ctk", "--version")
