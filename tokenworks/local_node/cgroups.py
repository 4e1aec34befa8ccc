"""The node's control groups: one in each hierarchy of the machine, removed when it ends.

Version 1 has one hierarchy for each controller, version 2 one for all; a machine may have both.
In version 2 groups get only the controllers that the group above gives on, the machine's root, too.
What it did not give before is noted at the place that all nodes share, and taken back with it.
Sources: kernel documentation, admin-guide/cgroup-v1/cpusets and admin-guide/cgroup-v2.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.files import exclusive

MOUNTS: Final = Path("/proc/self/mountinfo")
PARENT: Final = "tokenworks"
NEEDED: Final = ("cpu", "memory", "pids")
"""Controllers that hold the limits of containers."""
_GIVEN: Final = "trusted.tokenworks.given"
"""The attribute of the place that all nodes share; it lives as long as that: until a reboot."""
_LIMITS: Final = (".max", ".high", ".low", ".min", ".weight")
"""How the files end by which a controller of version 2 is told something."""
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")
_GENERAL: Final = ("rw", "ro", "xattr", "noprefix", "clone_children")
"""Options of a mount that name no controller."""
_GONE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Where one hierarchy is mounted, whether it is that of version 2, and else its controllers."""

    place: Path
    unified: bool
    controllers: tuple[str, ...] = ()


def read_hierarchies(mountinfo: str) -> tuple[Hierarchy, ...]:
    """The hierarchies among a machine's mounts; proc_pid_mountinfo(5) describes the lines."""
    found = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            found[place] = Hierarchy(place=place, unified=True)
        elif kind == "cgroup":
            controllers = tuple(each for each in options.split(",") if each not in _GENERAL)
            found[place] = Hierarchy(place=place, unified=False, controllers=controllers)
    return tuple(found.values())


@dataclass(frozen=True)
class Cgroups:
    """One group in every hierarchy: the node sees it as the root, and whatever it makes is below.

    It takes a namespace for that, since containerd puts containers where the root is.
    """

    name: str

    def make(self) -> None:
        """Make the group in every hierarchy.

        Raises:
            OSError: one cannot be made; the file is in it.
        """
        for hierarchy in self._hierarchies():
            shared = hierarchy.place / PARENT
            # The shared place is the lock: nobody removes it while somebody moves in.
            with exclusive(shared):
                if hierarchy.unified:
                    # First of all, so that it is known whatever happens then.
                    _note(shared, _not_given(hierarchy.place))
                    _give(hierarchy.place)
                    _give(shared)
                _inherit_processors(hierarchy.place, shared)
                own = shared / self.name
                own.mkdir(exist_ok=True)
                _inherit_processors(shared, own)

    def controllers(self) -> frozenset[str]:
        """What limits can be set in the group, which was made."""
        found: set[str] = set()
        for each in self._hierarchies():
            file = each.place / PARENT / self.name / "cgroup.controllers"
            found.update(file.read_text().split() if each.unified else each.controllers)
        return frozenset(found)

    def spec(self) -> list[dict[str, Any]]:
        """Each hierarchy: the file by which a process joins the group, and how it is mounted."""
        return [
            {
                "join": str(each.place / PARENT / self.name / "cgroup.procs"),
                "place": str(each.place),
                "kind": "cgroup2" if each.unified else "cgroup",
                "options": ",".join(each.controllers),
            }
            for each in self._hierarchies()
        ]

    def remove(self) -> None:
        """Remove every group of the node, whose processes have ended.

        Raises:
            TimeoutError: a process is still in one; the group is in the message.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        while left := [group for top in self._tops() for group in _remove(top)]:
            if time.monotonic() > deadline:
                raise TimeoutError(str(left[0]))
            time.sleep(0.05)
        for hierarchy in self._hierarchies():
            _remove_shared(hierarchy)

    def _tops(self) -> Iterator[Path]:
        places = (each.place / PARENT / self.name for each in self._hierarchies())
        return (place for place in places if place.is_dir())

    @staticmethod
    def _hierarchies() -> tuple[Hierarchy, ...]:
        return read_hierarchies(MOUNTS.read_text())


def _not_given(group: Path) -> set[str]:
    """What a group has of the controllers needed, and does not give its children."""
    has, gives = (_words(group / f"cgroup.{name}") for name in ("controllers", "subtree_control"))
    return has & set(NEEDED) - gives


def _give(group: Path) -> None:
    for controller in sorted(_not_given(group)):
        with suppress(OSError):  # it stays with whoever has it
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _take_back(group: Path, controllers: set[str], fresh: Path) -> None:
    """Give children no longer what none of them has limits by, or gives its own children.

    ``fresh`` is a child that nobody ever told anything.
    """
    others = [child for child in group.iterdir() if child.is_dir() and child != fresh]
    for controller in controllers & _words(group / "cgroup.subtree_control"):
        if not any(_limits(child, controller, fresh) for child in others):
            with suppress(OSError):  # the kernel refuses what a child gives on
                (group / "cgroup.subtree_control").write_text(f"-{controller}")


def _limits(group: Path, controller: str, fresh: Path) -> bool:
    """Whether somebody set a limit or a weight of a controller."""
    files = [file for file in group.glob(f"{controller}.*") if file.suffix in _LIMITS]
    try:
        return any(file.read_text() != (fresh / file.name).read_text() for file in files)
    except OSError:  # the group is gone meanwhile
        return False


def _words(file: Path) -> set[str]:
    return set(file.read_text().split())


def _note(shared: Path, controllers: set[str]) -> None:
    if controllers:
        os.setxattr(shared, _GIVEN, " ".join(sorted(controllers | _noted(shared))).encode())


def _noted(shared: Path) -> set[str]:
    try:
        return set(os.getxattr(shared, _GIVEN).decode().split())
    except OSError:  # nothing was noted
        return set()


def _remove_shared(hierarchy: Hierarchy) -> None:
    """Remove the place that all nodes share unless another node's group is there."""
    shared = hierarchy.place / PARENT
    if not shared.is_dir():
        return
    with exclusive(shared):
        if any(each.is_dir() for each in shared.iterdir()):
            return
        if hierarchy.unified:
            noted = _noted(shared)
            _take_back(shared, noted, shared)
            _take_back(hierarchy.place, noted, shared)
        with suppress(OSError):  # whoever moved in without the lock is no node of ours
            shared.rmdir()


def _inherit_processors(parent: Path, place: Path) -> None:
    """A group of version 1 has no processors, and takes no process, until it is given some."""
    for name in _CPUSET:
        file = place / name
        if file.exists() and not file.read_text().strip() and (parent / name).exists():
            file.write_text((parent / name).read_text())


def _remove(top: Path) -> list[Path]:
    """Remove a group and those in it; returns those that could not be."""
    left = []
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:
            left.append(Path(folder))
    return left
