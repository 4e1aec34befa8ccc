"""Hierarchies of control groups, read from what the kernel says of its mounts."""

from __future__ import annotations

from pathlib import Path

from tokenworks.local_node.cgroups import Hierarchy, read_hierarchies

VERSION_1 = """\
23 1 252:0 / / rw,relatime - ext4 /dev/vda rw
31 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
33 31 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
34 31 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
VERSION_2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1_has_a_hierarchy_for_each_controller_and_may_have_version_2_beside() -> None:
    folder = Path("/sys/fs/cgroup")
    assert read_hierarchies(VERSION_1) == (
        Hierarchy(place=folder / "cpu", unified=False, controllers=("cpu",)),
        Hierarchy(place=folder / "memory", unified=False, controllers=("memory",)),
        Hierarchy(place=folder / "unified", unified=True),
    )


def test_version_2_has_one() -> None:
    assert read_hierarchies(VERSION_2) == (Hierarchy(place=Path("/sys/fs/cgroup"), unified=True),)


def test_a_machine_without_any_has_none() -> None:
    assert read_hierarchies("23 1 252:0 / / rw,relatime - ext4 /dev/vda rw\n") == ()
