"""Running what was just made once, before it counts."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

from tokenworks.errors import OperationError
from tokenworks.toolchain.catalogue import (
    TOOLS,
    recipe,
)
from tokenworks.toolchain.decide import read_version
from tokenworks.toolchain.kinds import Tool
from tokenworks.toolchain.look import ANSWER_SECONDS, ask


def try_out(module: str, folder: Path, home: Path) -> None:
    """Run every program of a finished module once; what it writes for its user goes to ``home``.

    Raises:
        OperationError: one does not start, or says another version than it was built for.
    """
    for tool in (tool for tool in TOOLS if tool.module == module):
        problem = _try(tool, folder / tool.name, home)
        if problem:
            raise OperationError(
                f"trying out the {tool.name} that was just made",
                reason=f"it {problem}",
                remedy=f"check {recipe(module)} and the module's row in the catalogue",
            )


def _try(tool: Tool, path: Path, home: Path) -> str:
    if not tool.asks:
        return _try_plugin(path)
    seen = ask(path, tool.asks, {"PATH": os.defpath, "HOME": str(home)})
    if seen.problem or not tool.says_version:
        return seen.problem
    version = read_version(seen.output)
    return "" if str(version) == tool.version else f"says version {version}, not {tool.version}"


def _try_plugin(path: Path) -> str:
    """Start a provider the way Pulumi does: it prints its port once it serves, on loopback."""
    process = subprocess.Popen(
        [path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    killer = threading.Timer(ANSWER_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stdout is not None  # noqa: S101  it was started with a pipe
        port = process.stdout.readline().strip()
    finally:
        killer.cancel()
        process.kill()
        process.wait()
    return "" if port.isdigit() else "prints no port to serve on"
