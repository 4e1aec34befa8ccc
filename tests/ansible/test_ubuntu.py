"""The systems of Ubuntu: for real where a mirror is reached, and what can be told without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ansible import roots, world
from tests.ansible.debs import DRIVER, KERNEL, NEWER_DRIVER
from tests.ansible.world import Archive, Machine, Play


@pytest.fixture(params=roots.UBUNTU)
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def real(system: str, shared: Path, layers: Callable[[str], Path]) -> Machine:
    """A host of Ubuntu as its installer left it."""
    roots.require_ubuntu(system)
    return world.furnish(layers(str(roots.unpacked(shared, roots.UBUNTU[system]))))


@pytest.fixture
def dressed(system: str, machine: Machine) -> Machine:
    """A host of Debian's that says it is Ubuntu: apt, dpkg and Python are Debian's."""
    name, version = system.split("-")
    machine.write("etc/os-release", f'NAME="Ubuntu"\nID={name}\nVERSION_ID="{version}"\n')
    machine.run("update-grub")
    return machine


def test_a_host_of_ubuntu_is_brought_to_the_lock_upgraded_and_let_alone(
    system: str, real: Machine, play: Play, published: Archive
) -> None:
    assert play("prepare.yml", real, published.lock(os=system)).status == 0
    assert play("prepare.yml", real, published.lock(os=system)).changed == []
    ran = play("prepare.yml", real, published.lock(NEWER_DRIVER, os=system))
    assert ran.status == 0, ran.message
    assert f"  {NEWER_DRIVER}  " in real.text("proc/driver/nvidia/version")
    assert play("verify.yml", real, published.lock(NEWER_DRIVER, os=system)).status == 0


def test_what_of_the_roles_depends_on_the_systems_name_is_that_of_ubuntu(
    system: str, dressed: Machine, play: Play, published: Archive
) -> None:
    dressed.write("boot/vmlinuz-6.9.0-1-generic", "")
    dressed.run("update-grub")
    ran = play("prepare.yml", dressed, published.lock(os=system))
    assert ran.status == 0, ran.message
    grub = dressed.text("etc/default/grub.d/50-tokenworks-kernel.cfg")
    assert f'"Advanced options for Ubuntu>Ubuntu, with Linux {KERNEL}"' in grub
    dressed.run("/usr/local/lib/stand-in/boot")
    assert dressed.text("proc/sys/kernel/osrelease") == f"{KERNEL}\n"
    assert f"  {DRIVER}  " in dressed.text("proc/driver/nvidia/version")
    assert play("prepare.yml", dressed, published.lock(os=system)).changed == []
