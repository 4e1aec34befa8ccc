"""A PULUMI_HOME as Pulumi's installer lays it out: programs side by side, plugins by version.

Pulumi warns about a language host that is not beside its own program, and about a provider that
it finds on PATH. Here both are where it expects them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tokenworks.toolchain.build import RECORD
from tokenworks.toolchain.cache import Cache, digest, publish
from tokenworks.toolchain.catalogue import TOOL
from tokenworks.toolchain.decide import State, ToolStatus

BIN: Final = "bin"
_BESIDE: Final = tuple(
    name for tool in TOOL.values() if tool.beside for name in (tool.beside, tool.name)
)
"""The programs that belong side by side: Pulumi and its language host."""


def contents(statuses: Sequence[ToolStatus]) -> dict[str, Path]:
    """What belongs into the home: place inside it to the file that goes there.

    A plugin goes there wherever it comes from; of the programs those that were built, with the
    scripts that were published beside them. The user's own already lie side by side.
    """
    files: dict[str, Path] = {}
    for status in statuses:
        tool, path = TOOL[status.name], status.path
        if path is None:
            continue
        if tool.plugin_folder:
            files[f"plugins/{tool.plugin_folder}/{tool.name}"] = path
        elif tool.name in _BESIDE and status.state is State.BUILT:
            beside = (each for each in path.parent.iterdir() if each.name != RECORD)
            files.update({f"{BIN}/{each.name}": each for each in beside})
    return files


def make_home(
    cache: Cache, statuses: Sequence[ToolStatus]
) -> tuple[Path | None, tuple[ToolStatus, ...]]:
    """The home for these tools, made once, and the tools as they are found in it.

    None, when none of them belongs there.
    """
    files = contents(statuses)
    if not files:
        return None, tuple(statuses)
    place = _publish(cache, files)
    moved = {name: place / BIN / name for name in _BESIDE if f"{BIN}/{name}" in files}
    return place, tuple(replace(each, path=moved.get(each.name, each.path)) for each in statuses)


def _publish(cache: Cache, files: Mapping[str, Path]) -> Path:
    key = digest(json.dumps({place: str(path) for place, path in sorted(files.items())}).encode())
    name = f"pulumi-home-{key}"
    place = cache.root / name
    if place.exists():
        return place
    cache.prepare()
    with cache.lock(name, lambda: None):
        if not place.exists():
            scratch = cache.scratch(name)
            for inside, path in files.items():
                _link(path, scratch / inside)
            publish(scratch, place)
    return place


def _link(file: Path, place: Path) -> None:
    """The same file under a second name where the file system allows, else a copy.

    Not a symbolic link: a program that looks for what lies beside it follows that.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.hardlink_to(file.resolve())
    except OSError:
        shutil.copy2(file, place)
