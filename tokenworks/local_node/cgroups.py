"""The node's control groups: one in each hierarchy of the machine, removed when it ends.

Version 1 has one hierarchy for each controller, version 2 one for all; a machine may have both.
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

MOUNTS: Final = Path("/proc/self/mountinfo")
PARENT: Final = "tokenworks"
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
        """Make the group in every hierarchy."""
        for hierarchy in self._hierarchies():
            _make(hierarchy, Path(PARENT, self.name))

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
            with suppress(OSError):  # another node's are there, too
                (hierarchy.place / PARENT).rmdir()

    def _tops(self) -> Iterator[Path]:
        places = (each.place / PARENT / self.name for each in self._hierarchies())
        return (place for place in places if place.is_dir())

    @staticmethod
    def _hierarchies() -> tuple[Hierarchy, ...]:
        return read_hierarchies(MOUNTS.read_text())


def _make(hierarchy: Hierarchy, group: Path) -> None:
    place = hierarchy.place
    for part in group.parts:
        parent, place = place, place / part
        if hierarchy.unified:
            _delegate(parent)
        place.mkdir(exist_ok=True)
        _inherit_processors(parent, place)


def _delegate(parent: Path) -> None:
    """Version 2 gives controllers on only where that is written."""
    for controller in (parent / "cgroup.controllers").read_text().split():
        with suppress(OSError):  # it stays with whoever has it
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")


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
