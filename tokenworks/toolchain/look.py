"""Looking at what the machine has: each tool on PATH is asked for its version, within a limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tokenworks.toolchain.catalogue import (
    TOOL,
    with_partners,
)
from tokenworks.toolchain.decide import Sighting
from tokenworks.toolchain.kinds import Tool

ANSWER_SECONDS: Final = 15
"""A tool that has not said its version by then is taken for broken. The slowest here, pulumi on
two busy cores, needs under two."""


def look(names: Iterable[str], environ: Mapping[str, str], *, own: Path) -> dict[str, Sighting]:
    """What this machine has of the named tools, and of those that they count only together with.

    Only the first of each name on PATH is looked at: the one that a shell would run. One that
    hangs, fails or is not a program of this machine is a sighting with a problem. What lies under
    ``own``, the cache, is not the user's even where a shell has it on its PATH.
    """
    users = _without(environ, own)
    wanted = [TOOL[name] for name in with_partners(names)]
    with ThreadPoolExecutor(max_workers=len(wanted) or 1) as pool:
        seen = pool.map(lambda tool: _look_for(tool, users), wanted)
        return {tool.name: it for tool, it in zip(wanted, seen, strict=True) if it is not None}


def _without(environ: Mapping[str, str], own: Path) -> dict[str, str]:
    """The environment with no folder under ``own`` on PATH or as the Pulumi home."""
    users = {**environ}
    folders = environ.get("PATH", "").split(os.pathsep)
    users["PATH"] = os.pathsep.join(each for each in folders if not _is_under(each, own))
    if _is_under(environ.get("PULUMI_HOME", ""), own):
        del users["PULUMI_HOME"]
    return users


def _is_under(folder: str, own: Path) -> bool:
    return bool(folder) and Path(folder).absolute().is_relative_to(own)


def _look_for(tool: Tool, environ: Mapping[str, str]) -> Sighting | None:
    path = _where(tool, environ)
    if path is None:
        return None
    return ask(path, tool.asks, environ) if tool.asks else sighting(path)


def _where(tool: Tool, environ: Mapping[str, str]) -> Path | None:
    if tool.plugin_folder:
        return _plugin(tool, environ)
    command = shutil.which(tool.beside or tool.name, path=environ.get("PATH", ""))
    if command is None:
        return None
    # Links are not followed: version managers link every command to one program that acts by the
    # name it is called by.
    path = Path(command).absolute()
    if not tool.beside:
        return path
    # Pulumi starts the language host that lies beside its own program, links followed.
    neighbour = path.resolve().with_name(tool.name)
    return neighbour if neighbour.is_file() else None


def _plugin(tool: Tool, environ: Mapping[str, str]) -> Path | None:
    user = Path(environ.get("HOME") or Path.home())
    folder = Path(environ.get("PULUMI_HOME") or user / ".pulumi") / "plugins" / tool.plugin_folder
    # Pulumi puts this mark beside a plugin that it has not finished installing.
    if folder.with_name(f"{folder.name}.partial").exists():
        return None
    path = folder / tool.name
    return path.absolute() if path.is_file() else None


def sighting(path: Path, *, output: str = "", problem: str = "") -> Sighting:
    """What was seen at a path."""
    return Sighting(path=path, folder=path.resolve().parent, output=output, problem=problem)


def ask(path: Path, arguments: Iterable[str], environ: Mapping[str, str]) -> Sighting:
    """Run a tool to hear its version; a failure is part of the answer, never an exception."""
    try:
        code, said = _run([str(path), *arguments], environ)
    except TimeoutError:
        return sighting(path, problem=f"did not answer within {ANSWER_SECONDS} seconds")
    except OSError as error:
        return sighting(path, problem=f"does not start: {error.strerror}")
    if code != 0:
        first = said.strip().splitlines()[:1]
        return sighting(path, problem=": ".join((f"ends with code {code}", *first)))
    return sighting(path, output=said)


def _run(command: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and everything that was printed; a shim's own children are ended with it."""
    process = subprocess.Popen(
        command,
        env={**environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TimeoutError from None
    return process.returncode, said
