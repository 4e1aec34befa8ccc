"""RHEL 9 as far as it is known: real dnf, signed indices and packages, streams and version locks.

The system below is Debian's, which has dnf and rpm as well: what a mirror of RHEL's brings, above
all a kernel, is not tested.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import roots, world
from tests.ansible.world import Archive, Machine, Ran

TOOLS = ("dnf", "dnf-plugins-core", "createrepo-c", "rpm", "gnupg")
LOCKED, NEWER, OTHER = "3:580.126.20-1.el9", "3:580.159.04-1.el9", "3:595.91.07-1.el9"
NAMES = ("nvidia-driver-cuda", "kmod-nvidia-open-dkms")
RELEASE = 'NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.6"\nPLATFORM_ID="platform:el9"\n'
SPEC = """\
Name: {name}
Epoch: {epoch}
Version: {version}
Release: {release}
Summary: A stand-in
License: MIT
%description
A stand-in.
%files
"""
SIGNED_BY = "--define '_gpg_name Tests' --define '__gpg /usr/bin/gpg'"
STREAM = """\
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: "{branch}-open"
  version: {branch}
  context: tests
  arch: x86_64
  summary: The driver
  description: The driver.
  license: {{module: [MIT]}}
  artifacts: {{rpms: [{rpms}]}}
...
"""


def parts(evr: str) -> tuple[str, str, str]:
    epoch, rest = evr.split(":")
    version, release = rest.split("-")
    return epoch, version, release


def publish(machine: Machine) -> str:
    """Build, sign and index the packages in the folder; return the armoured key."""
    machine.run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "Tests", "rsa2048")
    for name in NAMES:
        for evr in (LOCKED, NEWER, OTHER):
            epoch, version, release = parts(evr)
            spec = SPEC.format(name=name, epoch=epoch, version=version, release=release)
            machine.write("root/one.spec", spec)
            machine.run("rpmbuild", "-bb", "--define", "_rpmdir /srv/repo", "/root/one.spec")
    for branch, versions in {"580": (LOCKED, NEWER), "595": (OTHER,)}.items():
        rpms = ", ".join(f'"{name}-{evr}.x86_64"' for name in NAMES for evr in versions)
        text = STREAM.format(branch=branch, rpms=rpms)
        machine.write(f"srv/repo/{branch}.modules.yaml", text)
    machine.run("sh", "-c", f"rpmsign {SIGNED_BY} --addsign /srv/repo/*/*.rpm")
    machine.run("createrepo_c", "/srv/repo")
    machine.run("gpg", "--batch", "--detach-sign", "--armor", "/srv/repo/repodata/repomd.xml")
    return machine.run("gpg", "--armor", "--export", "Tests")


@pytest.fixture(scope="module")
def lower(bare: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Layers of a host with dnf and a repository, and the key of the repository."""
    folder = tmp_path_factory.mktemp("rhel")
    with roots.layer(bare, folder) as root:
        machine = Machine(root=root)
        machine.write("etc/apt/sources.list", roots.source())
        machine.write("etc/resolv.conf", Path("/etc/resolv.conf").read_text())
        said = machine.run("apt-get", "-o", "APT::Update::Error-Mode=any", "update", status=None)
        if "\nE: " in said:
            pytest.skip(f"RHEL 9 was NOT tested: dnf cannot be had here: {said[-300:]}")
        machine.apt(*TOOLS)
        key = publish(machine)
        machine.write("etc/os-release", RELEASE)
        for place in ("etc/pki/rpm-gpg", "etc/yum.repos.d"):
            machine.write(f"{place}/.keep", "")
        # A plugin of Debian's set that RHEL does not install.
        machine.write("etc/dnf/plugins/local.conf", "[main]\nenabled = 0\n")
    return f"{folder / 'upper'}:{bare}", key


@pytest.fixture
def rocky(lower: tuple[str, str], layers: Callable[[str], Path]) -> Machine:
    return Machine(root=layers(lower[0]))


