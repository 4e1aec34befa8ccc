"""Which tools are good enough as found, which are built, and why: pure decisions.

What was seen on the machine comes in as sightings, what was decided goes out as statuses; nothing
here runs a program or reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tokenworks.toolchain.catalogue import (
    MODULE,
    TOOL,
    WHEEL,
    WHEELS,
    partners,
    recipe,
)
from tokenworks.toolchain.kinds import Module, Tool, Wheel

MEMORY_PER_BUILD_GIB: Final = 6
"""What one build may need: linking the Kubernetes provider took 4.2 GiB (measured 2026-11-29)."""
CORES_PER_BUILD: Final = 4
"""``go build`` is taken to fill this many cores by itself; see ``builds_at_once``. On 2 cores it
used 1.9 on average for most modules and 1.7 for the Kubernetes provider (measured 2026-11-29)."""

_VERSION: Final = re.compile(r"\bv?(\d+\.\d+\.\d+[^\s,\"']*)")


class State(Enum):
    """Where a tool comes from."""

    FOUND = "found"
    BUILT = "built"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A program that was looked at: where it is, and what it said or why it could not."""

    path: Path
    """Absolute, as it was found."""
    folder: Path
    """Where the program itself lies, links followed."""
    output: str = ""
    problem: str = ""
    """Why it cannot be used at all, as ``ends with code 1: not logged in``."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a sighting is good enough: its version if it is, and one sentence why or why not."""

    good: bool
    version: str
    because: str


@dataclass(frozen=True, kw_only=True)
class ToolStatus:
    """One tool on this machine: where it is, or that it has to be made, and why."""

    name: str
    needs: str
    """The version that is built, or the versions of the user's own that count."""
    state: State
    path: Path | None
    version: str
    because: str


def read_version(text: str) -> Version | None:
    """The first release number in what a program printed; None when there is none.

    A suffix that is no released version (``v1.32.4-dispatcher``) is not cut off: such a program
    is something else than the release that its number names.
    """
    match = _VERSION.search(text)
    if match is None:
        return None
    try:
        return Version(match.group(1))
    except InvalidVersion:
        return None


def judge(tool: Tool, sighting: Sighting | None) -> Verdict:
    """Whether this copy of a tool counts; a missing, broken, odd or wrong version never does."""
    if sighting is None:
        where = f"in Pulumi's plugins as {tool.plugin_folder}" if tool.plugin_folder else "on PATH"
        return Verdict(good=False, version="", because=f"not found {where}")
    if sighting.problem:
        because = f"{sighting.path} cannot be used: it {sighting.problem}"
        return Verdict(good=False, version="", because=because)
    if tool.plugin_folder or not tool.says_version:
        version = tool.version if tool.plugin_folder else ""
        return Verdict(good=True, version=version, because=tool.accepts_because)
    return _judge_version(tool, sighting)


def _judge_version(tool: Tool, sighting: Sighting) -> Verdict:
    version = read_version(sighting.output)
    if version is None:
        said = sighting.output.strip().splitlines()[:1]
        because = f"{sighting.path} names no released version, it says {said[0] if said else ''!r}"
        return Verdict(good=False, version="", because=because)
    if not SpecifierSet(tool.accepts).contains(version, prereleases=False):
        because = f"{sighting.path} is {version}, not {tool.accepts}: {tool.accepts_because}"
        return Verdict(good=False, version=str(version), because=because)
    because = f"{version} is {tool.accepts}"
    return Verdict(good=True, version=str(version), because=because)


def choose(
    names: Sequence[str],
    sightings: Mapping[str, Sighting],
    built: Mapping[str, Path],
) -> tuple[ToolStatus, ...]:
    """Each named tool: found where the user's copy counts, else built, else missing.

    ``built`` has the finished builds in the cache: tool name to path. Pulumi and its language host
    are taken together or not at all, because only pairs of one release, or the pair that is built
    here, are known to fit.
    """
    return tuple(_choose_one(TOOL[name], sightings, built) for name in names)


def _choose_one(
    tool: Tool, sightings: Mapping[str, Sighting], built: Mapping[str, Path]
) -> ToolStatus:
    verdict = _with_partners(tool, sightings)
    if verdict.good:
        return ToolStatus(
            name=tool.name,
            needs=tool.accepts,
            state=State.FOUND,
            path=sightings[tool.name].path,
            version=verdict.version,
            because=verdict.because,
        )
    path = built.get(tool.name)
    made = "installed" if tool.module in WHEEL else "built"
    ending = f"{made} before" if path else f"to be {made} from {recipe(tool.module)}"
    return ToolStatus(
        name=tool.name,
        needs=tool.version,
        state=State.BUILT if path else State.MISSING,
        path=path,
        version=tool.version if path else "",
        because=f"{ending}: {verdict.because}",
    )


def _with_partners(tool: Tool, sightings: Mapping[str, Sighting]) -> Verdict:
    """A tool's own verdict, unless one that it counts only together with is refused."""
    verdict = judge(tool, sightings.get(tool.name))
    if not verdict.good:
        return verdict
    for partner in partners(tool):
        theirs = judge(partner, sightings.get(partner.name))
        if not theirs.good:
            because = f"it counts only with its {partner.name}, and that is {theirs.because}"
            return Verdict(good=False, version="", because=because)
        if sightings[partner.name].folder != sightings[tool.name].folder:
            because = f"{partner.name} is not in the same folder"
            return Verdict(good=False, version="", because=because)
    return verdict


def modules_to_build(statuses: Sequence[ToolStatus]) -> tuple[Module, ...]:
    """The modules that miss from the cache, the longest build first so that it ends no later."""
    missing = _missing(statuses) & set(MODULE)
    return tuple(
        sorted((MODULE[name] for name in missing), key=lambda each: (-each.cold_seconds, each.name))
    )


def wheels_to_install(statuses: Sequence[ToolStatus]) -> tuple[Wheel, ...]:
    """The wheels that miss from the cache, in the catalogue's order."""
    missing = _missing(statuses)
    return tuple(wheel for wheel in WHEELS if wheel.name in missing)


def _missing(statuses: Sequence[ToolStatus]) -> set[str]:
    return {TOOL[each.name].module for each in statuses if each.state is State.MISSING}


def builds_at_once(cores: int, memory_gib: float) -> int:
    """How many modules to compile side by side.

    One ``go build`` uses every core while there are packages to compile; only its end, one linker
    on one core, leaves the others idle. So side by side pays where cores outnumber what one build
    can fill, and memory bounds it.
    """
    by_cores = cores // CORES_PER_BUILD
    by_memory = int(memory_gib // MEMORY_PER_BUILD_GIB)
    return max(1, min(by_cores, by_memory))
