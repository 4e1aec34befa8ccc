"""Hierarchies of control groups, read from what the kernel says, and groups that leave no trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tokenworks.local_node import cgroups
from tokenworks.local_node.cgroups import Cgroups, Hierarchy, read_hierarchies

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


@pytest.fixture
def hierarchy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A group of version 2 in place of the machine's root, and its controllers for those needed."""
    mounted = [one for one in read_hierarchies(cgroups.MOUNTS.read_text()) if one.unified]
    if os.geteuid() != 0 or not mounted:
        pytest.skip("Groups of version 2 were NOT tested: no root, or none are mounted")
    place = mounted[0].place / f"tokenworks-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"Groups of version 2 were NOT tested: {error}")
    mount = SimpleNamespace(read_text=lambda: VERSION_2.replace("/sys/fs/cgroup", str(place)))
    monkeypatch.setattr(cgroups, "MOUNTS", mount)
    monkeypatch.setattr(cgroups, "NEEDED", tuple(words(place / "cgroup.controllers")))
    try:
        if not cgroups.NEEDED:
            pytest.skip("Groups of version 2 were NOT tested: the machine gives no controller on")
        yield place
    finally:
        for folder in sorted(place.rglob("*"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        place.rmdir()


def words(file: Path) -> set[str]:
    return set(file.read_text().split())


def given(place: Path) -> set[str]:
    return words(place / "cgroup.subtree_control")


def test_a_group_gets_the_controllers_that_it_needs_and_the_machine_is_as_before(
    hierarchy: Path,
) -> None:
    group = Cgroups("one")
    group.make()
    assert group.controllers() == set(cgroups.NEEDED)
    assert given(hierarchy) == set(cgroups.NEEDED)
    group.remove()
    assert given(hierarchy) == set()
    assert not (hierarchy / cgroups.PARENT).exists()


def test_what_the_machine_gave_before_it_gives_afterwards(hierarchy: Path) -> None:
    (hierarchy / "cgroup.subtree_control").write_text(f"+{cgroups.NEEDED[0]}")
    group = Cgroups("one")
    group.make()
    group.remove()
    assert given(hierarchy) == {cgroups.NEEDED[0]}


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_nodes_the_last_one_takes_back_what_the_first_one_gave(
    hierarchy: Path, first: int
) -> None:
    groups = [Cgroups("one"), Cgroups("two")]
    for group in groups:
        group.make()
    groups.pop(first).remove()
    assert groups[0].controllers() == given(hierarchy) == set(cgroups.NEEDED)
    groups[0].remove()
    assert given(hierarchy) == set()


def test_what_another_group_gives_on_by_now_stays_given(hierarchy: Path) -> None:
    group = Cgroups("one")
    group.make()
    (hierarchy / "others").mkdir()
    (hierarchy / "others" / "cgroup.subtree_control").write_text(f"+{cgroups.NEEDED[0]}")
    group.remove()
    assert given(hierarchy) == {cgroups.NEEDED[0]}


def test_what_limits_another_group_by_now_stays_given(hierarchy: Path) -> None:
    group = Cgroups("one")
    group.make()
    (hierarchy / "others").mkdir()
    limits = sorted((hierarchy / "others").glob("*.max"))
    limits[0].write_text("0")
    group.remove()
    assert limits[0].exists()
    assert given(hierarchy) == {limits[0].name.split(".")[0]}


def test_a_start_that_was_cut_off_between_its_steps_is_taken_back_by_the_next_end(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(cgroups, "_inherit_processors", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Cgroups("one").make()
    assert given(hierarchy) == set(cgroups.NEEDED)
    Cgroups("one").make()
    Cgroups("one").remove()
    assert given(hierarchy) == set()


def interrupt(*_: Path) -> None:
    raise KeyboardInterrupt


def test_every_hierarchy_is_as_before_a_group_was_made_and_removed() -> None:
    if os.geteuid() != 0:
        pytest.skip("Groups of the machine were NOT tested: no root")
    places = [one.place for one in read_hierarchies(cgroups.MOUNTS.read_text())]
    before = [given(place) for place in places if (place / "cgroup.subtree_control").exists()]
    group = Cgroups(f"tokenworks-test-{os.getpid()}")
    group.make()
    made = [place / cgroups.PARENT / group.name for place in places]
    assert all(each.is_dir() for each in made)
    assert group.controllers() >= set(cgroups.NEEDED)
    group.remove()
    assert not any(each.exists() for each in made)
    assert [
        given(place) for place in places if (place / "cgroup.subtree_control").exists()
    ] == before
