"""A builder of a machine image: the same roles as on any host, then it forgets itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ansible.debs import DRIVER, KERNEL
from tests.ansible.world import Archive, Machine, Play
from tokenworks.hosts.settings import HostSettings

CLOUD_INIT = """#!/bin/sh
# What is asked of it here, as its manual has it: `clean` removes what it knows of this machine.
echo "$*" >> /var/lib/stand-in/cloud-init
: > /etc/machine-id
rm -rf /var/lib/cloud
"""
ARRAYS = "HOMEHOST <system>\nARRAY /dev/md/0 metadata=1.2 UUID=12:34\n"


@pytest.fixture
def builder(host: Machine) -> Machine:
    """A host as locked, of a kind that does not say how many GPUs others have."""
    made = replace(host, settings=HostSettings(expected_gpus=None))
    made.write("usr/bin/cloud-init", CLOUD_INIT)
    (made.root / "usr/bin/cloud-init").chmod(0o755)
    made.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    made.write("var/lib/cloud/instance/obj.pkl", "known")
    made.write("etc/mdadm/mdadm.conf", ARRAYS)
    return made


def module(machine: Machine, kernel: str) -> list[Path]:
    return list((machine.root / "lib/modules" / kernel).rglob("nvidia.ko*"))


def test_an_image_has_the_driver_for_the_kernel_that_boots_and_only_locked_packages(
    builder: Machine, play: Play, published: Archive
) -> None:
    lock = published.lock()
    prepared = play("prepare.yml", builder, lock)
    assert prepared.status == 0, prepared.message
    assert play("seal.yml", builder, lock).status == 0
    verified = play("verify.yml", builder, lock)
    assert verified.status == 0, verified.message
    wanted = {one.name: one.version for one in lock.packages if one.part != "fabric_manager"}
    ours = {name: builder.packages[name] for name in builder.packages if name in wanted}
    assert ours == wanted
    assert not [name for name in builder.packages if "nvidia" in name and name not in wanted]
    assert lock.kernel == KERNEL
    assert module(builder, KERNEL)
    assert f"  {DRIVER}  " in builder.text("proc/driver/nvidia/version")


def test_whatever_starts_from_an_image_is_another_machine(
    builder: Machine, play: Play, published: Archive
) -> None:
    sealed = play("seal.yml", builder, published.lock())
    assert sealed.status == 0, sealed.message
    assert builder.text("etc/machine-id") == ""
    assert not (builder.root / "var/lib/cloud").exists()
    assert builder.text("var/lib/stand-in/cloud-init") == "clean --logs --machine-id\n"
    assert builder.text("etc/mdadm/mdadm.conf") == "HOMEHOST <system>\n"


def test_a_builder_without_arrays_is_sealed_as_well(
    builder: Machine, play: Play, published: Archive
) -> None:
    (builder.root / "etc/mdadm/mdadm.conf").unlink()
    assert play("seal.yml", builder, published.lock()).status == 0
    assert not (builder.root / "etc/mdadm/mdadm.conf").exists()


def test_a_builder_that_is_not_as_locked_is_not_copied(
    builder: Machine, play: Play, published: Archive
) -> None:
    """The provider verifies after it prepared, and ends there."""
    builder.run("apt-mark", "unhold", "containerd.io")
    ran = play("verify.yml", builder, published.lock())
    assert ran.status != 0
    assert "containerd.io" in ran.message