@pytest.fixture
def wanted(lower: tuple[str, str]) -> dict[str, Any]:
    """What a file of an operator's says."""
    repository = {"name": "cuda", "address": "file:///srv/repo", "key_file": "D42D0685.asc"}
    return {
        "rhel_driver_branch": 580,
        "rhel_modules": "open",
        "rhel_repositories": [repository],
        "rhel_keys": {"D42D0685.asc": lower[1]},
        "rhel_locked": dict.fromkeys(NAMES, LOCKED),
    }


def ran(machine: Machine, archive: Archive, folder: Path, wanted: dict[str, Any]) -> Ran:
    hosts = {"gpu-1": machine}
    return world.play(
        "rhel-repositories.yml", hosts, archive.lock(), archive, folder / "run", **wanted
    )


def installed(machine: Machine) -> set[str]:
    said = machine.run(
        "rpm", "--query", "--queryformat", "%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n", *NAMES
    )
    return set(said.split())


def test_the_locked_driver_comes_from_its_stream_and_stays(
    rocky: Machine, published: Archive, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    done = ran(rocky, published, tmp_path, wanted)
    assert done.status == 0, done.message + done.output
    again = ran(rocky, published, tmp_path, wanted)
    assert (again.status, again.changed) == (0, [])
    rocky.run("dnf", "--assumeyes", "install", *NAMES)
    assert installed(rocky) == {LOCKED}
    rocky.run("dnf", "--assumeyes", "upgrade")
    assert installed(rocky) == {LOCKED}
    rocky.write("etc/dnf/plugins/versionlock.list", "")
    rocky.run("dnf", "--assumeyes", "upgrade")
    assert installed(rocky) == {NEWER}, "the stream alone keeps the branch, not the version"


def test_a_repository_of_another_key_brings_nothing(
    rocky: Machine, published: Archive, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    wanted["rhel_keys"] = {"D42D0685.asc": published.armoured}
    done = ran(rocky, published, tmp_path, wanted)
    assert done.status != 0
    said = rocky.run("dnf", "--assumeyes", "install", *NAMES, status=1)
    assert "repomd.xml GPG signature verification error" in said


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rhel_modules": "closed"}, "rhel_modules one of open, proprietary"),
        ({"rhel_driver_branch": "latest"}, "rhel_driver_branch must be a number"),
        ({"rhel_locked": {}}, "no version of kmod-nvidia-open-dkms, nvidia-driver-cuda"),
        ({"rhel_keys": {}}, "rhel_keys lacks D42D0685.asc"),
    ],
)
def test_what_is_not_whole_is_refused_before_anything_is_written(
    changed: dict[str, Any], words: str,
    rocky: Machine, published: Archive, tmp_path: Path, wanted: dict[str, Any],
) -> None:  # fmt: skip
    done = ran(rocky, published, tmp_path, wanted | changed)
    assert done.status != 0
    assert words in done.message
    assert not (rocky.root / "etc/yum.repos.d/tokenworks.repo").exists()


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (RELEASE.replace("9.6", "10.1"), "The host runs rocky 10.1"),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "The host runs ubuntu 24.04"),
    ],
)
def test_another_system_is_refused(
    system: str, words: str,
    rocky: Machine, published: Archive, tmp_path: Path, wanted: dict[str, Any],
) -> None:  # fmt: skip
    rocky.write("etc/os-release", system)
    done = ran(rocky, published, tmp_path, wanted)
    assert done.status != 0
    assert words in done.message


def test_without_the_plugin_versions_are_not_left_to_chance(
    rocky: Machine, published: Archive, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    for plugin in rocky.root.rglob("versionlock.py"):
        plugin.unlink()
    done = ran(rocky, published, tmp_path, wanted)
    assert done.status != 0
    assert "run: dnf install python3-dnf-plugin-versionlock" in done.message
